// Hints for streams through memory that is in no cache near by. A core has few stores that miss in
// flight, and the hardware's prefetchers do not run far ahead of stores: loops that write such a
// stream beside their work ask for its lines early, and take half the time.
#pragma once

#include <cstdint>

#include "ops/cpu/vectorize.h"

namespace leat {

// How far ahead, in bytes. An address past the end of a buffer does no harm.
inline constexpr int64_t kPrefetchDistance = 4096;

LEAT_INLINE void prefetch_ahead(const void* stream) {
  __builtin_prefetch(
      reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(stream) + kPrefetchDistance));
}

}  // namespace leat
