// Follows a stream's TFRecord framing: finds the start of records, and detects every error except in a record's data,
// whose CRC TFRecordDataset checks anyway.
// trainer/demux/framing.py implements the same in Python, with the same messages, and checks the data.
#ifndef TRAINGRID_NATIVE_FRAMING_H_
#define TRAINGRID_NATIVE_FRAMING_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "crc32c.h"

namespace traingrid {

constexpr size_t kHeader = 12;                    // length (uint64) and its CRC (uint32), little endian
constexpr size_t kFooter = 4;                     // CRC of the data, which is not checked
constexpr uint64_t kMaxRecordBytes = 1ull << 30;  // maximum bytes of data: a corrupt length would be allocated

class Framing {
 public:
  Framing(std::string channel, std::string source) : channel_(std::move(channel)), source_(std::move(source)) {}

  // Processes `size` more bytes. Returns how many of them may be passed on: all, or those before the last byte of an
  // invalid header. In that case failure() has the reason, and the rest is ignored.
  size_t Accept(const char* data, size_t size) {
    size_t at = 0;
    while (at < size && failure_.empty()) {
      if (held_ < kHeader) {
        at += Header(data + at, size - at);
      } else if (left_ > 0) {
        at += Data(size - at);
      } else {
        at += Footer(size - at);
      }
    }
    return at;
  }

  // Returns true if the stream may end here; otherwise failure() has the reason.
  bool Finish() {
    if (!failure_.empty()) return false;
    const uint64_t end = position();
    if (held_ == 0 && end > 0) return true;
    if (end == 0) {
      Fail(source_ + " ended without any data. Check that the channel's S3 prefix or manifest contains TFRecord "
           "objects.");
    } else {
      Fail(source_ + " was truncated at byte " + std::to_string(end) + ", inside " +
           (held_ < kHeader ? "the header of " : "") + "record " + std::to_string(record_) + ", which starts at byte " +
           std::to_string(start_) + ". Its writer ended too early, or an object is incomplete.");
    }
    return false;
  }

  const std::string& failure() const { return failure_; }
  uint64_t position() const { return start_ + held_ + done_ + footer_held_; }
  const std::string& channel() const { return channel_; }
  const std::string& source() const { return source_; }

  // Checks a complete header, and sets the length of its data. Returns false if the header is invalid.
  bool Length(const char* header, uint64_t* length) {
    uint32_t crc;
    std::memcpy(length, header, sizeof *length);
    std::memcpy(&crc, header + sizeof *length, sizeof crc);
    if (Masked(ExtendCrc(~0u, header, sizeof *length)) != crc) {
      Fail("the header of " + Here() + " is corrupt: the CRC of its length does not match. The objects are damaged, "
           "compressed, or not TFRecords.");
      return false;
    }
    if (*length <= kMaxRecordBytes) return true;
    Fail(Here() + " has a length of " + std::to_string(*length) + " bytes, but the maximum is " +
         std::to_string(kMaxRecordBytes) + ". The object is damaged.");
    return false;
  }

  // Counts a record with `length` bytes of data that was passed on by other means.
  void Passed(uint64_t length) {
    start_ += kHeader + length + kFooter;
    ++record_;
  }

  // Records that a stream ended inside a record, after its header and `size` bytes that were passed on by other means.
  void Cut(const char* header, uint64_t size) {
    Accept(header, kHeader);
    done_ = size;
  }

  uint64_t records() const { return record_; }

 private:
  size_t Header(const char* data, size_t size) {
    const size_t taken = std::min(kHeader - held_, size);
    std::memcpy(header_ + held_, data, taken);
    if (held_ + taken == kHeader) {
      if (!Length(header_, &length_)) return taken - 1;
      left_ = length_;
      done_ = 0;
    }
    held_ += taken;
    return taken;
  }

  size_t Data(size_t size) {
    const size_t taken = static_cast<size_t>(std::min<uint64_t>(left_, size));
    left_ -= taken;
    done_ += taken;
    return taken;
  }

  size_t Footer(size_t size) {
    const size_t taken = std::min(kFooter - footer_held_, size);
    footer_held_ += taken;
    if (footer_held_ < kFooter) return taken;
    Passed(length_);
    held_ = footer_held_ = 0;
    done_ = 0;
    return taken;
  }

  std::string Here() const {
    return "record " + std::to_string(record_) + " at byte " + std::to_string(start_) + " of " + source_;
  }
  void Fail(const std::string& text) { failure_ = "Channel " + channel_ + ": " + text; }

  const std::string channel_, source_;
  std::string failure_;
  uint64_t start_ = 0;   // byte at which the record starts
  uint64_t record_ = 0;  // number of the record
  uint64_t length_ = 0, left_ = 0, done_ = 0;  // bytes of its data: total, remaining, processed
  size_t held_ = 0, footer_held_ = 0;          // processed bytes of its header and footer
  char header_[kHeader];
};

}  // namespace traingrid

#endif  // TRAINGRID_NATIVE_FRAMING_H_
