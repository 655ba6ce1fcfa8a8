// Memory in whole pages, which several ranges of addresses can show: values that come from
// different places, each in memory of its own, are seen as one without a copy.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "devices/core/device.h"

namespace leat {

inline constexpr size_t kPageBytes = 4096;
// What is at least so large and lies in the host's memory may be worth having in pages.
inline constexpr size_t kLeastInPages = 2 << 20;
// Larger ones are better in huge pages, which cannot be shown twice.
inline constexpr size_t kMostInPages = 16 << 20;

// Zeroed memory of the host that begins on a page, its pages touched, which join_pages() can show
// again. resource_exhausted if there is no room.
Result<std::unique_ptr<Buffer>> allocate_pages(size_t bytes);

// A piece of a joined range: memory of allocate_pages(), or of a mapped memory file.
struct Pages {
  void* data = nullptr;  // begins a page
  size_t bytes = 0;      // whole pages, but for the last piece
};
// Addresses that show `pieces` one after the other: what is written at either place is there at
// both. The pieces may go before it. resource_exhausted if there are no addresses, or the memory is
// not of the kind that can be shown twice.
Result<std::unique_ptr<Buffer>> join_pages(std::span<const Pages> pieces);

}  // namespace leat
