// Memory in whole pages that several ranges of addresses can show. Values that arrive from
// different places, each in memory of its own, then appear side by side as one value without a
// copy.
//
// Threads: any, for all functions.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "devices/core/device.h"

namespace leat {

// The size of a page on every system that Leat runs on.
inline constexpr size_t kPageBytes = 4096;
// Smaller values cost less to copy than to map.
inline constexpr size_t kLeastInPages = 2 << 20;
// Larger values are better in huge pages, and those cannot be shown twice.
inline constexpr size_t kMostInPages = 16 << 20;

// Zeroed memory of the host that begins on a page and that join_pages() can show again. Its pages
// are touched. resource_exhausted if there is no room.
Result<std::unique_ptr<Buffer>> allocate_pages(size_t bytes);

// One piece of a joined range: memory of allocate_pages() or of a mapped memory file.
struct Pages {
  // The beginning of a page.
  void* data = nullptr;
  // Whole pages, except for the last piece.
  size_t bytes = 0;
};
// A range of addresses that shows `pieces` one after the other. A store through either address is
// seen through the other. The result keeps the memory: the pieces may be freed before it.
// resource_exhausted if there are no addresses left or the memory is of a kind that cannot be shown
// twice; internal if a piece is not made of whole pages.
Result<std::unique_ptr<Buffer>> join_pages(std::span<const Pages> pieces);

}  // namespace leat
