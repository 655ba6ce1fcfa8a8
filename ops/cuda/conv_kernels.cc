// The factories of pools and convolutions on CUDA.
#include <algorithm>

#include "devices/base/align.h"
#include "devices/base/text.h"
#include "ops/cuda/conv.h"
#include "ops/cuda/cuda_kernel.h"
#include "ops/cuda/cuda_kernels.h"
#include "ops/cuda/cudnn.h"
#include "ops/cuda/pool.h"
#include "ops/definitions/conv.h"
#include "ops/definitions/conv_spec.h"
#include "ops/definitions/pool.h"

namespace leat::cuda {
namespace {

WindowShape plain(const Window& window) {
  WindowShape out;
  std::copy(window.input.begin(), window.input.end(), out.input);
  std::copy(window.output.begin(), window.output.end(), out.output);
  std::copy(window.kernel.begin(), window.kernel.end(), out.kernel);
  std::copy(window.stride.begin(), window.stride.end(), out.stride);
  std::copy(window.dilation.begin(), window.dilation.end(), out.dilation);
  std::copy(window.begin.begin(), window.begin.end(), out.begin);
  std::copy(window.end.begin(), window.end.end(), out.end);
  return out;
}

// The call of a pool whose x has shape `input` and whose y has shape `output`.
Result<PoolCall> pool_call(const KernelSetup& setup, const Shape& input, const Shape& output,
                           bool global) {
  PoolCall call;
  call.planes = input[0] * input[1];
  if (global) {
    const auto spatial = input.dims().subspan(2);
    call.window =
        plain(concrete_window(global_window({spatial.begin(), spatial.end()}), input, output));
    return call;
  }
  auto window = pool_window(setup.attrs(), input.rank());
  if (!window.ok())
    return Status(window.status().code(), cat(setup.subject, ": ", window.status().message()));
  call.window = plain(concrete_window(*window, input, output));
  return call;
}

// `argmax` is the index of that output.
Result<std::unique_ptr<Kernel>> make_max_pool(const KernelSetup& setup, bool global) {
  LEAT_ASSIGN_OR_RETURN(PoolCall call,
                        pool_call(setup, setup.input(0).shape, setup.output(0).shape, global));
  const int argmax = global ? 1 : 2;
  const bool has_indices = !global && setup.types.has_output(1);
  const bool has_argmax = setup.types.has_output(argmax);
  if (has_argmax) call.wide_argmax = setup.output(argmax).dtype == DType::i32;
  call.column_major = attr_int(setup.attrs(), "storage_order") == 1;
  return make_cuda_kernel(
      setup, [=, dtype = setup.input(0).dtype](const KernelContext& context, cudaStream_t stream) {
        PoolCall now = call;
        now.x = context.inputs[0];
        now.y = context.outputs[0];
        now.indices = has_indices ? context.out<int64_t>(1) : nullptr;
        now.argmax = has_argmax ? context.outputs[argmax] : nullptr;
        return launch_max_pool(now, dtype, stream);
      });
}

Result<std::unique_ptr<Kernel>> make_max_pool_grad(const KernelSetup& setup) {
  LEAT_ASSIGN_OR_RETURN(PoolCall call,
                        pool_call(setup, setup.output(0).shape, setup.input(0).shape, false));
  call.wide_argmax = setup.input(1).dtype == DType::i32;
  return make_cuda_kernel(setup, [call, dtype = setup.input(0).dtype](const KernelContext& context,
                                                                      cudaStream_t stream) {
    PoolCall now = call;
    now.x = context.inputs[0];
    now.argmax = context.inputs[1];
    now.y = context.outputs[0];
    return launch_max_pool_grad(now, dtype, stream);
  });
}

Result<std::unique_ptr<Kernel>> make_average_pool(const KernelSetup& setup, bool global,
                                                  bool gradient) {
  const Shape &first = setup.input(0).shape, &second = setup.output(0).shape;
  LEAT_ASSIGN_OR_RETURN(PoolCall call, pool_call(setup, gradient ? second : first,
                                                 gradient ? first : second, global));
  call.count_pads = !global && attr_int(setup.attrs(), "count_include_pad") != 0;
  return make_cuda_kernel(setup, [call, gradient, dtype = setup.input(0).dtype](
                                     const KernelContext& context, cudaStream_t stream) {
    PoolCall now = call;
    now.x = context.inputs[0];
    now.y = context.outputs[0];
    return gradient ? launch_average_pool_grad(now, dtype, stream)
                    : launch_average_pool(now, dtype, stream);
  });
}

Result<ConvCall> conv_call(const KernelSetup& setup, MakeConvSpec make) {
  auto spec = make(setup.types);
  if (!spec.ok())
    return Status(spec.status().code(), cat(setup.subject, ": ", spec.status().message()));
  ConvCall call;
  call.window = plain(spec->window);
  call.images = spec->images;
  call.groups = spec->groups;
  call.inputs = spec->inputs;
  call.outputs = spec->outputs;
  call.relu = spec->relu;
  return call;
}

constexpr size_t kWorkspacePart = 256;  // parts of a workspace begin at multiples of so many bytes

// A convolution by cuDNN, and what that leaves undone by our own kernel; without cuDNN, all of it
// by our own. `bind` gives the call its operands.
using ConvLaunch = cudaError_t (*)(const ConvCall& call, DType dtype, cudaStream_t stream);
std::unique_ptr<Kernel> conv_kernel(const KernelSetup& setup, const ConvCall& call, ConvOp op,
                                    ConvLaunch own, ConvLaunch finish,
                                    std::function<void(const KernelContext&, ConvCall&)> bind) {
  const DType dtype = setup.input(0).dtype;
  const Cudnn* library = Cudnn::of(*setup.device);
  const auto plan = library ? ConvPlan::make(library->target(), call, op, dtype) : nullptr;
  const size_t of_bias = op == ConvOp::backward_weights
                             ? align_up(bias_grad_workspace(call, dtype), kWorkspacePart)
                             : 0;
  return make_cuda_kernel(
      setup,
      [=, bind = std::move(bind)](const KernelContext& context, cudaStream_t stream) {
        ConvCall now = call;
        bind(context, now);
        now.workspace = context.workspace;
        if (!plan || !ConvPlan::takes(now)) return own(now, dtype, stream);
        const cudaError_t error = plan->enqueue(now, context.workspace + of_bias, stream);
        return error == cudaSuccess ? finish(now, dtype, stream) : error;
      },
      of_bias + (plan ? plan->workspace_bytes() : 0));
}

Result<std::unique_ptr<Kernel>> make_conv(const KernelSetup& setup) {
  LEAT_ASSIGN_OR_RETURN(const ConvCall call, conv_call(setup, conv_spec));
  return conv_kernel(
      setup, call, ConvOp::forward, launch_conv_forward, launch_conv_finish,
      [biased = setup.types.has_input(2)](const KernelContext& context, ConvCall& now) {
        now.x = context.inputs[0];
        now.w = context.inputs[1];
        now.bias = biased ? context.inputs[2] : nullptr;
        now.y = context.outputs[0];
      });
}

// leat.ConvGradInput, and ConvTranspose, which may have a bias.
template <MakeConvSpec make, bool has_bias>
Result<std::unique_ptr<Kernel>> make_backward_data(const KernelSetup& setup) {
  LEAT_ASSIGN_OR_RETURN(const ConvCall call, conv_call(setup, make));
  return conv_kernel(
      setup, call, ConvOp::backward_data, launch_conv_backward_data, launch_conv_finish_data,
      [biased = has_bias && setup.types.has_input(2)](const KernelContext& context, ConvCall& now) {
        now.y = context.inputs[0];
        now.w = context.inputs[1];
        now.bias = biased ? context.inputs[2] : nullptr;
        now.x = context.outputs[0];
      });
}

Result<std::unique_ptr<Kernel>> make_backward_weights(const KernelSetup& setup) {
  LEAT_ASSIGN_OR_RETURN(const ConvCall call, conv_call(setup, conv_grad_weights_spec));
  return conv_kernel(
      setup, call, ConvOp::backward_weights, launch_conv_backward_weights, launch_conv_bias_grad,
      [biased = setup.types.has_output(1)](const KernelContext& context, ConvCall& now) {
        now.x = context.inputs[0];
        now.y = context.inputs[1];
        now.w = context.outputs[0];
        now.bias = biased ? context.outputs[1] : nullptr;
      });
}

}  // namespace

void add_conv_kernels(Catalogue& catalogue) {
  catalogue.add_kernel("Conv", kKind, make_conv);
  catalogue.add_kernel("ConvTranspose", kKind, make_backward_data<conv_transpose_spec, true>);
  catalogue.add_kernel("leat.ConvGradInput", kKind,
                       make_backward_data<conv_grad_input_spec, false>);
  catalogue.add_kernel("leat.ConvGradWeights", kKind, make_backward_weights);
}

void add_pool_kernels(Catalogue& catalogue) {
  const auto max = [](bool global) {
    return [global](const KernelSetup& setup) { return make_max_pool(setup, global); };
  };
  const auto average = [](bool global, bool gradient) {
    return [=](const KernelSetup& setup) { return make_average_pool(setup, global, gradient); };
  };
  catalogue.add_kernel("MaxPool", kKind, max(false));
  catalogue.add_kernel("GlobalMaxPool", kKind, max(true));
  catalogue.add_kernel("leat.MaxPoolGrad", kKind, make_max_pool_grad);
  catalogue.add_kernel("AveragePool", kKind, average(false, false));
  catalogue.add_kernel("GlobalAveragePool", kKind, average(true, false));
  catalogue.add_kernel("leat.AveragePoolGrad", kKind, average(false, true));
}

}  // namespace leat::cuda
