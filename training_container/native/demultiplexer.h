// Distributes the records of one stream to the ranks of a host: record i to rank i mod ranks.
//
// Ranks wait for each other in every step, so a rank without data must get its record even if the next rank's FIFO is
// full. Only in that case are bytes kept in memory.
#ifndef TRAINGRID_NATIVE_DEMULTIPLEXER_H_
#define TRAINGRID_NATIVE_DEMULTIPLEXER_H_

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <string>
#include <vector>

#include "fifo_source.h"
#include "framing.h"
#include "local_fifo.h"

namespace traingrid {

class Demultiplexer {
 public:
  // `lifeline` is a descriptor that becomes readable or closed when the parent process ends; -1 without one.
  Demultiplexer(const std::string& channel, const std::string& path, double timeout_seconds, int lifeline,
         const std::vector<std::string>& fifos)
      : timeout_(timeout_seconds), lifeline_(lifeline), source_(channel, path, timeout_seconds), framing_(channel, path),
        block_(kBlock) {
    for (const auto& fifo : fifos) ranks_.emplace_back(fifo);
  }

  // Distributes the whole stream. Returns false if it is invalid, with the reason in failure(), or has no readers.
  bool Distribute() {
    if (!Continue() || !source_.Wait([this] { return !Wanted(); })) return Ended();
    while (mean() >= kWorthSplicing || framing_.records() < kSample) {
      if (!Continue()) return Ended();
      if (!MoveOne()) return Ended();
    }
    return CopyInBlocks();
  }

  // Writes the error for every remaining rank, and waits for ranks that have not opened their FIFO yet.
  void TellRanks() {
    start_ = Clock::now();
    for (const auto& rank : ranks_)
      if (!rank.gone()) rank.SetEnding(failure_);
    while (!ParentGone() && !TooLate()) {
      bool all = true;
      for (auto& rank : ranks_) {
        if (rank.TryOpen()) rank.Lose();
        all &= rank.gone();
      }
      if (all) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(kPatienceMilliseconds));
    }
  }

  const std::string& failure() const { return failure_; }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr size_t kBlock = kPipeSize;         // bytes per read if records are small: all that a FIFO can hold
  static constexpr uint64_t kWorthSplicing = 1 << 14; // bytes per record from which splicing is cheaper than copying
  static constexpr uint64_t kSample = 64;             // records after which their mean size is estimated
  static constexpr size_t kMostKept = 1 << 28;        // maximum bytes kept in memory for slow ranks
  static constexpr int kPatienceMilliseconds = 20;    // time for a full FIFO to be read, before bytes are kept

  // For large records: reads the header, and splices the rest from pipe to pipe. Returns false at the end or an error.
  bool MoveOne() {
    char header[kHeader];
    size_t held = 0;
    while (held < kHeader) {
      const ssize_t got = source_.Read(header + held, kHeader - held, [this] { return !Wanted(); });
      if (got <= 0) {
        framing_.Accept(header, held);
        return Stop(got);
      }
      held += got;
    }
    uint64_t length;
    if (!framing_.Length(header, &length)) return Stop(0);
    LocalFifo& rank = ranks_[framing_.records() % ranks_.size()];
    rank.Write({{header, kHeader}});
    uint64_t left = length + kFooter;
    while (left > 0) {
      const ssize_t moved = Move(&rank, left);
      if (moved <= 0) {
        framing_.Cut(header, length + kFooter - left);
        return Stop(moved);
      }
      left -= moved;
    }
    framing_.Passed(length);
    return true;
  }

  // Splices some bytes of a record to its rank. Returns 0 at the end of the stream, -1 if it cannot continue.
  ssize_t Move(LocalFifo* rank, uint64_t left) {
    while (rank->file() >= 0 && rank->queued() == 0) {
      const ssize_t moved = rank->Splice(source_.file(), std::min<uint64_t>(left, kBlock));
      if (moved >= 0) return moved;
      if (errno != EAGAIN) break;
      if (Writable(*rank, 0)) {
        if (!source_.Wait([this] { return !Wanted(); })) return -1;
      } else if (!Writable(*rank, kPatienceMilliseconds)) {
        if (!Wanted()) return -1;
        if (AnyStarving()) break;
      }
    }
    const ssize_t got = source_.Read(block_.data(), std::min<uint64_t>(left, kBlock), [this] { return !Wanted(); });
    if (got > 0) rank->Write({{block_.data(), static_cast<size_t>(got)}});
    return got;
  }

  // For small records: reads a block at a time, and splits it in memory.
  bool CopyInBlocks() {
    size_t held = 0;  // bytes in the block that are not distributed yet
    for (;;) {
      if (!Continue()) return Ended();
      if (held == block_.size()) block_.resize(2 * block_.size());
      const ssize_t got = source_.Read(block_.data() + held, block_.size() - held, [this] { return !Wanted(); });
      if (got <= 0) {
        framing_.Accept(block_.data(), held);
        Stop(got);
        return Ended();
      }
      held += got;
      const size_t copied = CopyBlock(held);
      if (!framing_.failure().empty()) {
        Stop(0);
        return Ended();
      }
      std::copy(block_.begin() + copied, block_.begin() + held, block_.begin());
      held -= copied;
    }
  }

  // Distributes the complete records in the first `size` bytes of the block. Returns the number of their bytes.
  size_t CopyBlock(size_t size) {
    std::vector<std::vector<iovec>> slices(ranks_.size());
    size_t at = 0;
    uint64_t length;
    while (at + kHeader <= size && framing_.Length(block_.data() + at, &length)) {
      const size_t whole = kHeader + length + kFooter;
      if (at + whole > size) break;
      slices[framing_.records() % ranks_.size()].push_back({block_.data() + at, whole});
      framing_.Passed(length);
      at += whole;
    }
    for (size_t rank = 0; rank < ranks_.size(); ++rank) ranks_[rank].Write(slices[rank]);
    return at;
  }

  // Waits until the next record may be read. Returns false if the stream cannot continue.
  bool Continue() {
    for (;;) {
      if (!Wanted()) return false;
      size_t kept = 0;
      for (auto& rank : ranks_) {
        rank.Flush();
        kept += rank.queued();
      }
      if (kept == 0 && AnyOpened()) return true;
      if (!Progress(kPatienceMilliseconds) && kept < kMostKept && AnyStarving()) return true;
    }
  }

  // Waits for a rank that accepts some of its kept bytes. Returns false if none does in time.
  bool Progress(int milliseconds) {
    std::vector<pollfd> waiting;
    for (const auto& rank : ranks_)
      if (rank.file() >= 0 && rank.queued() > 0) waiting.push_back({rank.file(), POLLOUT, 0});
    return poll(waiting.data(), waiting.size(), milliseconds) > 0;
  }

  // Returns true if a rank still reads, or may still open its FIFO. Detects ranks that have left or are too late.
  bool Wanted() {
    if (!failure_.empty()) return false;
    if (ParentGone()) return false;
    bool wanted = false;
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      LocalFifo& one = ranks_[rank];
      if (!one.TryOpen() && TooLate()) {
        failure_ = "Channel " + framing_.channel() + ": local rank " + std::to_string(rank) +
                   " did not begin to read within " + std::to_string(static_cast<int>(timeout_)) + " s.";
        return false;
      }
      pollfd end = {one.file(), 0, 0};
      if (one.file() >= 0 && poll(&end, 1, 0) > 0 && (end.revents & POLLERR)) one.Lose();
      wanted |= !one.gone();
    }
    return wanted;
  }

  bool ParentGone() const {
    pollfd parent = {lifeline_, 0, 0};
    return lifeline_ >= 0 && poll(&parent, 1, 0) > 0;
  }
  // The timeout for ranks that have not opened their FIFO yet.
  bool TooLate() const { return Clock::now() - start_ > std::chrono::duration<double>(timeout_); }

  bool AnyOpened() const {
    return std::any_of(ranks_.begin(), ranks_.end(), [](const LocalFifo& rank) { return rank.opened(); });
  }
  bool AnyStarving() const {
    return std::any_of(ranks_.begin(), ranks_.end(), [](const LocalFifo& rank) { return rank.Starving(); });
  }
  static bool Writable(const LocalFifo& rank, int milliseconds) {
    pollfd one = {rank.file(), POLLOUT, 0};
    return poll(&one, 1, milliseconds) > 0;
  }

  // Stores why the stream ends: at its end (got == 0), or because of the source's error (-1). Returns false.
  bool Stop(ssize_t got) {
    if (!failure_.empty()) return false;
    if (got < 0) {
      failure_ = source_.failure();
    } else if (std::string failure = FailureBeside(framing_.source()); !failure.empty()) {
      failure_ = failure;  // of the process that translates the stream
    } else if (!framing_.Finish()) {
      failure_ = framing_.failure();
    } else if (framing_.records() < ranks_.size()) {
      failure_ = "Channel " + framing_.channel() + ": " + framing_.source() + " has " +
                 std::to_string(framing_.records()) + " record(s), fewer than this host's " +
                 std::to_string(ranks_.size()) + " ranks. Add data to the channel, or start fewer processes.";
    } else {
      complete_ = true;
    }
    return false;
  }

  // Writes the kept bytes if the whole stream was valid. Each rank's FIFO ends immediately after its last record,
  // because other ranks may wait for that rank.
  bool Ended() {
    if (!complete_ && failure_.empty()) failure_ = source_.failure();
    while (complete_ && Wanted()) {
      for (auto& rank : ranks_) {
        rank.Flush();
        if (rank.opened() && rank.queued() == 0 && !rank.gone()) rank.Finish();
      }
      Progress(kPatienceMilliseconds);
    }
    return failure_.empty();
  }

  uint64_t mean() const { return framing_.position() / std::max<uint64_t>(framing_.records(), 1); }

  const double timeout_;
  const int lifeline_;
  Clock::time_point start_ = Clock::now();  // when waiting for ranks began
  FifoSource source_;
  Framing framing_;
  std::deque<LocalFifo> ranks_;
  std::vector<char> block_;
  std::string failure_;
  bool complete_ = false;
};

}  // namespace traingrid

#endif  // TRAINGRID_NATIVE_DEMULTIPLEXER_H_
