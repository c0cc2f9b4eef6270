// A thread that reads a FIFO ahead and checks its framing, so that the system call's copy and the checks run beside
// TensorFlow's own work. Bytes pass through a ring; those behind a break never leave it.
#ifndef TRAINGRID_NATIVE_READ_AHEAD_H_
#define TRAINGRID_NATIVE_READ_AHEAD_H_

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "fifo_source.h"
#include "framing.h"

namespace traingrid {

class ReadAhead {
 public:
  ReadAhead(const std::string& channel, const std::string& path, double timeout_seconds)
      : path_(path), source_(channel, path, timeout_seconds), framing_(channel, path), ring_(new char[kRing]) {
    thread_ = std::thread([this] { Fill(); });
  }
  ~ReadAhead() {
    stopped_ = true;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      room_.notify_one();
    }
    thread_.join();
  }

  // Copies `size` bytes; fewer at the end of the stream. Then *failure says what is wrong with it, and is empty where it
  // is sound.
  size_t Read(char* buffer, size_t size, std::string* failure) {
    size_t copied = 0;
    while (copied < size) {
      const size_t there = Await(failure);
      if (there == 0) break;
      const size_t part = std::min({there, size - copied, kRing - tail_ % kRing});
      std::memcpy(buffer + copied, ring_.get() + tail_ % kRing, part);
      copied += part;
      Release(part);
    }
    return copied;
  }

 private:
  static constexpr size_t kRing = 1 << 18;  // bytes: stays in the second-level cache
  // Bytes of one read(): reader and writer of a pipe lock each other out while they copy, so that the writer stands still
  // meanwhile. Other sizes from 32 KiB to 1 MiB made no difference beyond the noise of a busy machine.
  static constexpr size_t kPart = 1 << 17;

  // Returns how many bytes wait, 0 at the end.
  size_t Await(std::string* failure) {
    if (seen_ == tail_) {
      std::unique_lock<std::mutex> lock(mutex_);
      bytes_.wait(lock, [this] { return head_ != tail_ || ended_; });
      seen_ = head_;
      if (seen_ == tail_) *failure = failure_;
    }
    return seen_ - tail_;
  }

  void Release(size_t part) {
    std::lock_guard<std::mutex> lock(mutex_);
    tail_ += part;
    if (waiting_for_room_ && kRing - (head_ - tail_) >= kPart) room_.notify_one();
  }

  void Fill() {
    std::string failure;
    for (;;) {
      const size_t room = Room();
      if (room == 0) break;
      char* at = ring_.get() + head_ % kRing;
      const ssize_t got = source_.Read(at, room, [this] { return stopped_.load(); });
      if (got <= 0) {
        if (got < 0) failure = source_.failure();
        break;
      }
      const size_t good = framing_.Accept(at, got);
      std::lock_guard<std::mutex> lock(mutex_);
      head_ += good;
      bytes_.notify_one();
      if (good < static_cast<size_t>(got)) break;
    }
    End(failure);
  }

  // Waits for room in one piece; 0 where nobody wants more.
  size_t Room() {
    std::unique_lock<std::mutex> lock(mutex_);
    waiting_for_room_ = true;
    room_.wait(lock, [this] { return kRing - (head_ - tail_) >= kPart || stopped_; });
    waiting_for_room_ = false;
    if (stopped_) return 0;
    return std::min({kPart, kRing - (head_ - tail_), kRing - head_ % kRing});
  }

  void End(std::string failure) {
    if (failure.empty()) failure = FailureBeside(path_);
    if (failure.empty() && !framing_.Finish()) failure = framing_.failure();
    std::lock_guard<std::mutex> lock(mutex_);
    failure_ = failure;
    ended_ = true;
    bytes_.notify_one();
  }

  const std::string path_;
  FifoSource source_;
  Framing framing_;
  std::unique_ptr<char[]> ring_;
  std::mutex mutex_;
  std::condition_variable bytes_, room_;
  uint64_t head_ = 0, tail_ = 0;  // bytes put into the ring and taken out of it, ever
  uint64_t seen_ = 0;             // the reader's last look at head_
  bool waiting_for_room_ = false, ended_ = false;
  std::string failure_;
  std::atomic<bool> stopped_{false};
  std::thread thread_;
};

}  // namespace traingrid

#endif  // TRAINGRID_NATIVE_READ_AHEAD_H_
