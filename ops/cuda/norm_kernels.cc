// The factories of the normalizations on CUDA.
#include <utility>

#include "devices/base/text.h"
#include "ops/cuda/cuda_kernel.h"
#include "ops/cuda/cuda_kernels.h"
#include "ops/cuda/norm.h"

namespace leat::cuda {
namespace {

BatchNormCall batch_call(const KernelSetup& setup, int x) {
  const Shape& shape = setup.input(x).shape;
  BatchNormCall call;
  call.samples = shape[0];
  call.channels = shape[1];
  call.area = shape.elements(2, shape.rank());
  call.channels_last = setup.input(x).layout == Layout::channels_last;
  if (call.channels_last) call.samples *= std::exchange(call.area, 1);
  call.training = attr_int(setup.attrs(), "training_mode") != 0;
  call.unbiased = attr_int(setup.attrs(), "leat_unbiased") != 0;
  call.epsilon = attr_float(setup.attrs(), "epsilon", 1e-5);
  call.momentum = attr_float(setup.attrs(), "momentum", 0.9);
  return call;
}

ChannelOperand input(const KernelContext& context, const OpTypes& types, int i) {
  return {context.inputs[i], types.inputs[static_cast<size_t>(i)].dtype};
}
ChannelOperand output(const KernelContext& context, const OpTypes& types, int i) {
  if (!types.has_output(i)) return {};
  return {context.outputs[i], types.outputs[static_cast<size_t>(i)].dtype};
}

Result<std::unique_ptr<Kernel>> make_batch_norm(const KernelSetup& setup) {
  const BatchNormCall call = batch_call(setup, 0);
  OpTypes types = setup.types;
  types.attrs = nullptr;  // it does not live as long as the kernel
  return make_cuda_kernel(
      setup,
      [=, dtype = setup.input(0).dtype](const KernelContext& context, cudaStream_t stream) {
        BatchNormCall now = call;
        now.x = context.inputs[0];
        now.y = context.outputs[0];
        now.scale = input(context, types, 1);
        now.bias = input(context, types, 2);
        now.mean = input(context, types, 3);
        now.variance = input(context, types, 4);
        for (int i = 0; i < 4; ++i) now.results[i] = output(context, types, i + 1);
        now.workspace = context.workspace;
        return launch_batch_norm(now, dtype, stream);
      },
      batch_norm_workspace(call));
}

// (dy, x, scale, saved mean, saved inverse deviation)
Result<std::unique_ptr<Kernel>> make_batch_norm_grad(const KernelSetup& setup) {
  const BatchNormCall call = batch_call(setup, 1);
  OpTypes types = setup.types;
  types.attrs = nullptr;  // it does not live as long as the kernel
  return make_cuda_kernel(
      setup,
      [=, dtype = setup.input(1).dtype](const KernelContext& context, cudaStream_t stream) {
        BatchNormCall now = call;
        now.dy = context.inputs[0];
        now.x = context.inputs[1];
        now.scale = input(context, types, 2);
        now.mean = input(context, types, 3);
        now.variance = input(context, types, 4);
        now.y = context.outputs[0];  // null if no node needs it
        now.results[0] = output(context, types, 1);
        now.results[1] = output(context, types, 2);
        now.workspace = context.workspace;
        return launch_batch_norm_grad(now, dtype, stream);
      },
      batch_norm_workspace(call));
}

LayerNormCall layer_call(const KernelSetup& setup, int x) {
  const Shape& shape = setup.input(x).shape;
  const int64_t written = attr_int(setup.attrs(), "axis", -1);
  const int axis = static_cast<int>(written < 0 ? written + shape.rank() : written);
  LayerNormCall call;
  call.lines = shape.elements(0, axis);
  call.size = shape.elements(axis, shape.rank());
  call.epsilon = attr_float(setup.attrs(), "epsilon", 1e-5);
  return call;
}

Result<std::unique_ptr<Kernel>> make_layer_norm(const KernelSetup& setup) {
  const LayerNormCall call = layer_call(setup, 0);
  const bool biased = setup.types.has_input(2);
  const bool has_mean = setup.types.has_output(1), has_inverse = setup.types.has_output(2);
  return make_cuda_kernel(setup, [=, x = setup.input(0).dtype, y = setup.output(0).dtype](
                                     const KernelContext& context, cudaStream_t stream) {
    LayerNormCall now = call;
    now.x = context.inputs[0];
    now.scale = context.inputs[1];
    now.bias = biased ? context.inputs[2] : nullptr;
    now.y = context.outputs[0];
    now.mean = has_mean ? context.outputs[1] : nullptr;
    now.inverse = has_inverse ? context.outputs[2] : nullptr;
    return launch_layer_norm(now, x, y, stream);
  });
}

// (dy, x, scale, mean, inverse deviation)
Result<std::unique_ptr<Kernel>> make_layer_norm_grad(const KernelSetup& setup) {
  const LayerNormCall call = layer_call(setup, 1);
  const bool has_scale = setup.types.has_output(1), has_bias = setup.types.has_output(2);
  return make_cuda_kernel(
      setup,
      [=, x = setup.input(1).dtype, dy = setup.input(0).dtype](const KernelContext& context,
                                                               cudaStream_t stream) {
        LayerNormCall now = call;
        now.dy = context.inputs[0];
        now.x = context.inputs[1];
        now.scale = context.inputs[2];
        now.mean = context.inputs[3];
        now.inverse = context.inputs[4];
        now.y = context.outputs[0];
        now.dscale = has_scale ? context.outputs[1] : nullptr;
        now.dbias = has_bias ? context.outputs[2] : nullptr;
        now.workspace = context.workspace;
        return launch_layer_norm_grad(now, x, dy, stream);
      },
      layer_norm_workspace(call));
}

// Equal dtypes, or 16 bits beside float.
bool fits_beside(DType x, DType other) {
  return x == other || (x == DType::f32 && is_16bit_float(other));
}

}  // namespace

void add_norm_kernels(Catalogue& catalogue) {
  const auto of_images = [](int x, LayoutSupport support) {
    return [=](const OpTypes& types) {
      return types.inputs[static_cast<size_t>(x)].shape.rank() == 4 ? support : LayoutSupport{};
    };
  };
  catalogue.add_kernel("BatchNormalization", kKind, make_batch_norm);
  catalogue.add_kernel("leat.BatchNormalizationGrad", kKind, make_batch_norm_grad);
  catalogue.add_layouts("BatchNormalization", kKind, of_images(0, {1, 1, false}));
  catalogue.add_layouts("leat.BatchNormalizationGrad", kKind, of_images(1, {3, 1, false}));
  catalogue.add_kernel("LayerNormalization", kKind, make_layer_norm, [](const OpTypes& types) {
    return fits_beside(types.inputs[0].dtype, types.outputs[0].dtype);
  });
  catalogue.add_kernel("leat.LayerNormalizationGrad", kKind, make_layer_norm_grad,
                       [](const OpTypes& types) {
                         return fits_beside(types.inputs[1].dtype, types.inputs[0].dtype);
                       });
}

}  // namespace leat::cuda
