#pragma once

#include <cstdint>

namespace leat {

// The least multiple of `alignment` that holds `bytes`.
constexpr uint64_t align_up(uint64_t bytes, uint64_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

}  // namespace leat
