// Copies that go around the caches, for large values that another process or core reads next.
//
// A normal store reads the line first and evicts another one. A streamed line that is written whole
// is not read first, which saves a third of the traffic of a copy, and the caches keep what they
// hold.
//
// Threads: any.
#pragma once

#include <cstddef>

namespace leat {

// A value of this many bytes would leave a core's cache before it is read.
inline constexpr size_t kLeastStreamed = 2 << 20;

// Copies as memcpy does, and streams values of kLeastStreamed bytes and more. A thread that sees a
// later store of the caller sees the bytes, too. REQUIRES: the ranges do not overlap.
void stream_copy(void* to, const void* from, size_t bytes);

// Copies a part of a large value: it streams however small the part is.
void stream_part(void* to, const void* from, size_t bytes);

// Streams a block that is in the cache and belongs to a large value. Other threads may see the
// bytes only after the caller's stream_fence().
void stream_block(void* to, const void* from, size_t bytes);
// Orders streamed stores before every later store of this thread.
void stream_fence();

}  // namespace leat
