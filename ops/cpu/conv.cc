// CPU kernels of ops/definitions/conv.cc.
#include "ops/definitions/conv.h"

#include "devices/base/text.h"
#include "ops/cpu/compute_in_f32.h"
#include "ops/cpu/conv_kernel.h"
#include "ops/cpu/conv_winograd.h"
#include "ops/cpu/cpu_kernels.h"
#include "ops/cpu/onednn.h"
#include "ops/definitions/conv_spec.h"

namespace leat {
namespace {

// Adds the node to an error of `make`, which knows only types.
Result<ConvSpec> spec_for(const KernelSetup& setup, MakeConvSpec make) {
  auto spec = make(setup.types);
  if (spec.ok()) return spec;
  return Status(spec.status().code(), cat(setup.subject, ": ", spec.status().message()));
}

// Winograd's algorithm in f32 needs a quarter of the multiplications: only tiles make up for that.
bool winograd_beats_bf16(ConvSpec spec) {
  if (onednn::has_tiles()) return false;
  spec.dtype = DType::f32;
  return winograd_is_faster(spec);
}

// True if oneDNN multiplies the bf16 operands as they are, because the processor is faster at it.
// An engine adds no bias to x, as a ConvTranspose wants.
bool multiplies_bf16(const KernelSetup& setup, const ConvSpec& spec) {
  if (spec.kind == ConvKind::backward_data && setup.types.has_input(2)) return false;
  if (winograd_beats_bf16(spec)) return false;
  return setup.input(0).dtype == DType::bf16 && onednn::is_fast_in_bf16() && spec.images > 0 &&
         spec.inputs / spec.groups >= 16 && spec.outputs / spec.groups >= 16;
}

// Biases and the gradients of weights are converted all the same.
Result<std::unique_ptr<Kernel>> conv_in_bf16(const KernelSetup& setup, ConvSpec spec) {
  spec.dtype = DType::bf16;
  const bool weights = spec.kind == ConvKind::backward_weights;
  const KernelFactory factory = [&](const KernelSetup& inner) {
    return weights ? make_conv_weights_kernel(inner, spec, {.x = 0, .w = 0, .bias = 1, .y = 1})
                   : make_conv_rows_kernel(inner, spec, {.x = 0, .w = 1, .bias = 2, .y = 0});
  };
  return compute_in_f32(setup, factory, {.rounded_outputs = weights ? 0u : 1u, .kept_inputs = 3});
}

// Every factory below calls this for f16 and bf16 with itself as `factory`, which is called again
// with float operands, unless the processor multiplies bf16 faster. Tiles have the images that they
// have for float.
Result<std::unique_ptr<Kernel>> conv_in_f32(const KernelSetup& setup, const KernelFactory& factory,
                                            MakeConvSpec make) {
  LEAT_ASSIGN_OR_RETURN(const ConvSpec spec, spec_for(setup, make));
  if (multiplies_bf16(setup, spec)) {
    auto kernel = conv_in_bf16(setup, spec);
    if (kernel.ok()) return kernel;
  }
  return compute_in_f32(setup, factory,
                        {.tile_rows = conv_tile_images(spec.images, spec.multiply_adds())});
}

// The initializers below name the index of each operand in the op.
Result<std::unique_ptr<Kernel>> conv_kernel(const KernelSetup& setup) {
  if (is_16bit_float(setup.input(0).dtype)) return conv_in_f32(setup, conv_kernel, conv_spec);
  LEAT_ASSIGN_OR_RETURN(const ConvSpec spec, spec_for(setup, conv_spec));
  return make_conv_rows_kernel(setup, spec, {.x = 0, .w = 1, .bias = 2, .y = 0});
}

Result<std::unique_ptr<Kernel>> conv_grad_input_kernel(const KernelSetup& setup) {
  if (is_16bit_float(setup.input(0).dtype))
    return conv_in_f32(setup, conv_grad_input_kernel, conv_grad_input_spec);
  LEAT_ASSIGN_OR_RETURN(const ConvSpec spec, spec_for(setup, conv_grad_input_spec));
  return make_conv_rows_kernel(setup, spec, {.x = 0, .w = 1, .bias = -1, .y = 0});
}

// A ConvTranspose is the gradient of a convolution with respect to its input. Its bias is one per
// channel of x, which engines do not have, so the kernel adds it to the result.
Result<std::unique_ptr<Kernel>> conv_transpose_kernel(const KernelSetup& setup) {
  if (is_16bit_float(setup.input(0).dtype))
    return conv_in_f32(setup, conv_transpose_kernel, conv_transpose_spec);
  LEAT_ASSIGN_OR_RETURN(const ConvSpec spec, spec_for(setup, conv_transpose_spec));
  return make_conv_rows_kernel(setup, spec, {.x = 0, .w = 1, .bias = 2, .y = 0},
                               setup.types.has_input(2));
}

Result<std::unique_ptr<Kernel>> conv_grad_weights_kernel(const KernelSetup& setup) {
  if (is_16bit_float(setup.input(0).dtype))
    return conv_in_f32(setup, conv_grad_weights_kernel, conv_grad_weights_spec);
  LEAT_ASSIGN_OR_RETURN(const ConvSpec spec, spec_for(setup, conv_grad_weights_spec));
  return make_conv_weights_kernel(setup, spec, {.x = 0, .w = 0, .bias = 1, .y = 1});
}

}  // namespace

void add_conv_kernels(Catalogue& catalogue) {
  catalogue.add_kernel("Conv", "cpu", conv_kernel);
  catalogue.add_kernel("ConvTranspose", "cpu", conv_transpose_kernel);
  catalogue.add_kernel("leat.ConvGradInput", "cpu", conv_grad_input_kernel);
  catalogue.add_kernel("leat.ConvGradWeights", "cpu", conv_grad_weights_kernel);
}

}  // namespace leat
