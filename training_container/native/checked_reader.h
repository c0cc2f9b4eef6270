// Reads a FIFO and validates its framing; bytes after an invalid header are never returned. This runs in the caller's
// thread, because the stream's writer is busy as well, and on two cores a third thread slowed both down.
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

  // Copies `size` bytes, without waiting for bytes after them. At the end of the stream it copies fewer, and sets
  // *failure to the stream's error, or leaves it empty if there is none.
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
      } else {
        begin_ = 0;
        end_ = Fill();
      }
    }
    return copied;
  }

 private:
  // Bytes: as many as the FIFO can hold. Reading large records directly to their destination saves a copy, but needs
  // two reads per record, after each of which the writer and this thread may wait for each other.
  static constexpr size_t kBlock = kPipeSize;

  // Reads the available bytes into the block, at least one. Returns how many of them are valid; 0 at the end.
  size_t Fill() {
    const ssize_t got = source_.Read(block_.get(), kBlock, [] { return false; });
    const size_t good = got > 0 ? framing_.Accept(block_.get(), got) : 0;
    if (got <= 0 || good < static_cast<size_t>(got)) End(got < 0 ? source_.failure() : "");
    return good;
  }

  void End(const std::string& failure) {
    ended_ = true;
    failure_ = failure.empty() ? framing_.failure() : failure;
    // A demultiplexer writes its result when it ends, so the file is meaningless if an error is detected earlier.
    if (failure_.empty()) failure_ = FailureBeside(path_);
    if (failure_.empty() && !framing_.Finish()) failure_ = framing_.failure();
  }

  const std::string path_;
  FifoSource source_;
  Framing framing_;
  std::unique_ptr<char[]> block_;
  size_t begin_ = 0, end_ = 0;  // the unread part of the block
  bool ended_ = false;
  std::string failure_;
};

}  // namespace traingrid

#endif  // TRAINGRID_NATIVE_CHECKED_READER_H_
