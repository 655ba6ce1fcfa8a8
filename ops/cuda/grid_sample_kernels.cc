// The factories of GridSample and its gradient on CUDA.
#include "ops/cuda/cuda_kernel.h"
#include "ops/cuda/cuda_kernels.h"
#include "ops/cuda/grid_sample.h"
#include "ops/definitions/grid_sample.h"

namespace leat::cuda {
namespace {

// X is input `of_x`; the grid follows it.
Result<GridSampleCall> grid_sample_call(const KernelSetup& setup, int of_x) {
  GridSampleCall call;
  LEAT_ASSIGN_OR_RETURN(call.spec, grid_sample_spec_of(setup, of_x));
  const Shape &x = setup.input(of_x).shape, &grid = setup.input(of_x + 1).shape;
  call.axes = x.rank() - 2;
  for (int d = 0; d < call.axes; ++d) call.size[d] = x[d + 2];
  call.rows = x[0];
  call.channels = x[1];
  call.elements = x.elements(2, x.rank());
  call.places = grid.elements(1, grid.rank() - 1);
  return call;
}

Result<std::unique_ptr<Kernel>> make_grid_sample(const KernelSetup& setup) {
  LEAT_ASSIGN_OR_RETURN(const GridSampleCall call, grid_sample_call(setup, 0));
  return make_cuda_kernel(setup, [call, dtype = setup.input(0).dtype](const KernelContext& context,
                                                                      cudaStream_t stream) {
    GridSampleCall now = call;
    now.x = context.inputs[0];
    now.grid = context.inputs[1];
    now.y = context.outputs[0];
    return launch_grid_sample(now, dtype, stream);
  });
}

Result<std::unique_ptr<Kernel>> make_grid_sample_grad(const KernelSetup& setup) {
  LEAT_ASSIGN_OR_RETURN(const GridSampleCall call, grid_sample_call(setup, 1));
  const DType dtype = setup.input(0).dtype;
  return make_cuda_kernel(
      setup,
      [call, dtype](const KernelContext& context, cudaStream_t stream) {
        GridSampleCall now = call;
        now.dy = context.inputs[0];
        now.x = context.inputs[1];
        now.grid = context.inputs[2];
        now.dx = context.outputs[0];
        now.dgrid = context.outputs[1];
        now.workspace = context.workspace;
        return launch_grid_sample_grad(now, dtype, stream);
      },
      grid_sample_grad_workspace(call, dtype));
}

}  // namespace

void add_grid_sample_kernels(Catalogue& catalogue) {
  catalogue.add_kernel("GridSample", kKind, make_grid_sample);
  catalogue.add_kernel("leat.GridSampleGrad", kKind, make_grid_sample_grad);
}

}  // namespace leat::cuda
