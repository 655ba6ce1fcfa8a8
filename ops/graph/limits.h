// The limits of a graph: every reader of graphs checks them, and tests cover the values at the
// limits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "devices/base/shape.h"

namespace leat::limits {

inline constexpr size_t kNodes = 1'000'000;
inline constexpr size_t kEdges = 10'000'000;                    // inputs over all nodes
inline constexpr size_t kOperands = 65'536;                     // inputs, or outputs, of one node
inline constexpr int kRank = kMaxRank;                          // 8
inline constexpr int64_t kElements = int64_t{1} << 40;          // of one tensor
inline constexpr uint64_t kConstantBytes = uint64_t{16} << 30;  // all constants of one graph
inline constexpr size_t kInlineConstantBytes = 4096;  // larger ones are in files beside graph.capnp
inline constexpr size_t kNameLength = 1024;           // bytes
inline constexpr size_t kAttributes = 256;            // of one node
inline constexpr size_t kListLength = 1'000'000;      // of one attribute
inline constexpr size_t kStringLength = 1 << 20;      // bytes of one attribute
inline constexpr int kNesting = 16;                   // regions in regions
inline constexpr int64_t kValueInference = 4096;      // elements of a value known at compile time
inline constexpr size_t kTextBytes = size_t{256} << 20;  // of a graph as text
inline constexpr size_t kMessageBytes = size_t{64}
                                        << 20;  // of graph.capnp: the limit of Cap'n Proto itself

// Limits of a plan. Its names, attributes, constants and message have the limits of a graph's.
inline constexpr size_t kPartitions = 65'536;
inline constexpr size_t kPlanEdges = 1'000'000;
inline constexpr size_t kPlanValues = 4'000'000;                // of one partition
inline constexpr size_t kInstructions = 1'000'000;              // of one partition
inline constexpr int64_t kTiles = int64_t{1} << 24;             // of one kernel
inline constexpr uint64_t kPartitionBytes = uint64_t{1} << 48;  // of a device's memory

}  // namespace leat::limits
