// Reads bytes from a FIFO that may not exist yet. trainer/demux/record_reader.py implements the same in Python.
#ifndef TRAINGRID_NATIVE_FIFO_SOURCE_H_
#define TRAINGRID_NATIVE_FIFO_SOURCE_H_

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <utility>

namespace traingrid {

constexpr int kPipeSize = 1 << 20;  // default of /proc/sys/fs/pipe-max-size, the maximum without privileges

// Returns the error that a demultiplexer wrote for its FIFO; "" if it succeeded or there is none.
inline std::string FailureBeside(const std::string& path) {
  std::ifstream file(path + ".ending");
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

class FifoSource {
 public:
  FifoSource(std::string channel, std::string path, double timeout_seconds)
      : channel_(std::move(channel)), path_(std::move(path)), timeout_(timeout_seconds) {}
  ~FifoSource() {
    if (file_ >= 0) close(file_);
  }
  FifoSource(const FifoSource&) = delete;

  // Waits for a byte or the end. Returns false after a timeout, with the reason in failure(), or if `stop()` is true.
  template <typename Stop>
  bool Wait(Stop stop) {
    const auto start = Clock::now();
    while (!stop()) {
      if (file_ < 0) file_ = open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
      if (file_ < 0 && errno != ENOENT) return Fail("cannot be read: " + std::string(std::strerror(errno)) + ".");
      if (file_ >= 0 && Ready(kLookMilliseconds)) {
        if (!begun_) fcntl(file_, F_SETPIPE_SZ, kPipeSize);  // may fail: the user's pipe memory is exhausted
        begun_ = true;
        return true;
      }
      if (file_ >= 0 && !begun_ && Replaced() && !Ready(0)) {
        close(file_);
        file_ = -1;
      }
      if (Clock::now() - start > std::chrono::duration<double>(timeout_)) return Fail(TooLate());
      if (file_ < 0) std::this_thread::sleep_for(std::chrono::milliseconds(kLookMilliseconds));
    }
    return false;
  }

  // Reads up to `size` bytes, and waits for the first. Returns 0 at the end, and -1 if Wait() returns false.
  template <typename Stop>
  ssize_t Read(char* buffer, size_t size, Stop stop) {
    for (;;) {
      const ssize_t got = file_ < 0 || !begun_ ? -1 : read(file_, buffer, size);
      if (got >= 0) {
        position_ += got;
        return got;
      }
      if (begun_ && errno != EAGAIN && errno != EINTR) {
        Fail("cannot be read: " + std::string(std::strerror(errno)) + ".");
        return -1;
      }
      if (!Wait(stop)) return -1;
    }
  }

  int file() const { return file_; }
  const std::string& failure() const { return failure_; }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr int kLookMilliseconds = 50;

  bool Ready(int milliseconds) const {
    pollfd one = {file_, POLLIN, 0};
    return poll(&one, 1, milliseconds) > 0;
  }

  // Returns true if the path is a different file now. A FIFO left by an earlier run has no writer.
  bool Replaced() const {
    struct stat own, now;
    if (fstat(file_, &own) != 0 || stat(path_.c_str(), &now) != 0) return true;
    return own.st_dev != now.st_dev || own.st_ino != now.st_ino;
  }

  std::string TooLate() const {
    char seconds[32];
    std::snprintf(seconds, sizeof seconds, "%g", timeout_);
    if (begun_) {
      return path_ + " provided no data for " + seconds + " s after byte " + std::to_string(position_) +
             ". Its writer hangs; pipe_timeout_seconds sets the timeout.";
    }
    return "nothing wrote to " + path_ + " within " + seconds +
           " s. Check that the channel is in Pipe mode and has objects; pipe_timeout_seconds sets the timeout.";
  }
  bool Fail(const std::string& text) {
    failure_ = "Channel " + channel_ + ": " + text;
    return false;
  }

  const std::string channel_, path_;
  const double timeout_;
  std::string failure_;
  int file_ = -1;
  bool begun_ = false;  // a byte or the end was seen, so the writer has opened the FIFO
  uint64_t position_ = 0;
};

}  // namespace traingrid

#endif  // TRAINGRID_NATIVE_FIFO_SOURCE_H_
