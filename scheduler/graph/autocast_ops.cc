// The place of each op in mixed precision. The lists are those of PyTorch's torch.autocast, by the
// ops of ONNX. An op that is not here follows if it only moves elements, and else is wide.
#include <algorithm>
#include <array>

#include "ops/graph/op.h"
#include "scheduler/graph/autocast.h"
#include "scheduler/graph/op_name.h"

namespace leat {
namespace {

struct Listed {
  std::string_view op;
  OpPrecision precision;
  std::string_view beside = "";  // as beside_of()
};

using enum OpPrecision;

constexpr auto kListed = std::to_array<Listed>({
    // Products.
    {"Attention", narrow, "U"},
    {"Conv", narrow},
    {"ConvTranspose", narrow},
    {"Gemm", narrow},
    {"MatMul", narrow},
    {"leat.Recurrent", narrow},
    // Elementwise ops whose result is about as exact as their inputs.
    {"Abs", follows},
    {"Add", follows},
    {"Clip", follows},
    {"Div", follows},
    {"Dropout", follows},
    {"Elu", follows},
    {"Erf", follows},
    {"Gelu", follows},
    {"HardSigmoid", follows},
    {"LeakyRelu", follows},
    {"Max", follows},
    {"Min", follows},
    {"Mul", follows},
    {"Neg", follows},
    {"Relu", follows},
    {"Sigmoid", follows},
    {"Sign", follows},
    {"Sub", follows},
    {"Sum", follows},
    {"Tanh", follows},
    // Their kernels add up in float32, and statistics stay float32.
    {"AveragePool", follows},
    {"BatchNormalization", follows},
    {"GlobalAveragePool", follows},
    {"GlobalMaxPool", follows},
    {"MaxPool", follows},
    // No float comes out of these, so that nothing is lost.
    {"ArgMax", follows},
    {"ArgMin", follows},
    {"Equal", follows},
    {"Greater", follows},
    {"GreaterOrEqual", follows},
    {"IsInf", follows},
    {"IsNaN", follows},
    {"Less", follows},
    {"LessOrEqual", follows},
    {"Shape", follows},
    {"Size", follows},
    // Its output has the type that it names, whatever comes in.
    {"Cast", follows},
});

}  // namespace

std::vector<std::string_view> listed_ops() {
  std::vector<std::string_view> names;
  for (const Listed& each : kListed) names.push_back(each.op);
  return names;
}

std::string_view beside_of(const OpDef& op) {
  for (const Listed& each : kListed) {
    if (is_op(op, each.op)) return each.beside;
  }
  return "";
}

OpPrecision precision_of(const OpDef& op) {
  for (const Listed& each : kListed) {
    if (is_op(op, each.op)) return each.precision;
  }
  // The ops of Leat's own domain hold state, or exchange it.
  const bool moves = op.domain.empty() && (op.moves || op.view);
  return moves ? follows : wide;
}

}  // namespace leat
