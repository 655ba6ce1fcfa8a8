// Stores that go around the caches: of large values that another process, or core, is to read. A
// line that is written whole is not read first, which is a third of a copy's traffic, and what the
// caches hold stays there.
#pragma once

#include <cstddef>

namespace leat {

// What has so many bytes would not stay in a core's cache until it is read.
inline constexpr size_t kLeastStreamed = 2 << 20;

// As memcpy, of memory that does not overlap: values of kLeastStreamed on are streamed. The bytes
// are there for whoever sees a store that the caller makes afterwards.
void stream_copy(void* to, const void* from, size_t bytes);

// A part of such a value: is streamed however small it is.
void stream_part(void* to, const void* from, size_t bytes);

// Streams a block that is in the cache, part of a large value. The bytes are there for others only
// after the caller's stream_fence().
void stream_block(void* to, const void* from, size_t bytes);
void stream_fence();

}  // namespace leat
