// How an elementwise op walks its operands, each broadcast to the shape of output 0 as numpy does.
//
// Threads: pure functions and values.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "ops/graph/kernel.h"

namespace leat {

// The sizes of the output and, for each operand, its step in elements along each axis (0:
// broadcast). The operands are the inputs in their order, of which an absent one has steps of 0,
// and then output 0.
struct BroadcastWalk {
  int rank = 0;
  std::array<int64_t, kMaxRank> sizes{};
  std::vector<std::array<int64_t, kMaxRank>> steps;  // by operand

  int64_t elements() const {
    int64_t n = 1;
    for (int d = 0; d < rank; ++d) n *= sizes[static_cast<size_t>(d)];
    return n;
  }
};

// The walk of a node. REQUIRES: the inputs broadcast to output 0.
BroadcastWalk broadcast_walk(const OpTypes& types);
// The same without axes of size 1, and with neighbouring axes merged along which every operand is
// contiguous.
BroadcastWalk collapsed(const BroadcastWalk& walk);

}  // namespace leat
