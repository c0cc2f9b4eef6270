// CRC-32C (Castagnoli), as TFRecords use it, at the speed of memory, because every byte of a stream passes through it.
//
// If the processor has the instruction, three lanes are computed in parallel (its latency is three cycles, its
// throughput one per cycle) and combined with tables. The method is Mark Adler's (stackoverflow.com/a/17646775).
#ifndef TRAINGRID_NATIVE_CRC32C_H_
#define TRAINGRID_NATIVE_CRC32C_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace traingrid {

constexpr uint32_t kPolynomial = 0x82f63b78;  // reversed

// The effect of appending `zeros` zero bytes on a CRC, as four tables of 256 entries, one for each byte of the CRC.
class ZerosAppended {
 public:
  explicit ZerosAppended(size_t zeros) {
    for (int byte = 0; byte < 4; ++byte)
      for (uint32_t value = 0; value < 256; ++value) table_[byte][value] = Shifted(value << (8 * byte), zeros);
  }
  uint32_t operator()(uint32_t crc) const {
    return table_[0][crc & 255] ^ table_[1][crc >> 8 & 255] ^ table_[2][crc >> 16 & 255] ^ table_[3][crc >> 24];
  }

 private:
  static uint32_t Shifted(uint32_t crc, size_t zeros) {
    for (size_t bit = 0; bit < 8 * zeros; ++bit) crc = crc & 1 ? crc >> 1 ^ kPolynomial : crc >> 1;
    return crc;
  }
  std::array<std::array<uint32_t, 256>, 4> table_;
};

inline uint64_t Load64(const char* at) {
  uint64_t value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

// Computes one byte per step with tables, for processors without the instruction.
inline uint32_t ExtendByTable(uint32_t crc, const char* data, size_t size) {
  static const std::array<ZerosAppended, 1> one = {ZerosAppended(1)};
  for (; size > 0; --size) crc = one[0](crc ^ static_cast<uint8_t>(*data++));
  return crc;
}

#if defined(__x86_64__)
constexpr size_t kLane = 1024;  // bytes; 3 KiB per iteration, so that records of 1 to 2 KB have a small remainder

__attribute__((target("sse4.2"))) inline uint32_t ExtendByInstruction(uint32_t crc, const char* data, size_t size) {
  static const ZerosAppended lane(kLane);
  uint64_t first = crc;
  for (; size >= 3 * kLane; data += 3 * kLane, size -= 3 * kLane) {
    uint64_t second = 0, third = 0;
    for (size_t at = 0; at < kLane; at += 8) {
      first = __builtin_ia32_crc32di(first, Load64(data + at));
      second = __builtin_ia32_crc32di(second, Load64(data + kLane + at));
      third = __builtin_ia32_crc32di(third, Load64(data + 2 * kLane + at));
    }
    first = lane(static_cast<uint32_t>(first)) ^ second;
    first = lane(static_cast<uint32_t>(first)) ^ third;
  }
  for (; size >= 8; data += 8, size -= 8) first = __builtin_ia32_crc32di(first, Load64(data));
  uint32_t rest = static_cast<uint32_t>(first);
  for (; size > 0; --size) rest = __builtin_ia32_crc32qi(rest, *data++);
  return rest;
}
#endif

// Returns the CRC (without its final inversion) after more bytes. The initial value is ~0.
inline uint32_t ExtendCrc(uint32_t crc, const char* data, size_t size) {
#if defined(__x86_64__)
  static const bool instruction = __builtin_cpu_supports("sse4.2");
  if (instruction) return ExtendByInstruction(crc, data, size);
#endif
  return ExtendByTable(crc, data, size);
}

// Returns the form of a CRC from ExtendCrc that a TFRecord stores. Source: TensorFlow, lib/hash/crc32c.h.
inline uint32_t Masked(uint32_t extended) {
  const uint32_t crc = ~extended;
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

}  // namespace traingrid

#endif  // TRAINGRID_NATIVE_CRC32C_H_
