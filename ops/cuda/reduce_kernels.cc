// The factories of the reductions on CUDA.
#include <algorithm>

#include "devices/base/text.h"
#include "ops/cuda/copy.h"
#include "ops/cuda/cuda_kernel.h"
#include "ops/cuda/cuda_kernels.h"
#include "ops/cuda/reduce.h"
#include "ops/definitions/reduce_shape.h"

namespace leat::cuda {
namespace {

static_assert(kMostLoops >= kMaxRank);

LoopNest plain(const Loops& loops) {
  LoopNest out;
  out.count = loops.count;
  out.total = loops.total;
  std::copy_n(loops.sizes.begin(), loops.count, out.sizes);
  std::copy_n(loops.strides.begin(), loops.count, out.strides);
  return out;
}

ReduceCall call_of(const ReduceShape& shape, Reduction reduction) {
  ReduceCall call;
  call.reduction = static_cast<int>(reduction);
  call.rows = shape.rows;
  call.row_elements = shape.row_elements;
  call.row_results = shape.row_results;
  call.folded = shape.folded;
  call.line_reduced = shape.line_reduced;
  call.line = shape.line;
  call.kept = plain(shape.kept);
  call.reduced = plain(shape.reduced);
  return call;
}

Result<std::unique_ptr<Kernel>> make_reduce(const KernelSetup& setup, Reduction reduction) {
  const Shape& in = setup.input(0).shape;
  const DType dtype = setup.input(0).dtype;
  const ReduceCall call =
      call_of(make_reduce_shape(in, reduced_axes(setup, 1, in.rank())), reduction);
  if (in.elements() == 0) {
    const uint64_t bits = empty_result_bits(call.reduction, dtype);
    return make_cuda_kernel(setup, [=, results = setup.output(0).shape.elements()](
                                       const KernelContext& context, cudaStream_t stream) {
      return launch_fill_bits(context.outputs[0], bits, results, dtype_size(dtype), stream);
    });
  }
  return make_cuda_kernel(
      setup,
      [call, dtype](const KernelContext& context, cudaStream_t stream) {
        ReduceCall now = call;
        now.x = context.inputs[0];
        now.y = context.outputs[0];
        now.workspace = context.workspace;
        return launch_reduce(now, dtype, stream);
      },
      reduce_workspace(call, dtype));
}

// The steps of the results along the axes of x: 0 along those that are reduced.
void add_steps(const Shape& x, AxisSet axes, ReduceGradCall& call) {
  call.rank = x.rank();
  int64_t step = 1;
  for (int d = x.rank() - 1; d >= 0; --d) {
    const bool reduced = axes >> d & 1;
    call.sizes[d] = x[d];
    call.steps[d] = reduced ? 0 : step;
    if (!reduced) step *= x[d];
  }
}

Result<std::unique_ptr<Kernel>> make_reduce_grad(const KernelSetup& setup) {
  const std::string name = attr_string(setup.attrs(), "reduction");
  Reduction reduction = Reduction::sum;
  // Inference has checked the name, so the search ends.
  while (reduction_name(reduction) != name)
    reduction = static_cast<Reduction>(static_cast<int>(reduction) + 1);
  const Shape& x = setup.input(1).shape;
  const DType dtype = setup.input(1).dtype;
  const AxisSet axes = reduced_axes(setup, 3, x.rank());
  const ReduceCall call = call_of(make_reduce_shape(x, axes), reduction);
  for (int i : {0, 2}) {
    if (!setup.types.has_input(i) || setup.input(i).shape.elements() == call.results()) continue;
    return invalid_argument(cat(setup.subject, ": input ", i, ": expected ", call.results(),
                                " results of the reduction, received ",
                                setup.input(i).shape.elements()));
  }
  ReduceGradCall grad;
  grad.elements = x.elements();
  grad.results = call.results();
  grad.reduction = call.reduction;
  grad.folded = call.folded;
  add_steps(x, axes, grad);
  const bool counts =
      reduction == Reduction::max || reduction == Reduction::min || reduction == Reduction::prod;
  const bool has_y = setup.types.has_input(2);
  return make_cuda_kernel(
      setup,
      [=](const KernelContext& context, cudaStream_t stream) {
        ReduceGradCall now = grad;
        now.dy = context.inputs[0];
        now.x = context.inputs[1];
        now.y = has_y ? context.inputs[2] : nullptr;
        now.dx = context.outputs[0];
        now.workspace = context.workspace;
        if (counts && now.elements > 0) {
          ReduceCall count = call;
          count.x = now.x;
          count.y = const_cast<void*>(now.y);
          count.workspace = context.workspace;
          if (const auto error = launch_count_hits(count, dtype, stream)) return error;
        }
        return launch_reduce_grad(now, dtype, stream);
      },
      counts ? hits_workspace(call) : 0);
}

Result<std::unique_ptr<Kernel>> make_arg(const KernelSetup& setup, bool largest) {
  const Shape& in = setup.input(0).shape;
  const int64_t axis = attr_int(setup.attrs(), "axis");
  const int at = static_cast<int>(axis < 0 ? axis + in.rank() : axis);
  ArgCall call;
  call.outer = in.elements(0, at);
  call.size = in[at];
  call.inner = in.elements(at + 1, in.rank());
  call.largest = largest;
  call.last = attr_int(setup.attrs(), "select_last_index") != 0;
  return make_cuda_kernel(setup, [call, dtype = setup.input(0).dtype](const KernelContext& context,
                                                                      cudaStream_t stream) {
    ArgCall now = call;
    now.x = context.inputs[0];
    now.y = context.out<int64_t>(0);
    return launch_arg(now, dtype, stream);
  });
}

}  // namespace

void add_reduce_kernels(Catalogue& catalogue) {
  constexpr std::pair<const char*, Reduction> kOps[] = {
      {"ReduceSum", Reduction::sum},   {"ReduceMean", Reduction::mean},
      {"ReduceMax", Reduction::max},   {"ReduceMin", Reduction::min},
      {"ReduceProd", Reduction::prod}, {"ReduceSumSquare", Reduction::sum_square},
      {"ReduceL1", Reduction::l1},     {"ReduceL2", Reduction::l2},
  };
  for (const auto& [op, reduction] : kOps) {
    catalogue.add_kernel(op, kKind, [reduction = reduction](const KernelSetup& setup) {
      return make_reduce(setup, reduction);
    });
  }
  catalogue.add_kernel("leat.ReduceGrad", kKind, make_reduce_grad);
  catalogue.add_kernel("ArgMax", kKind,
                       [](const KernelSetup& setup) { return make_arg(setup, true); });
  catalogue.add_kernel("ArgMin", kKind,
                       [](const KernelSetup& setup) { return make_arg(setup, false); });
}

}  // namespace leat::cuda
