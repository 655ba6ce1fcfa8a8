// CRC-32C (Castagnoli), the checksum of frames and of checkpoint chunks: polynomial 0x1EDC6F41,
// reflected, initial value and final xor 0xffffffff, as in iSCSI, ext4 and SSE4.2.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace leat {

// The checksum of `bytes`. With `before`, the checksum of earlier bytes, it goes on from there:
// crc32c(b, crc32c(a)) == crc32c(ab). Uses AVX-512 or SSE4.2 if the CPU has them.
uint32_t crc32c(std::span<const std::byte> bytes, uint32_t before = 0);

// The same result from tables, as CPUs without either compute it. Declared here so that a test can
// compare the two.
uint32_t crc32c_portable(std::span<const std::byte> bytes, uint32_t before = 0);

}  // namespace leat
