// The factory of leat.Elementwise on CUDA.
#include <algorithm>
#include <vector>

#include "devices/base/text.h"
#include "ops/cuda/cuda_kernel.h"
#include "ops/cuda/cuda_kernels.h"
#include "ops/cuda/element_program.h"
#include "ops/definitions/element_program.h"
#include "ops/definitions/pool.h"

namespace leat::cuda {
namespace {

static_assert(ProgramCall::kMostInputs == kMostProgramInputs &&
              ProgramCall::kMostSteps == kMostProgramSteps &&
              ProgramCall::kMostResults == kMostProgramResults);

// Gives a place to each result that a later step than the next one reads, until its last reader.
// unimplemented if there are too few.
class Places {
 public:
  explicit Places(const ElementProgram& program)
      : inputs_(program.inputs), last_reader_(program.steps.size(), -1) {
    for (int s = 0; s < static_cast<int>(program.steps.size()); ++s) {
      for (const int value :
           {program.steps[static_cast<size_t>(s)].a, program.steps[static_cast<size_t>(s)].b}) {
        if (value >= inputs_) last_reader_[static_cast<size_t>(value - inputs_)] = s;
      }
    }
    place_.assign(program.steps.size(), -1);
    std::vector<int> busy_until(ProgramCall::kMostKept, -1);
    for (int s = 0; s < static_cast<int>(program.steps.size()); ++s) {
      const int last = last_reader_[static_cast<size_t>(s)];
      if (last <= s + 1) continue;
      const auto free =
          std::find_if(busy_until.begin(), busy_until.end(), [&](int until) { return until <= s; });
      if (free == busy_until.end()) {
        fits_ = false;
        return;
      }
      *free = last;
      place_[static_cast<size_t>(s)] = static_cast<int>(free - busy_until.begin());
    }
  }
  bool fit() const { return fits_; }
  int of(int step) const { return place_[static_cast<size_t>(step)]; }
  Source source(int value, int step) const {
    if (value < 0) return {};
    if (value < inputs_) return {From::input, static_cast<uint8_t>(value)};
    if (value - inputs_ == step - 1) return {From::before, 0};
    return {From::kept, static_cast<uint8_t>(of(value - inputs_))};
  }

 private:
  const int inputs_;
  std::vector<int> last_reader_, place_;  // by step
  bool fits_ = true;
};

Result<std::unique_ptr<Kernel>> make_program(const KernelSetup& setup) {
  LEAT_ASSIGN_OR_RETURN(const auto operands, program_operands(setup.types));
  LEAT_ASSIGN_OR_RETURN(const ElementProgram program,
                        read_program(setup.attrs(), static_cast<int>(setup.types.inputs.size())));
  const Places places(program);
  if (!places.fit())
    return unimplemented(cat(setup.subject, ": expected at most ", ProgramCall::kMostKept,
                             " results that wait for a later step"));
  ProgramCall call;
  call.elements = setup.output(0).shape.elements();
  call.inputs = program.inputs;
  call.steps = static_cast<int>(program.steps.size());
  call.results = static_cast<int>(program.results.size());
  for (int k = 0; k < call.inputs; ++k) {
    const ProgramOperand& operand = operands[static_cast<size_t>(k)];
    call.input[k] = {nullptr, setup.input(k).dtype, operand.divisor, operand.size};
  }
  for (int s = 0; s < call.steps; ++s) {
    const ElementStep& from = program.steps[static_cast<size_t>(s)];
    ProgramCall::Step& step = call.step[s];
    step.op = from.op;
    step.a = places.source(from.a, s);
    step.b = places.source(from.b, s);
    step.a_number = static_cast<int8_t>(from.a);
    step.b_number = static_cast<int8_t>(from.b);
    step.dtype = from.dtype;
    step.kept = static_cast<int8_t>(places.of(s));
    std::copy_n(from.params, 2, step.params);
  }
  for (int r = 0; r < call.results; ++r)
    call.step[program.results[static_cast<size_t>(r)] - call.inputs].result =
        static_cast<int8_t>(r);
  return make_cuda_kernel(setup, [call](const KernelContext& context, cudaStream_t stream) {
    ProgramCall now = call;
    for (int k = 0; k < call.inputs; ++k) now.input[k].data = context.inputs[k];
    for (int r = 0; r < call.results; ++r) now.output[r] = context.outputs[r];
    return launch_program(now, stream);
  });
}

// Images of the outputs' shape, all with the channels last, and single elements.
LayoutSupport program_layouts(const OpTypes& types) {
  const Shape& shape = types.outputs[0].shape;
  if (shape.rank() != 4) return {};
  LayoutSupport support{0, all_present(types.outputs), false};
  for (size_t i = 0; i < types.inputs.size(); ++i) {
    const OperandType& input = types.inputs[i];
    if (input.shape.elements() == 1) continue;
    if (input.shape != shape) return {};
    support.inputs |= 1u << i;
  }
  return support.inputs == 0 ? LayoutSupport{} : support;
}

}  // namespace

void add_program_kernels(Catalogue& catalogue) {
  catalogue.add_kernel("leat.Elementwise", kKind, make_program);
  catalogue.add_layouts("leat.Elementwise", kKind, program_layouts);
}

}  // namespace leat::cuda
