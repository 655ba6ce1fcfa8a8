// CPU kernels of ops/definitions/activation.cc.
#include "devices/base/text.h"
#include "ops/cpu/cpu_kernels.h"
#include "ops/cpu/elementwise_loops.h"
#include "ops/elements/activations.h"

namespace leat {
namespace {

using elementwise::binary_floats;
using elementwise::EluGradOf;
using elementwise::EluOf;
using elementwise::GeluGradOf;
using elementwise::GeluOf;
using elementwise::HardSigmoidGradOf;
using elementwise::HardSigmoidOf;
using elementwise::LeakyReluGradOf;
using elementwise::LeakyReluOf;
using elementwise::ReluGradOf;
using elementwise::ReluOf;
using elementwise::SigmoidGradOf;
using elementwise::SigmoidOf;
using elementwise::SoftplusOf;
using elementwise::TanhGeluGradOf;
using elementwise::TanhGeluOf;
using elementwise::TanhGradOf;
using elementwise::TanhOf;
using elementwise::unary_floats;
using elementwise::unary_signed;
// The cloned loops of f32. Elu and Softplus have none, because they call the C library for each
// element. The other functors select between values without a branch, so that loops become vectors.
LEAT_FAST_UNARY(relu_f32, ReluOf)
LEAT_FAST_BINARY(relu_grad_f32, ReluGradOf)
LEAT_FAST_UNARY(leaky_relu_f32, LeakyReluOf)
LEAT_FAST_BINARY(leaky_relu_grad_f32, LeakyReluGradOf)
LEAT_FAST_UNARY(sigmoid_f32, SigmoidOf)
LEAT_FAST_BINARY(sigmoid_grad_f32, SigmoidGradOf)
LEAT_FAST_UNARY(tanh_f32, TanhOf)
LEAT_FAST_BINARY(tanh_grad_f32, TanhGradOf)
LEAT_FAST_UNARY(gelu_f32, GeluOf)
LEAT_FAST_BINARY(gelu_grad_f32, GeluGradOf)
LEAT_FAST_UNARY(tanh_gelu_f32, TanhGeluOf)
LEAT_FAST_BINARY(tanh_gelu_grad_f32, TanhGeluGradOf)
LEAT_FAST_BINARY(elu_grad_f32, EluGradOf)
LEAT_FAST_UNARY(hard_sigmoid_f32, HardSigmoidOf)
LEAT_FAST_BINARY(hard_sigmoid_grad_f32, HardSigmoidGradOf)
// True for the approximation of Gelu, which the attribute selects.
bool by_tanh(const KernelSetup& setup) {
  return attr_string(setup.attrs(), "approximate") == "tanh";
}

Result<std::unique_ptr<Kernel>> make_gelu(const KernelSetup& setup) {
  if (by_tanh(setup)) return loop_kernel(unary_floats<TanhGeluOf>, tanh_gelu_f32)(setup);
  return loop_kernel(unary_floats<GeluOf>, gelu_f32)(setup);
}

Result<std::unique_ptr<Kernel>> make_gelu_grad(const KernelSetup& setup) {
  if (by_tanh(setup)) return loop_kernel(binary_floats<TanhGeluGradOf>, tanh_gelu_grad_f32)(setup);
  return loop_kernel(binary_floats<GeluGradOf>, gelu_grad_f32)(setup);
}

}  // namespace

void add_activation_kernels(Catalogue& catalogue) {
  catalogue.add_kernel("Gelu", "cpu", make_gelu);
  catalogue.add_kernel("leat.GeluGrad", "cpu", make_gelu_grad);
  catalogue.add_kernel("Relu", "cpu", loop_kernel(unary_signed<ReluOf>, relu_f32));
  catalogue.add_kernel("leat.ReluGrad", "cpu",
                       loop_kernel(binary_floats<ReluGradOf>, relu_grad_f32));
  catalogue.add_kernel("LeakyRelu", "cpu",
                       loop_kernel(unary_floats<LeakyReluOf>, leaky_relu_f32, {"alpha"}));
  catalogue.add_kernel("leat.LeakyReluGrad", "cpu",
                       loop_kernel(binary_floats<LeakyReluGradOf>, leaky_relu_grad_f32, {"alpha"}));
  catalogue.add_kernel("Sigmoid", "cpu", loop_kernel(unary_floats<SigmoidOf>, sigmoid_f32));
  catalogue.add_kernel("leat.SigmoidGrad", "cpu",
                       loop_kernel(binary_floats<SigmoidGradOf>, sigmoid_grad_f32));
  catalogue.add_kernel("Tanh", "cpu", loop_kernel(unary_floats<TanhOf>, tanh_f32));
  catalogue.add_kernel("leat.TanhGrad", "cpu",
                       loop_kernel(binary_floats<TanhGradOf>, tanh_grad_f32));
  catalogue.add_kernel("Elu", "cpu", loop_kernel(unary_floats<EluOf>, nullptr, {"alpha"}));
  catalogue.add_kernel("leat.EluGrad", "cpu",
                       loop_kernel(binary_floats<EluGradOf>, elu_grad_f32, {"alpha"}));
  catalogue.add_kernel("Softplus", "cpu", loop_kernel(unary_floats<SoftplusOf>, nullptr));
  catalogue.add_kernel(
      "HardSigmoid", "cpu",
      loop_kernel(unary_floats<HardSigmoidOf>, hard_sigmoid_f32, {"alpha", "beta"}));
  catalogue.add_kernel(
      "leat.HardSigmoidGrad", "cpu",
      loop_kernel(binary_floats<HardSigmoidGradOf>, hard_sigmoid_grad_f32, {"alpha", "beta"}));
}

}  // namespace leat
