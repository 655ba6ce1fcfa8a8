// Mixed precision: the pass that lets a step compute in 16 bits while its variables stay float32.
//
// Each op computes in 16 bits, in float32, or as its inputs come (OpPrecision). The pass adds the
// Casts between them; gradients come back through the same Casts, so that those of variables are
// float32 again.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "devices/base/dtype.h"
#include "devices/base/status.h"
#include "ops/graph/graph.h"
#include "scheduler/graph/rewrite.h"

namespace leat {

// The part of a step that computes in 16 bits. Patterns are globs. A pattern matches a node by the
// name of its op ("Softmax", "leat.Recurrent"), by its own name, or by the name of one of its
// outputs
// ("layer3.*"). If patterns of both lists match a node, it computes in float32.
struct AutocastSpec {
  DType compute = DType::invalid;   // f16 or bf16; invalid: the pass changes nothing
  std::vector<std::string> wide;    // patterns of what computes in float32
  std::vector<std::string> narrow;  // patterns of what computes in 16 bits

  bool enabled() const { return compute != DType::invalid; }
};

// The type that an op computes in, if no pattern says otherwise.
enum class OpPrecision : uint8_t {
  narrow,  // 16 bits: products, whose time is that of a step
  // the type of its inputs: 16 bits if one of them is, and no other is float32. Variables,
  // constants and what is made of them alone are cast to what the other inputs are.
  follows,
  wide,  // float32: exponentials, sums, statistics, losses, writes
};
// The names of all ops that have a place of their own, for tests. All others follow if their
// outputs have the elements of their inputs (OpDef::moves, OpDef::view), and else are wide.
std::vector<std::string_view> listed_ops();
OpPrecision precision_of(const OpDef& op);
// Another type variable of the op, whose inputs must have the type that it computes in: the mask of
// an Attention. Empty for most.
std::string_view beside_of(const OpDef& op);

// Casts the float32 values of the graph as the spec says. Each value is cast once, however many
// nodes read it. The inputs and outputs of the graph, and the fetches, keep their types. A constant
// that the 16 bits cannot hold, such as a mask of -1e9 or a single 1e-8 in float16, makes the ops
// that read it compute in float32. The types of the result are not inferred. `borders` gets the ids
// of the new graph. Errors are those of inference.
Result<Graph> autocast(Graph graph, Borders& borders, const AutocastSpec& spec);

// invalid_argument if a pattern of the spec matches no node of the graph.
Status check_patterns(const Graph& graph, const AutocastSpec& spec);

}  // namespace leat
