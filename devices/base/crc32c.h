// CRC-32C (Castagnoli), the checksum of frames and of checkpoint chunks: polynomial 0x1EDC6F41,
// reflected, initial value and final xor 0xffffffff, as in iSCSI, ext4 and SSE4.2.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace leat {

// The checksum of `bytes`; with `before`, of what `before` is the checksum of followed by `bytes`:
// crc32c(b, crc32c(a)) == crc32c(ab). Uses AVX-512 or SSE4.2 where the CPU has them.
uint32_t crc32c(std::span<const std::byte> bytes, uint32_t before = 0);

// The same, by tables: what CPUs without either run. Here so that a test can compare the two.
uint32_t crc32c_portable(std::span<const std::byte> bytes, uint32_t before = 0);

}  // namespace leat
