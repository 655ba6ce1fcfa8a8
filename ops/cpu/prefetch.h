// Hints for streams through memory that is in no cache of the core. A core has few stores that miss
// in flight at once, and the hardware's prefetchers do not run far ahead of stores. Loops that
// write such a stream besides their work request its lines early, and take half the time.
#pragma once

#include <cstdint>

#include "ops/cpu/vectorize.h"

namespace leat {

// The distance ahead, in bytes. An address past the end of a buffer is harmless.
inline constexpr int64_t kPrefetchDistance = 4096;

// Requests the cache line that is `bytes` after `stream`, for reading. A loop calls it once
// for each line of 64 bytes that it passes; more calls only cost time. It is a hint: it never
// faults and changes no result.
LEAT_INLINE void prefetch_ahead(const void* stream, int64_t bytes = kPrefetchDistance) {
  __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(stream) +
                                                   static_cast<uintptr_t>(bytes)));
}

}  // namespace leat
