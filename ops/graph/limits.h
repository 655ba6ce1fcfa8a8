// The limits of a graph: every reader of graphs checks them, and tests cover the values at the
// limits. A graph or a file beyond one is refused with invalid_argument, before memory of that size
// is allocated. Each number is the largest value that is accepted.
//
// The totals (nodes, edges, bytes of constants) count the graph and all regions in it, so that
// nesting does not get around them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "devices/base/shape.h"

namespace leat::limits {

inline constexpr size_t kNodes = 1'000'000;
// Inputs over all nodes, and control edges.
inline constexpr size_t kEdges = 10'000'000;
// Inputs, or outputs, of one node.
inline constexpr size_t kOperands = 65'536;
// Dimensions of a tensor: 8.
inline constexpr int kRank = kMaxRank;
// Of one tensor. A symbolic size counts as its factor, because the symbol may be 1.
inline constexpr int64_t kElements = int64_t{1} << 40;
// All constants of one graph.
inline constexpr uint64_t kConstantBytes = uint64_t{16} << 30;
// The bytes of a constant that is part of the message of a graph. A larger one is in chunks beside
// the message (ops/capnp/graph_file.h). A change of this number changes the hashes of graphs.
inline constexpr size_t kInlineConstantBytes = 4096;
// Bytes of the UTF-8 name of a node, a value, a variable, a queue or a symbol.
inline constexpr size_t kNameLength = 1024;
inline constexpr size_t kAttributes = 256;  // of one node
// Elements of one attribute that is a list.
inline constexpr size_t kListLength = 1'000'000;
// Bytes of one string in an attribute.
inline constexpr size_t kStringLength = 1 << 20;
// Regions in regions. It also bounds the recursion of the readers.
inline constexpr int kNesting = 16;
// Elements of a value known at compile time: larger ones are not kept during inference, and such an
// op runs in the step.
inline constexpr int64_t kValueInference = 4096;
// Elements of a value that inference tracks as symbolic sizes; larger values are not tracked.
inline constexpr int64_t kSizeInference = 64;
// Bytes of a graph as text.
inline constexpr size_t kTextBytes = size_t{256} << 20;
// Bytes of graph.capnp: the limit of Cap'n Proto itself. The writer returns resource_exhausted.
inline constexpr size_t kMessageBytes = size_t{64} << 20;

// Limits of a plan. Its names, attributes, constants and message have the limits of a graph's.
inline constexpr size_t kPartitions = 65'536;
inline constexpr size_t kPlanEdges = 1'000'000;
inline constexpr size_t kPlanValues = 4'000'000;                // of one partition
inline constexpr size_t kInstructions = 1'000'000;              // of one partition
inline constexpr int64_t kTiles = int64_t{1} << 24;             // of one kernel
inline constexpr uint64_t kPartitionBytes = uint64_t{1} << 48;  // of a device's memory

}  // namespace leat::limits
