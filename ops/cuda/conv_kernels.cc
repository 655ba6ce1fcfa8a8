// The factories of pools and convolutions on CUDA.
#include <algorithm>
#include <utility>

#include "devices/base/align.h"
#include "devices/base/text.h"
#include "ops/cuda/conv.h"
#include "ops/cuda/conv_call.h"
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
  if (setup.input(0).layout == Layout::channels_last) call.channels = input[1];
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

constexpr size_t kWorkspacePart = 256;  // parts of a workspace begin at multiples of so many bytes

using ConvLaunch = cudaError_t (*)(const ConvCall& call, DType dtype, cudaStream_t stream);

// One convolution of an op: by cuDNN, and what that leaves undone by `finish`; without cuDNN, all
// of it by `own`.
struct ConvWork {
  ConvOp op;
  ConvLaunch own, finish;
};

// A ConvWork for operands in one layout.
class Convolution {
 public:
  Convolution(const KernelSetup& setup, const ConvCall& call, const ConvWork& work)
      : call_(call), work_(work), dtype_(setup.input(0).dtype), element_(dtype_size(dtype_)) {
    const Cudnn* library = Cudnn::of(*setup.device);
    if (library) plan_ = ConvPlan::make(library->target(), call, work.op, {dtype_, setup.tf32});
    if (work.op == ConvOp::backward_weights)
      bias_bytes_ = align_up(bias_grad_workspace(call, dtype_), kWorkspacePart);
    // The graph's weights are plain: cuDNN gets a copy whose channels come last.
    if (call.channels_last) {
      const int64_t weights =
          call.outputs * (call.inputs / call.groups) * call.window.kernel_area();
      weight_bytes_ = align_up(static_cast<size_t>(weights) * element_, kWorkspacePart);
    }
  }

  bool has_plan() const { return plan_ != nullptr; }
  size_t workspace_bytes() const {
    return bias_bytes_ + weight_bytes_ + (plan_ ? plan_->workspace_bytes() : 0);
  }
  cudaError_t enqueue(ConvCall now, std::byte* workspace, cudaStream_t stream) const {
    now.workspace = workspace;
    if (!plan_ || (!call_.channels_last && !ConvPlan::takes(now)))
      return work_.own(now, dtype_, stream);
    std::byte* const of_plan = workspace + bias_bytes_ + weight_bytes_;
    const auto multiply = [&](const ConvCall& with) {
      // Values whose channels come last are no views: they begin where the plan has them.
      return ConvPlan::takes(with) ? plan_->enqueue(with, of_plan, stream)
                                   : cudaErrorMisalignedAddress;
    };
    // Weights of one place are the same in both layouts.
    const bool copies =
        call_.channels_last && (call_.window.kernel_area() > 1 || !ConvPlan::takes(now));
    const cudaError_t error =
        copies ? with_weights_last(now, workspace + bias_bytes_, multiply, stream) : multiply(now);
    return error == cudaSuccess ? work_.finish(now, dtype_, stream) : error;
  }

 private:
  template <typename F>
  cudaError_t with_weights_last(ConvCall call, std::byte* copy, F multiply,
                                cudaStream_t stream) const {
    const int64_t channels = call.inputs / call.groups, area = call.window.kernel_area();
    const bool writes = work_.op == ConvOp::backward_weights;
    void* const plain = std::exchange(call.w, copy);
    cudaError_t error = cudaSuccess;
    if (!writes)
      error = launch_channels_last(plain, copy, call.outputs, channels, area, element_, stream);
    if (error == cudaSuccess) error = multiply(call);
    if (error == cudaSuccess && writes)
      error = launch_channels_first(copy, plain, call.outputs, channels, area, element_, stream);
    return error;
  }

  const ConvCall call_;
  const ConvWork work_;
  const DType dtype_;
  const size_t element_;
  std::shared_ptr<ConvPlan> plan_;
  size_t bias_bytes_ = 0, weight_bytes_ = 0;
};

// Operands whose channels come last, where cuDNN does not take them so: they are copied.
class ConvolutionByCopies {
 public:
  ConvolutionByCopies(const KernelSetup& setup, ConvCall call, const ConvWork& work)
      : call_(call), op_(work.op), element_(dtype_size(setup.input(0).dtype)) {
    call.channels_last = false;
    plain_ = std::make_shared<Convolution>(setup, call, work);
    x_bytes_ = bytes(call.inputs, call.window.input_area());
    y_bytes_ = bytes(call.outputs, call.window.output_area());
  }

  bool has_plan() const { return plain_->has_plan(); }
  size_t workspace_bytes() const { return x_bytes_ + y_bytes_ + plain_->workspace_bytes(); }
  cudaError_t enqueue(const ConvCall& now, std::byte* workspace, cudaStream_t stream) const {
    ConvCall plain = now;
    plain.channels_last = false;
    plain.x = workspace;
    plain.y = workspace + x_bytes_;
    const int64_t in = call_.window.input_area(), out = call_.window.output_area();
    cudaError_t error = cudaSuccess;
    if (op_ != ConvOp::backward_data)
      error =
          launch_channels_first(now.x, plain.x, call_.images, call_.inputs, in, element_, stream);
    if (error == cudaSuccess && op_ != ConvOp::forward)
      error =
          launch_channels_first(now.y, plain.y, call_.images, call_.outputs, out, element_, stream);
    if (error == cudaSuccess)
      error = plain_->enqueue(plain, workspace + x_bytes_ + y_bytes_, stream);
    if (error != cudaSuccess || op_ == ConvOp::backward_weights) return error;
    return op_ == ConvOp::forward ? launch_channels_last(plain.y, now.y, call_.images,
                                                         call_.outputs, out, element_, stream)
                                  : launch_channels_last(plain.x, now.x, call_.images, call_.inputs,
                                                         in, element_, stream);
  }

 private:
  size_t bytes(int64_t channels, int64_t area) const {
    return align_up(static_cast<size_t>(call_.images * channels * area) * element_, kWorkspacePart);
  }

  const ConvCall call_;
  const ConvOp op_;
  const size_t element_;
  std::shared_ptr<Convolution> plain_;
  size_t x_bytes_ = 0, y_bytes_ = 0;
};

// `bind` gives the call its operands.
std::unique_ptr<Kernel> conv_kernel(const KernelSetup& setup, const ConvCall& call,
                                    const ConvWork& work,
                                    std::function<void(const KernelContext&, ConvCall&)> bind) {
  const auto kernel_of = [&](auto convolution) {
    const size_t workspace = convolution->workspace_bytes();
    return make_cuda_kernel(
        setup,
        [call, convolution, bind](const KernelContext& context, cudaStream_t stream) {
          ConvCall now = call;
          bind(context, now);
          return convolution->enqueue(now, context.workspace, stream);
        },
        workspace);
  };
  const auto count = [&](bool has_plan) {
    count_way(setup, "convolutions", has_plan ? Cudnn::kName : KernelWays::kOwn);
  };
  auto direct = std::make_shared<Convolution>(setup, call, work);
  if (!call.channels_last || direct->has_plan()) {
    count(direct->has_plan());
    return kernel_of(direct);
  }
  auto by_copies = std::make_shared<ConvolutionByCopies>(setup, call, work);
  count(by_copies->has_plan());
  return kernel_of(by_copies);
}

Result<std::unique_ptr<Kernel>> make_conv(const KernelSetup& setup) {
  LEAT_ASSIGN_OR_RETURN(const ConvCall call, conv_call(setup.types, conv_spec, setup.subject));
  return conv_kernel(
      setup, call, {ConvOp::forward, launch_conv_forward, launch_conv_finish},
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
  LEAT_ASSIGN_OR_RETURN(const ConvCall call, conv_call(setup.types, make, setup.subject));
  return conv_kernel(
      setup, call, {ConvOp::backward_data, launch_conv_backward_data, launch_conv_finish_data},
      [biased = has_bias && setup.types.has_input(2)](const KernelContext& context, ConvCall& now) {
        now.y = context.inputs[0];
        now.w = context.inputs[1];
        now.bias = biased ? context.inputs[2] : nullptr;
        now.x = context.outputs[0];
      });
}

Result<std::unique_ptr<Kernel>> make_backward_weights(const KernelSetup& setup) {
  LEAT_ASSIGN_OR_RETURN(const ConvCall call,
                        conv_call(setup.types, conv_grad_weights_spec, setup.subject));
  return conv_kernel(
      setup, call, {ConvOp::backward_weights, launch_conv_backward_weights, launch_conv_bias_grad},
      [biased = setup.types.has_output(1)](const KernelContext& context, ConvCall& now) {
        now.x = context.inputs[0];
        now.y = context.inputs[1];
        now.w = context.outputs[0];
        now.bias = biased ? context.outputs[1] : nullptr;
      });
}

// cuDNN computes convolutions of 16-bit elements with the channels last; others it would copy there
// and back. Of images with few channels, as the first ones are, that is a copy of little.
template <MakeConvSpec make>
LayoutSupport conv_layouts(const OpTypes& types) {
  const auto spec = make(types);
  const DType dtype = types.inputs[0].dtype;
  if (!spec.ok() || (dtype != DType::bf16 && dtype != DType::f16) || spec->window.rank != 2 ||
      spec->outputs % 8 != 0 || (spec->inputs % 8 != 0 && spec->inputs > 4))
    return {};
  const bool prefers = spec->groups == 1;
  if (spec->kind == ConvKind::backward_weights) return {3, 0, prefers};
  return {1, 1, prefers};
}

// ONNX's indices count over the plain layout. The result of a global pool has one place.
template <bool global>
LayoutSupport pool_layouts(const OpTypes& types) {
  const bool indices = types.has_output(1) && types.outputs[1].dtype == DType::i64;
  if (types.inputs[0].shape.rank() != 4 || indices) return {};
  return {all_present(types.inputs), global ? 0 : all_present(types.outputs), false};
}

}  // namespace

Result<ConvCall> conv_call(const OpTypes& types, MakeConvSpec make, const std::string& subject) {
  auto spec = make(types);
  if (!spec.ok()) return Status(spec.status().code(), cat(subject, ": ", spec.status().message()));
  ConvCall call;
  call.window = plain(spec->window);
  call.images = spec->images;
  call.groups = spec->groups;
  call.inputs = spec->inputs;
  call.outputs = spec->outputs;
  call.relu = spec->relu;
  for (const auto* operands : {&types.inputs, &types.outputs}) {
    for (const OperandType& type : *operands)
      call.channels_last =
          call.channels_last || (type.present && type.layout == Layout::channels_last);
  }
  return call;
}

void add_conv_kernels(Catalogue& catalogue) {
  catalogue.add_layouts("Conv", kKind, conv_layouts<conv_spec>);
  catalogue.add_layouts("leat.ConvGradInput", kKind, conv_layouts<conv_grad_input_spec>);
  catalogue.add_layouts("leat.ConvGradWeights", kKind, conv_layouts<conv_grad_weights_spec>);
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
  for (const char* op : {"MaxPool", "leat.MaxPoolGrad", "AveragePool", "leat.AveragePoolGrad"})
    catalogue.add_layouts(op, kKind, pool_layouts<false>);
  catalogue.add_layouts("GlobalAveragePool", kKind, pool_layouts<true>);
}

}  // namespace leat::cuda
