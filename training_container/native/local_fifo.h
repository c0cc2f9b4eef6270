// The writing end of one rank's FIFO: never blocks, keeps bytes that the rank cannot take yet, and handles its exit.
#ifndef TRAINGRID_NATIVE_LOCAL_FIFO_H_
#define TRAINGRID_NATIVE_LOCAL_FIFO_H_

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <string>
#include <vector>

#include "fifo_source.h"

namespace traingrid {

class LocalFifo {
 public:
  explicit LocalFifo(std::string path) : path_(std::move(path)) {}

  // Opens the FIFO if its rank has opened it. There is no other way to detect that.
  bool TryOpen() {
    if (file_ >= 0 || gone_) return true;
    file_ = open(path_.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    if (file_ >= 0) fcntl(file_, F_SETPIPE_SZ, kPipeSize);
    return file_ >= 0;
  }

  // Writes slices, or keeps copies of the bytes that do not fit now.
  void Write(const std::vector<iovec>& slices) {
    size_t next = 0, into = 0;  // the first slice that is not written, and the number of its written bytes
    while (next < slices.size() && queued() == 0 && file_ >= 0) {
      const int count = static_cast<int>(std::min<size_t>(slices.size() - next, IOV_MAX));
      std::vector<iovec> part(slices.begin() + next, slices.begin() + next + count);
      part[0] = {static_cast<char*>(part[0].iov_base) + into, part[0].iov_len - into};
      ssize_t done = writev(file_, part.data(), count);
      if (done < 0 && errno == EINTR) continue;
      if (done < 0) {
        if (errno != EAGAIN) Lose();
        break;
      }
      for (done += into, into = 0; next < slices.size() && done >= static_cast<ssize_t>(slices[next].iov_len); ++next)
        done -= slices[next].iov_len;
      into = done;
    }
    for (; next < slices.size() && !gone_; ++next, into = 0)
      queue_.append(static_cast<char*>(slices[next].iov_base) + into, slices[next].iov_len - into);
  }

  // Moves up to `size` bytes from another pipe without copying. Returns -1 and sets errno as splice() does.
  ssize_t Splice(int source, size_t size) {
    const ssize_t moved = splice(source, nullptr, file_, nullptr, size, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
    if (moved < 0 && errno == EPIPE) Lose();
    return moved;
  }

  // Writes kept bytes, as many as fit.
  void Flush() {
    while (queued() > 0 && file_ >= 0) {
      const ssize_t done = write(file_, queue_.data() + written_, queued());
      if (done < 0 && errno == EINTR) continue;
      if (done < 0) {
        if (errno != EAGAIN) Lose();
        break;
      }
      written_ += done;
    }
    if (queued() == 0 || written_ > queue_.size() / 2) {
      queue_.erase(0, written_);
      written_ = 0;
    }
  }

  // Closes the FIFO of a rank that has closed its end.
  void Lose() {
    if (file_ >= 0) close(file_);
    file_ = -1;
    gone_ = true;
    queue_.clear();
    written_ = 0;
  }

  // Closes the FIFO of a rank that has got all its data.
  void Finish() {
    SetEnding("");
    Lose();
  }

  // Returns true if the rank has read everything that it was given.
  bool Starving() const {
    int unread = 0;
    return file_ >= 0 && queued() == 0 && ioctl(file_, FIONREAD, &unread) == 0 && unread == 0;
  }

  // Writes the message that the rank finds when its FIFO ends; empty on success.
  void SetEnding(const std::string& sentence) const {
    const std::string path = path_ + ".ending", written = path + ".part";
    if (FILE* file = std::fopen(written.c_str(), "w")) {
      std::fputs(sentence.c_str(), file);
      std::fclose(file);
      std::rename(written.c_str(), path.c_str());
    }
  }

  size_t queued() const { return queue_.size() - written_; }
  bool gone() const { return gone_; }
  bool opened() const { return file_ >= 0 || gone_; }
  int file() const { return file_; }
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
  int file_ = -1;
  bool gone_ = false;
  std::string queue_;
  size_t written_ = 0;  // bytes of queue_ that are already in the FIFO
};

}  // namespace traingrid

#endif  // TRAINGRID_NATIVE_LOCAL_FIFO_H_
