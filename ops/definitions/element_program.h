// leat.Elementwise: several elementwise ops in one pass over memory.
//
// A plan for an accelerator puts it in place of the ops (scheduler/compile/fuse_elementwise.cc).
// Its attributes are a program. Values have numbers: the inputs 0, 1, ..., and behind them the
// results of the steps. A step is written "Add 0 3 bfloat16": an op, the numbers of its operands,
// and the dtype to which its result is rounded. All elements are f32, f16 or bf16, and all
// arithmetic is in float, so that the bits are those of the single ops.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "devices/base/status.h"
#include "ops/elements/element_steps.h"
#include "ops/graph/graph.h"
#include "ops/graph/kernel.h"

namespace leat {

// The most that a program has of each.
inline constexpr int kMostProgramInputs = 8, kMostProgramSteps = 16, kMostProgramResults = 4;

struct ElementStep {
  elementwise::StepOp op = elementwise::StepOp::convert;
  int a = 0, b = -1;  // numbers of values; b is -1 if the op has one operand
  DType dtype = DType::f32;
  double params[2] = {};  // float attributes of the op
};

struct ElementProgram {
  int inputs = 0;
  std::vector<ElementStep> steps;
  std::vector<int> results;  // numbers of values: outputs 0, 1, ...

  // The dtypes of the outputs.
  std::vector<DType> result_dtypes() const;
};

// True for the dtypes that programs compute.
bool has_element_programs(DType dtype);

// The program as attributes: `steps`, `params` and `results`.
Attrs program_attrs(const ElementProgram& program);
// Reads it back, for a node with so many inputs. invalid_argument names what is wrong.
Result<ElementProgram> read_program(const Attrs& attrs, int inputs);

// A node of the graph as a step, for the caller to set the operands (b is -1 if there is one alone)
// and the dtype; nothing if there is no such step. `attrs` are the node's with their defaults.
// Looks at the op alone, not at types.
std::optional<ElementStep> step_of(const Node& node, const Attrs& attrs);

// How an input meets element i of the outputs: element i / divisor % size of the input.
struct ProgramOperand {
  int64_t divisor = 1, size = 1;
  bool whole(int64_t elements) const { return divisor == 1 && size == elements; }
};
// Nothing if the input is not broadcast along one run of axes, or does not broadcast.
std::optional<ProgramOperand> program_operand(const Shape& input, const Shape& output);
// Those of a node's inputs. invalid_argument if an operand is absent; unimplemented names an input
// that has none.
Result<std::vector<ProgramOperand>> program_operands(const OpTypes& types);

}  // namespace leat
