// The factories of leat.Recurrent and its gradient on CUDA.
#include <algorithm>

#include "devices/base/text.h"
#include "ops/cuda/cuda_kernel.h"
#include "ops/cuda/cuda_kernels.h"
#include "ops/cuda/recurrent.h"
#include "ops/definitions/recurrent.h"

namespace leat::cuda {
namespace {

// `y` is the shape of all states.
Result<RecurrentShape> recurrent_shape(const KernelSetup& setup, const Shape& y) {
  const auto spec = recurrent_spec(setup.attrs());
  if (!spec.ok()) return invalid_argument(cat(setup.subject, ": ", spec.status().message()));
  RecurrentShape shape;
  shape.cell = spec->cell == Cell::lstm  ? CellKind::lstm
               : spec->cell == Cell::gru ? CellKind::gru
                                         : CellKind::rnn;
  shape.reverse = spec->reverse;
  shape.input_forget = spec->input_forget;
  shape.linear_before_reset = spec->linear_before_reset;
  shape.clip = spec->clip;
  std::copy_n(spec->activations.begin(), std::min<size_t>(spec->activations.size(), 3),
              shape.activations);
  shape.steps = y[0];
  shape.rows = y[1];
  shape.state = y[2];
  shape.columns = spec->gates() * y[2];
  return shape;
}

// Absent operands at the end are not in the context's lists.
class CellOperands {
 public:
  explicit CellOperands(const KernelSetup& setup) : outputs_(setup.types.outputs.size()) {
    for (const OperandType& type : setup.types.inputs) inputs_.push_back(type.present);
  }
  const void* in(const KernelContext& context, size_t i) const {
    return i < inputs_.size() && inputs_[i] ? context.inputs[i] : nullptr;
  }
  void* out(const KernelContext& context, size_t i) const {
    return i < outputs_ ? context.outputs[i] : nullptr;
  }

 private:
  std::vector<bool> inputs_;
  const size_t outputs_;
};

Result<std::unique_ptr<Kernel>> make_recurrent(const KernelSetup& setup) {
  RecurrentCall call;
  LEAT_ASSIGN_OR_RETURN(call.shape, recurrent_shape(setup, setup.output(0).shape));
  const DType dtype = setup.input(0).dtype;
  return make_cuda_kernel(
      setup,
      [call, dtype, operands = CellOperands(setup)](const KernelContext& context,
                                                    cudaStream_t stream) {
        RecurrentCall now = call;
        now.x = operands.in(context, 0);
        now.r = operands.in(context, 1);
        now.h = operands.in(context, 2);
        now.c = operands.in(context, 3);
        now.extra = operands.in(context, 4);
        now.lengths = static_cast<const int32_t*>(operands.in(context, 5));
        now.y = operands.out(context, 0);
        now.last_h = operands.out(context, 1);
        now.last_c = operands.out(context, 2);
        now.gates = operands.out(context, 3);
        now.states = operands.out(context, 4);
        now.workspace = context.workspace;
        return launch_recurrent(now, dtype, stream);
      },
      recurrent_workspace(call.shape, dtype));
}

Result<std::unique_ptr<Kernel>> make_recurrent_grad(const KernelSetup& setup) {
  RecurrentGradCall call;
  LEAT_ASSIGN_OR_RETURN(call.shape, recurrent_shape(setup, setup.input(1).shape));
  const DType dtype = setup.input(0).dtype;
  return make_cuda_kernel(
      setup,
      [call, dtype, operands = CellOperands(setup)](const KernelContext& context,
                                                    cudaStream_t stream) {
        RecurrentGradCall now = call;
        now.r = operands.in(context, 0);
        now.y = operands.in(context, 1);
        now.gates = operands.in(context, 2);
        now.states = operands.in(context, 3);
        now.h = operands.in(context, 4);
        now.c = operands.in(context, 5);
        now.extra = operands.in(context, 6);
        now.lengths = static_cast<const int32_t*>(operands.in(context, 7));
        now.dy = operands.in(context, 8);
        now.dlast_h = operands.in(context, 9);
        now.dlast_c = operands.in(context, 10);
        now.dx = operands.out(context, 0);
        now.dproducts = operands.out(context, 1);
        now.dh = operands.out(context, 2);
        now.dc = operands.out(context, 3);
        now.before_h = operands.out(context, 4);
        now.before_c = operands.out(context, 5);
        now.workspace = context.workspace;
        return launch_recurrent_grad(now, dtype, stream);
      },
      recurrent_grad_workspace(call.shape, dtype));
}

}  // namespace

void add_recurrent_kernels(Catalogue& catalogue) {
  catalogue.add_kernel("leat.Recurrent", kKind, make_recurrent);
  catalogue.add_kernel("leat.RecurrentGrad", kKind, make_recurrent_grad);
}

}  // namespace leat::cuda
