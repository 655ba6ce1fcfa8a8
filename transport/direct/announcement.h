// The number of a value on its wire, which the inner link carries for it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace leat::direct {

inline constexpr size_t kAnnouncementBytes = sizeof(uint64_t);

// Little endian. Threads: a value.
struct Announcement {
  explicit Announcement(uint64_t number) {
    for (size_t i = 0; i < kAnnouncementBytes; ++i)
      bytes[i] = static_cast<std::byte>(number >> 8 * i);
  }
  static uint64_t read(const void* at) {
    uint64_t number = 0;
    for (size_t i = 0; i < kAnnouncementBytes; ++i)
      number |= static_cast<uint64_t>(static_cast<const std::byte*>(at)[i]) << 8 * i;
    return number;
  }
  std::array<std::byte, kAnnouncementBytes> bytes{};
};

}  // namespace leat::direct
