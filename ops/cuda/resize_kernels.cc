// The factories of Resize and its gradient on CUDA.
#include <algorithm>
#include <cstring>
#include <vector>

#include "devices/base/text.h"
#include "ops/cuda/cuda_kernel.h"
#include "ops/cuda/cuda_kernels.h"
#include "ops/cuda/resize.h"
#include "ops/definitions/resize_passes.h"

namespace leat::cuda {
namespace {

// A pass with its tables on the device.
struct LoadedPass {
  ResizePassCall call;
  const uint8_t* outside = nullptr;
  std::vector<std::shared_ptr<Buffer>> tables;
};

template <typename T>
Result<const T*> load_table(const KernelSetup& setup, const std::vector<T>& table,
                            LoadedPass& pass) {
  LEAT_ASSIGN_OR_RETURN(auto buffer, copy_of(setup, table.data(), table.size() * sizeof(T)));
  pass.tables.push_back(buffer);
  return static_cast<const T*>(buffer->data());
}

Result<LoadedPass> load_pass(const KernelSetup& setup, const ResizePass& pass, int64_t blocks) {
  LoadedPass loaded;
  loaded.call.before = blocks * pass.before;
  loaded.call.in = pass.in;
  loaded.call.out = pass.out;
  loaded.call.after = pass.after;
  const AxisWeights& weights = pass.weights;
  LEAT_ASSIGN_OR_RETURN(loaded.call.first, load_table(setup, weights.first, loaded));
  LEAT_ASSIGN_OR_RETURN(loaded.call.index, load_table(setup, weights.index, loaded));
  LEAT_ASSIGN_OR_RETURN(loaded.call.weight, load_table(setup, weights.weight, loaded));
  if (!weights.outside.empty()) {
    const std::vector<uint8_t> outside(weights.outside.begin(), weights.outside.end());
    LEAT_ASSIGN_OR_RETURN(loaded.outside, load_table(setup, outside, loaded));
  }
  return loaded;
}

// The work of a node: its passes, and what follows them.
struct ResizeRun {
  std::vector<LoadedPass> passes;
  bool picks = false;
  DType dtype = DType::f32;
  size_t bytes = 0;   // of the output
  size_t buffer = 0;  // bytes of a value between two passes
  ExtrapolateCall extrapolate;

  size_t element() const { return dtype_size(dtype); }
  DType between() const { return is_16bit_float(dtype) && !picks ? DType::f32 : dtype; }
  // Two values between passes are needed at most, which the passes take in turn.
  size_t workspace() const {
    return passes.size() < 2 ? 0 : std::min<size_t>(passes.size() - 1, 2) * buffer;
  }

  cudaError_t enqueue(const KernelContext& context, cudaStream_t stream) const {
    const void* x = context.inputs[0];
    void* const y = context.outputs[0];
    if (passes.empty())
      return bytes == 0 ? cudaSuccess
                        : cudaMemcpyAsync(y, x, bytes, cudaMemcpyDeviceToDevice, stream);
    for (size_t p = 0; p < passes.size(); ++p) {
      const bool is_last = p + 1 == passes.size();
      ResizePassCall call = passes[p].call;
      call.x = x;
      call.y = is_last ? y : static_cast<std::byte*>(context.workspace) + p % 2 * buffer;
      const auto error = picks ? launch_pick_pass(call, element(), stream)
                               : launch_resize_pass(call, p == 0 ? dtype : between(),
                                                    is_last ? dtype : between(), stream);
      if (error != cudaSuccess) return error;
      x = call.y;
    }
    if (extrapolate.count == 0) return cudaSuccess;
    ExtrapolateCall outside = extrapolate;
    outside.y = y;
    return launch_extrapolate(outside, element(), stream);
  }
};

Result<ResizeRun> make_run(const KernelSetup& setup, const ResizePasses& passes) {
  ResizeRun run;
  run.dtype = setup.input(0).dtype;
  run.bytes = setup.output(0).bytes();
  for (const ResizePass& pass : passes.list) {
    LEAT_ASSIGN_OR_RETURN(LoadedPass loaded, load_pass(setup, pass, passes.blocks));
    run.passes.push_back(std::move(loaded));
  }
  run.buffer = static_cast<size_t>(passes.blocks * passes.largest) *
               std::max(dtype_size(run.dtype), sizeof(float));
  return run;
}

void extrapolate_outside(const ResizeSpec& spec, ResizeRun& run, int64_t elements) {
  const bool any = std::any_of(run.passes.begin(), run.passes.end(),
                               [](const LoadedPass& pass) { return pass.outside != nullptr; });
  if (!spec.crops() || !any) return;
  for (const LoadedPass& pass : run.passes) {
    run.extrapolate.axes[run.extrapolate.count++] = {pass.outside, pass.call.out, pass.call.after};
  }
  run.extrapolate.elements = elements;
  const Tensor fill = Tensor::scalar_of(run.dtype, spec.extrapolation);
  std::memcpy(&run.extrapolate.bits, fill.raw(), fill.bytes());
}

Result<std::unique_ptr<Kernel>> make_kernel(const KernelSetup& setup, ResizeRun run) {
  if (run.passes.size() > ExtrapolateCall::kMostAxes)
    return unimplemented(cat(setup.subject, ": expected at most ", ExtrapolateCall::kMostAxes,
                             " axes to resize, received ", run.passes.size()));
  const size_t workspace = run.workspace();
  const auto shared = std::make_shared<const ResizeRun>(std::move(run));
  return make_cuda_kernel(
      setup,
      [shared](const KernelContext& context, cudaStream_t stream) {
        return shared->enqueue(context, stream);
      },
      workspace);
}

Result<std::unique_ptr<Kernel>> make_resize(const KernelSetup& setup) {
  const Shape &from = setup.input(0).shape, &to = setup.output(0).shape;
  LEAT_ASSIGN_OR_RETURN(const ResizeSpec spec, resize_spec_of(setup, from, to));
  LEAT_ASSIGN_OR_RETURN(ResizeRun run, make_run(setup, resize_passes(spec, from, to, false)));
  run.picks = spec.mode == ResizeMode::nearest;
  if (run.passes.size() <= ExtrapolateCall::kMostAxes)
    extrapolate_outside(spec, run, to.elements());
  return make_kernel(setup, std::move(run));
}

Result<std::unique_ptr<Kernel>> make_resize_grad(const KernelSetup& setup) {
  const Shape &dy = setup.input(0).shape, &dx = setup.output(0).shape;
  LEAT_ASSIGN_OR_RETURN(const ResizeSpec spec, resize_spec_of(setup, dx, dy));
  LEAT_ASSIGN_OR_RETURN(ResizeRun run, make_run(setup, resize_passes(spec, dx, dy, true)));
  return make_kernel(setup, std::move(run));
}

}  // namespace

void add_resize_kernels(Catalogue& catalogue) {
  catalogue.add_kernel("Resize", kKind, make_resize);
  catalogue.add_kernel("leat.ResizeGrad", kKind, make_resize_grad);
}

}  // namespace leat::cuda
