// The digest of a tensor's bytes, by which an audit compares what two workers computed.
//
// It is made to find faults of hardware, not to withstand attacks: no change of a single 8-byte
// word goes unnoticed, and any other change does with a probability of about 2^-64.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace leat {

// A function of the bytes and their number alone, the same on every machine of one byte order.
uint64_t digest_of(std::span<const std::byte> bytes);

}  // namespace leat
