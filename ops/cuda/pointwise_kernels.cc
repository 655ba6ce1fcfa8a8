// The factories of the elementwise ops on CUDA.
#include <algorithm>
#include <array>
#include <string>

#include "devices/base/text.h"
#include "ops/cuda/cuda_kernel.h"
#include "ops/cuda/cuda_kernels.h"
#include "ops/cuda/pointwise.h"
#include "ops/definitions/broadcast.h"
#include "ops/definitions/cast.h"
#include "ops/definitions/movement.h"
#include "ops/definitions/sum_tree.h"

namespace leat::cuda {
namespace {

static_assert(kMostAxes >= kMaxRank);

// The call for these operands, without addresses. `inputs` are indices of the node's.
PointwiseCall call_of(const OpTypes& types, const std::vector<int>& inputs) {
  OpTypes used = types;
  used.inputs.clear();
  OperandType absent;
  absent.present = false;
  for (int i : inputs)
    used.inputs.push_back(types.has_input(i) ? types.inputs[static_cast<size_t>(i)] : absent);
  const BroadcastWalk walk = collapsed(broadcast_walk(used));
  PointwiseCall call;
  call.elements = walk.elements();
  call.rank = std::max(walk.rank, 1);
  call.sizes[0] = 1;
  std::copy_n(walk.sizes.begin(), walk.rank, call.sizes);
  for (size_t k = 0; k < inputs.size(); ++k)
    std::copy_n(walk.steps[k].begin(), walk.rank, call.steps[k]);
  return call;
}

std::vector<int> first_inputs(int count) {
  std::vector<int> inputs;
  for (int i = 0; i < count; ++i) inputs.push_back(i);
  return inputs;
}

// The kernel of one launch over the first `operands` inputs.
Result<std::unique_ptr<Kernel>> make_pointwise(const KernelSetup& setup, PointwiseLaunch launch,
                                               int operands, std::array<double, 2> params = {},
                                               std::shared_ptr<LentComplaint> complaint = {}) {
  if (!launch) return no_kernel(setup, setup.input(0).dtype);
  PointwiseCall call = call_of(setup.types, first_inputs(operands));
  std::copy(params.begin(), params.end(), call.params);
  if (complaint) call.complaint = complaint->get();
  std::vector<bool> present;
  for (int i = 0; i < operands; ++i) present.push_back(setup.types.has_input(i));
  return make_cuda_kernel(setup, [call, launch, operands, present, complaint](
                                     const KernelContext& context, cudaStream_t stream) {
    PointwiseCall now = call;
    now.y = context.outputs[0];
    for (int i = 0; i < operands; ++i)
      now.x[i] = present[static_cast<size_t>(i)] ? context.inputs[i] : nullptr;
    return launch(now, stream);
  });
}

// An op of one table whose operands have the dtype of input 0.
struct Simple {
  const char* op;
  PointwiseLaunch (*find)(std::string_view, DType);
  int operands;
  const char* params[2] = {nullptr, nullptr};  // names of attributes, floats or integers
};

double number_attr(const Attrs& attrs, const char* name) {
  const auto at = attrs.find(name);
  const bool whole = at != attrs.end() && std::holds_alternative<int64_t>(at->second);
  return whole ? static_cast<double>(attr_int(attrs, name)) : attr_float(attrs, name);
}

// Images of the output's shape, all with the channels last, and single elements.
LayoutSupport pointwise_layouts(const OpTypes& types) {
  const Shape& shape = types.outputs[0].shape;
  if (shape.rank() != 4 || types.inputs.size() > 32) return {};
  LayoutSupport support{0, 1, false};
  for (size_t i = 0; i < types.inputs.size(); ++i) {
    const OperandType& input = types.inputs[i];
    if (!input.present || input.shape.elements() == 1) continue;
    if (input.shape != shape) return {};
    support.inputs |= 1u << i;
  }
  return support.inputs == 0 ? LayoutSupport{} : support;
}

void add_simple(Catalogue& catalogue, const Simple& simple) {
  catalogue.add_layouts(simple.op, kKind, pointwise_layouts);
  catalogue.add_kernel(simple.op, kKind, [simple](const KernelSetup& setup) {
    std::array<double, 2> params{};
    for (size_t i = 0; i < 2 && simple.params[i]; ++i)
      params[i] = number_attr(setup.attrs(), simple.params[i]);
    return make_pointwise(setup, simple.find(simple.op, setup.input(0).dtype), simple.operands,
                          params);
  });
}

constexpr Simple kSimple[] = {
    {"Add", find_arithmetic, 2},
    {"Sub", find_arithmetic, 2},
    {"Mul", find_arithmetic, 2},
    {"leat.PowGrad", find_arithmetic, 3},
    {"Neg", find_unary, 1},
    {"Abs", find_unary, 1},
    {"Sign", find_unary, 1},
    {"Reciprocal", find_unary, 1},
    {"Sqrt", find_unary, 1},
    {"Exp", find_unary, 1},
    {"Log", find_unary, 1},
    {"Sin", find_unary, 1},
    {"Cos", find_unary, 1},
    {"Erf", find_unary, 1},
    {"Floor", find_unary, 1},
    {"Ceil", find_unary, 1},
    {"Round", find_unary, 1},
    {"Tan", find_unary, 1},
    {"Asin", find_unary, 1},
    {"Acos", find_unary, 1},
    {"Atan", find_unary, 1},
    {"Sinh", find_unary, 1},
    {"Cosh", find_unary, 1},
    {"Asinh", find_unary, 1},
    {"Acosh", find_unary, 1},
    {"Atanh", find_unary, 1},
    {"BitwiseAnd", find_unary, 2},
    {"BitwiseOr", find_unary, 2},
    {"BitwiseXor", find_unary, 2},
    {"BitwiseNot", find_unary, 1},
    {"Relu", find_activation, 1},
    {"leat.ReluGrad", find_activation, 2},
    {"LeakyRelu", find_activation, 1, {"alpha"}},
    {"leat.LeakyReluGrad", find_activation, 2, {"alpha"}},
    {"Sigmoid", find_activation, 1},
    {"leat.SigmoidGrad", find_activation, 2},
    {"Tanh", find_activation, 1},
    {"leat.TanhGrad", find_activation, 2},
    {"Elu", find_activation, 1, {"alpha"}},
    {"leat.EluGrad", find_activation, 2, {"alpha"}},
    {"Softplus", find_activation, 1},
    {"HardSigmoid", find_activation, 1, {"alpha", "beta"}},
    {"leat.HardSigmoidGrad", find_activation, 2, {"alpha", "beta"}},
    {"Clip", find_activation, 3},
    {"leat.ClipGrad", find_activation, 4},
    {"Equal", find_comparison, 2},
    {"Greater", find_comparison, 2},
    {"Less", find_comparison, 2},
    {"GreaterOrEqual", find_comparison, 2},
    {"LessOrEqual", find_comparison, 2},
    {"And", find_comparison, 2},
    {"Or", find_comparison, 2},
    {"Xor", find_comparison, 2},
    {"Not", find_comparison, 1},
    {"IsNaN", find_comparison, 1},
    {"IsInf", find_comparison, 1, {"detect_negative", "detect_positive"}},
};

// An op whose variant an attribute chooses: its name in the tables is "Gelu.tanh".
KernelFactory variant(const char* op, PointwiseLaunch (*find)(std::string_view, DType),
                      int operands, std::string (*suffix)(const KernelSetup&)) {
  return [=](const KernelSetup& setup) {
    return make_pointwise(setup, find(cat(op, suffix(setup)), setup.input(0).dtype), operands);
  };
}
std::string gelu_variant(const KernelSetup& setup) {
  return attr_string(setup.attrs(), "approximate") == "tanh" ? ".tanh" : "";
}
std::string shift_variant(const KernelSetup& setup) {
  return cat(".", attr_string(setup.attrs(), "direction"));
}

// Div and Mod: integers must not be divided by zero.
Result<std::unique_ptr<Kernel>> make_division(const KernelSetup& setup, std::string_view op) {
  std::shared_ptr<LentComplaint> complaint;
  if (is_int(setup.input(1).dtype)) {
    LEAT_ASSIGN_OR_RETURN(
        complaint, LentComplaint::make(setup, [subject = setup.subject](const Complaint& found) {
          return invalid_argument(
              cat(subject, ": input 1: expected no 0 to divide by, received one at element ",
                  found.place - 1));
        }));
  }
  return make_pointwise(setup, find_arithmetic(op, setup.output(0).dtype), 2, {}, complaint);
}

Result<std::unique_ptr<Kernel>> make_pow(const KernelSetup& setup) {
  const DType base = setup.input(0).dtype, exponent = setup.input(1).dtype;
  if (base != exponent) {
    return make_pointwise(setup, find_mixed_pow(base), 2, {static_cast<double>(exponent), 0});
  }
  const bool uniform = setup.input(1).shape.elements() == 1;
  return make_pointwise(setup, find_arithmetic(uniform ? "Pow.uniform" : "Pow", base), 2);
}

// Max, Min and Sum of any number of inputs, from left to right, rounded after each. The output
// holds the results in between.
Result<std::unique_ptr<Kernel>> make_fold(const KernelSetup& setup, std::string_view op) {
  const DType dtype = setup.output(0).dtype;
  const auto count = static_cast<int>(setup.types.inputs.size());
  if (count == 1) return make_pointwise(setup, find_cast(dtype, dtype), 1);
  const PointwiseLaunch launch = find_arithmetic(op, dtype);
  if (!launch) return no_kernel(setup, dtype);
  std::vector<PointwiseCall> calls = {call_of(setup.types, {0, 1})};
  // Later calls read the output, as an operand of the output's own shape.
  OpTypes types = setup.types;
  types.inputs.push_back(setup.output(0));
  for (int i = 2; i < count; ++i) calls.push_back(call_of(types, {count, i}));
  return make_cuda_kernel(setup,
                          [calls, launch](const KernelContext& context, cudaStream_t stream) {
                            for (size_t i = 0; i < calls.size(); ++i) {
                              PointwiseCall now = calls[i];
                              now.y = context.outputs[0];
                              now.x[0] = i == 0 ? context.inputs[0] : context.outputs[0];
                              now.x[1] = context.inputs[i + 1];
                              if (const cudaError_t error = launch(now, stream)) return error;
                            }
                            return cudaSuccess;
                          });
}

// leat.SumTree: its attribute lists the leaves in postfix order. Sums that wait for the other
// summand are in the workspace, the last one in the output.
Result<std::unique_ptr<Kernel>> make_sum_tree(const KernelSetup& setup) {
  const auto order = attr_ints(setup.attrs(), "order");
  LEAT_ASSIGN_OR_RETURN(const size_t most,
                        check_sum_order(order, static_cast<int>(setup.types.inputs.size())));
  const DType dtype = setup.output(0).dtype;
  if (order.size() == 1) return make_pointwise(setup, find_cast(dtype, dtype), 1);
  const PointwiseLaunch launch = find_arithmetic("Add", dtype);
  if (!launch) return no_kernel(setup, dtype);
  OpTypes types = setup.types;
  types.inputs = {setup.output(0), setup.output(0)};
  const PointwiseCall call = call_of(types, {0, 1});
  const size_t bytes = (setup.output(0).bytes() + 255) / 256 * 256;
  return make_cuda_kernel(
      setup,
      [=](const KernelContext& context, cudaStream_t stream) {
        std::array<const void*, kMostOpenSums> open{};
        size_t top = 0;
        for (size_t i = 0; i < order.size(); ++i) {
          if (order[i] != kSumOfTwo) {
            open[top++] = context.inputs[order[i]];
            continue;
          }
          --top;
          PointwiseCall now = call;
          now.x[0] = open[top - 1];
          now.x[1] = open[top];
          now.y =
              i + 1 == order.size() ? context.outputs[0] : context.workspace + (top - 1) * bytes;
          open[top - 1] = now.y;
          if (const cudaError_t error = launch(now, stream)) return error;
        }
        return cudaSuccess;
      },
      most * bytes);
}

Result<std::unique_ptr<Kernel>> make_cast(const KernelSetup& setup) {
  const DType from = setup.input(0).dtype, to = setup.output(0).dtype;
  // A copy keeps the bytes of narrow types, too.
  if (from == to && is_narrow(to)) return make_pointwise(setup, find_cast(DType::u8, DType::u8), 1);
  if (!is_narrow(from) && !is_narrow(to)) return make_pointwise(setup, find_cast(from, to), 1);
  const NarrowRules rules = narrow_rules(setup.attrs());
  const int both = is_narrow(from) && is_narrow(to)
                       ? static_cast<int>(from) + 32 * static_cast<int>(to)
                   : is_narrow(from) ? static_cast<int>(from)
                                     : static_cast<int>(to);
  return make_pointwise(setup, find_narrow_cast(from, to), 1,
                        {static_cast<double>(both),
                         (rules.saturate ? 1.0 : 0.0) + 2 * static_cast<double>(rules.power)});
}
Result<std::unique_ptr<Kernel>> make_quantize(const KernelSetup& setup) {
  const DType from = setup.input(0).dtype, to = setup.output(0).dtype;
  const bool saturate = attr_int(setup.attrs(), "saturate", 1) != 0;
  return make_pointwise(setup, find_quantize(from, to), 2,
                        {static_cast<double>(to), saturate ? 1.0 : 0.0});
}
Result<std::unique_ptr<Kernel>> make_dequantize(const KernelSetup& setup) {
  const DType from = setup.input(0).dtype, to = setup.output(0).dtype;
  return make_pointwise(setup, find_dequantize(from, to), 2, {static_cast<double>(from), 0});
}
// A bool of bits is 0 or 1, whatever the byte; all others keep their bits.
Result<std::unique_ptr<Kernel>> make_bit_cast(const KernelSetup& setup) {
  const DType to = setup.output(0).dtype;
  const size_t size = dtype_size(to);
  const DType bits = size == 1   ? DType::u8
                     : size == 2 ? DType::u16
                     : size == 4 ? DType::u32
                                 : DType::u64;
  return make_pointwise(setup, find_cast(bits, to == DType::boolean ? to : bits), 1);
}
Result<std::unique_ptr<Kernel>> make_where(const KernelSetup& setup) {
  return make_pointwise(setup, find_where(dtype_size(setup.output(0).dtype)), 3);
}

}  // namespace

void add_pointwise_kernels(Catalogue& catalogue) {
  for (const Simple& simple : kSimple) add_simple(catalogue, simple);
  catalogue.add_kernel("Gelu", kKind, variant("Gelu", find_activation, 1, gelu_variant));
  catalogue.add_kernel("leat.GeluGrad", kKind,
                       variant("leat.GeluGrad", find_activation, 2, gelu_variant));
  catalogue.add_kernel("BitShift", kKind, variant("BitShift", find_unary, 2, shift_variant));
  catalogue.add_kernel("Div", kKind,
                       [](const KernelSetup& setup) { return make_division(setup, "Div"); });
  catalogue.add_kernel("Mod", kKind, [](const KernelSetup& setup) {
    return make_division(setup, attr_int(setup.attrs(), "fmod") != 0 ? "Mod.fmod" : "Mod");
  });
  catalogue.add_kernel("Pow", kKind, make_pow);
  for (const char* op : {"Max", "Min", "Sum"})
    catalogue.add_kernel(op, kKind,
                         [op](const KernelSetup& setup) { return make_fold(setup, op); });
  catalogue.add_kernel("leat.SumTree", kKind, make_sum_tree);
  for (const char* op : {"Cast", "CastLike", "leat.Widen", "Expand"})
    catalogue.add_kernel(op, kKind, make_cast);
  for (const char* op :
       {"Gelu", "leat.GeluGrad", "Div", "Sum", "Max", "Min", "leat.SumTree", "Cast"})
    catalogue.add_layouts(op, kKind, pointwise_layouts);
  catalogue.add_kernel("BitCast", kKind, make_bit_cast);
  catalogue.add_kernel("Where", kKind, make_where);
  catalogue.add_kernel("leat.Quantize", kKind, make_quantize);
  catalogue.add_kernel("leat.Dequantize", kKind, make_dequantize);
}

}  // namespace leat::cuda
