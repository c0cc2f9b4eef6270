// Reads a FIFO and checks its framing in passing; bytes behind a break are never handed out. In the reader's own thread:
// the stream's writer is busy as well, and a third thread was in the way of both on two cores.
#ifndef TRAINGRID_NATIVE_CHECKED_READER_H_
#define TRAINGRID_NATIVE_CHECKED_READER_H_

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

#include "fifo_source.h"
#include "framing.h"

namespace traingrid {

class CheckedReader {
 public:
  CheckedReader(const std::string& channel, const std::string& path, double timeout_seconds)
      : path_(path), source_(channel, path, timeout_seconds), framing_(channel, path), block_(new char[kBlock]) {}

  // Copies `size` bytes, waiting for no byte behind them; fewer at the end of the stream. Then *failure says what is
  // wrong with it, and is empty where it is sound.
  size_t Read(char* buffer, size_t size, std::string* failure) {
    size_t copied = 0;
    while (copied < size) {
      const size_t wanted = size - copied;
      if (begin_ < end_) {
        const size_t part = std::min(end_ - begin_, wanted);
        std::memcpy(buffer + copied, block_.get() + begin_, part);
        begin_ += part;
        copied += part;
      } else if (ended_) {
        *failure = failure_;
        break;
      } else if (wanted >= kLarge) {
        copied += Fill(buffer + copied, wanted);  // straight to where it is wanted
        ahead_ = kLeast;
      } else {
        begin_ = 0;
        end_ = Fill(block_.get(), ahead_);
        ahead_ = std::min(4 * ahead_, kBlock);
      }
    }
    return copied;
  }

 private:
  // Bytes. Small records come many at a time; of large ones little more than the header, so that they are copied once.
  static constexpr size_t kLeast = 1 << 12, kLarge = 1 << 15, kBlock = 1 << 17;

  // Reads what is there, at least a byte; returns how much of it is sound, 0 at the end.
  size_t Fill(char* at, size_t room) {
    const ssize_t got = source_.Read(at, room, [] { return false; });
    const size_t good = got > 0 ? framing_.Accept(at, got) : 0;
    if (got <= 0 || good < static_cast<size_t>(got)) End(got < 0 ? source_.failure() : "");
    return good;
  }

  void End(const std::string& failure) {
    ended_ = true;
    failure_ = failure.empty() ? framing_.failure() : failure;
    // A demultiplexer says why it has ended when it ends; beside a break in the midst of its bytes nothing is true yet.
    if (failure_.empty()) failure_ = FailureBeside(path_);
    if (failure_.empty() && !framing_.Finish()) failure_ = framing_.failure();
  }

  const std::string path_;
  FifoSource source_;
  Framing framing_;
  std::unique_ptr<char[]> block_;
  size_t begin_ = 0, end_ = 0;  // what waits in the block
  size_t ahead_ = kLeast;       // how much is read into it next
  bool ended_ = false;
  std::string failure_;
};

}  // namespace traingrid

#endif  // TRAINGRID_NATIVE_CHECKED_READER_H_
