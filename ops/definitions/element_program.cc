#include "ops/definitions/element_program.h"

#include <algorithm>
#include <charconv>

#include "devices/base/text.h"
#include "ops/definitions/definitions.h"
#include "ops/graph/op.h"

namespace leat {
namespace {

using elementwise::StepOp;

// An op that may be a step. "Gelu.tanh" is the variant that the attribute `approximate` chooses.
struct NamedStep {
  std::string_view name;
  StepOp op;
  int operands;
  const char* params[2] = {nullptr, nullptr};  // names of attributes
};
constexpr NamedStep kSteps[] = {
    {"Cast", StepOp::convert, 1},
    {"Add", StepOp::add, 2},
    {"Sum", StepOp::add, 2},
    {"Sub", StepOp::sub, 2},
    {"Mul", StepOp::mul, 2},
    {"Div", StepOp::div, 2},
    {"Max", StepOp::max, 2},
    {"Min", StepOp::min, 2},
    {"Neg", StepOp::neg, 1},
    {"Abs", StepOp::abs, 1},
    {"Sqrt", StepOp::sqrt, 1},
    {"Exp", StepOp::exp, 1},
    {"Reciprocal", StepOp::reciprocal, 1},
    {"Relu", StepOp::relu, 1},
    {"leat.ReluGrad", StepOp::relu_grad, 2},
    {"LeakyRelu", StepOp::leaky_relu, 1, {"alpha"}},
    {"leat.LeakyReluGrad", StepOp::leaky_relu_grad, 2, {"alpha"}},
    {"Sigmoid", StepOp::sigmoid, 1},
    {"leat.SigmoidGrad", StepOp::sigmoid_grad, 2},
    {"Tanh", StepOp::tanh, 1},
    {"leat.TanhGrad", StepOp::tanh_grad, 2},
    {"Gelu", StepOp::gelu, 1},
    {"leat.GeluGrad", StepOp::gelu_grad, 2},
    {"Gelu.tanh", StepOp::tanh_gelu, 1},
    {"leat.GeluGrad.tanh", StepOp::tanh_gelu_grad, 2},
    {"HardSigmoid", StepOp::hard_sigmoid, 1, {"alpha", "beta"}},
    {"leat.HardSigmoidGrad", StepOp::hard_sigmoid_grad, 2, {"alpha", "beta"}},
};

// The first step of that op, or of that name.
const NamedStep& named(StepOp op) {
  return *std::find_if(std::begin(kSteps), std::end(kSteps),
                       [&](const NamedStep& step) { return step.op == op; });
}
const NamedStep* named(std::string_view name) {
  const auto found = std::find_if(std::begin(kSteps), std::end(kSteps),
                                  [&](const NamedStep& step) { return step.name == name; });
  return found == std::end(kSteps) ? nullptr : found;
}

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    words.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

// A list of floats; one without fractions may have come as integers.
std::vector<double> numbers_of(const Attr& attr) {
  if (const auto* floats = std::get_if<std::vector<double>>(&attr)) return *floats;
  if (const auto* ints = std::get_if<std::vector<int64_t>>(&attr))
    return {ints->begin(), ints->end()};
  return {};
}

// Step `index` from its text. Its operands are values that are there before it.
Result<ElementStep> read_step(const std::string& text, int index, int inputs) {
  const auto wrong = [&](std::string_view expected) {
    return invalid_argument(
        cat("steps: expected ", expected, " in step ", index, ", received '", text, "'"));
  };
  const auto words = words_of(text);
  const NamedStep* known = words.empty() ? nullptr : named(words[0]);
  if (!known) return wrong("the name of an elementwise op");
  if (words.size() != static_cast<size_t>(known->operands) + 2)
    return wrong(cat(known->operands, " operands and a dtype"));
  ElementStep step;
  step.op = known->op;
  for (int i = 0; i < known->operands; ++i) {
    const std::string_view word = words[static_cast<size_t>(i) + 1];
    int& operand = i == 0 ? step.a : step.b;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), operand);
    if (error != std::errc() || end != word.data() + word.size() || operand < 0 ||
        operand >= inputs + index)
      return wrong("operands that are inputs or earlier steps");
  }
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    if (words.back() != dtype_name(dtype)) continue;
    step.dtype = dtype;
    return step;
  }
  return wrong("the dtype float, float16 or bfloat16");
}

Status infer_elementwise(InferContext& ctx) {
  const auto program = read_program(ctx.attrs(), ctx.inputs());
  if (!program.ok()) return ctx.error(program.status().message());
  SymbolicShape shape = ctx.shape(0);
  for (int i = 0; i < ctx.inputs(); ++i) {
    const auto broader = broadcast(ctx, shape, ctx.shape(i));
    if (!broader)
      return ctx.error(cat("input ", i, ": expected a shape that broadcasts with ", ctx.text(shape),
                           ", received ", ctx.text(ctx.shape(i))));
    shape = *broader;
  }
  const auto dtypes = program->result_dtypes();
  if (static_cast<size_t>(ctx.outputs()) != dtypes.size())
    return ctx.error(
        cat("expected ", dtypes.size(), " outputs, as it has results, received ", ctx.outputs()));
  for (int i = 0; i < ctx.outputs(); ++i) {
    if (!ctx.wants_output(i)) return ctx.error(cat("output ", i, ": expected one, it is absent"));
    ctx.set_tensor(i, dtypes[static_cast<size_t>(i)], shape);
  }
  return {};
}

}  // namespace

std::vector<DType> ElementProgram::result_dtypes() const {
  std::vector<DType> dtypes;
  for (const int result : results)
    dtypes.push_back(steps[static_cast<size_t>(result - inputs)].dtype);
  return dtypes;
}

bool has_element_programs(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
}

Attrs program_attrs(const ElementProgram& program) {
  std::vector<std::string> steps;
  std::vector<double> params;
  for (const ElementStep& step : program.steps) {
    std::string text = cat(named(step.op).name, " ", step.a);
    if (step.b >= 0) text += cat(" ", step.b);
    steps.push_back(cat(text, " ", dtype_name(step.dtype)));
    params.insert(params.end(), step.params, step.params + 2);
  }
  const std::vector<int64_t> results(program.results.begin(), program.results.end());
  return {{"steps", steps}, {"params", params}, {"results", results}};
}

Result<ElementProgram> read_program(const Attrs& attrs, int inputs) {
  const auto* steps = std::get_if<std::vector<std::string>>(&attrs.at("steps"));
  const std::vector<double> params = numbers_of(attrs.at("params"));
  const std::vector<int64_t> results = attr_ints(attrs, "results");
  const auto within = [](size_t count, int most) {
    return count > 0 && count <= static_cast<size_t>(most);
  };
  if (inputs < 1 || inputs > kMostProgramInputs)
    return invalid_argument(
        cat("expected 1 to ", kMostProgramInputs, " inputs, received ", inputs));
  if (!steps || !within(steps->size(), kMostProgramSteps))
    return invalid_argument(
        cat("steps: expected 1 to ", kMostProgramSteps, ", received ", steps ? steps->size() : 0));
  if (params.size() != 2 * steps->size())
    return invalid_argument(cat("params: expected two for each of ", steps->size(),
                                " steps, received ", params.size()));
  if (!within(results.size(), kMostProgramResults))
    return invalid_argument(
        cat("results: expected 1 to ", kMostProgramResults, ", received ", results.size()));
  ElementProgram program;
  program.inputs = inputs;
  const int values = inputs + static_cast<int>(steps->size());
  for (size_t i = 0; i < steps->size(); ++i) {
    LEAT_ASSIGN_OR_RETURN(ElementStep step, read_step((*steps)[i], static_cast<int>(i), inputs));
    std::copy_n(params.begin() + static_cast<std::ptrdiff_t>(2 * i), 2, step.params);
    program.steps.push_back(step);
  }
  for (const int64_t result : results) {
    if (result < inputs || result >= values)
      return invalid_argument(
          cat("results: expected steps in [", inputs, ", ", values - 1, "], received ", result));
    if (std::count(results.begin(), results.end(), result) > 1)
      return invalid_argument(cat("results: expected each once, received ", result, " twice"));
    program.results.push_back(static_cast<int>(result));
  }
  return program;
}

std::optional<ElementStep> step_of(const Node& node, const Attrs& attrs) {
  std::string name = node.op->full_name();
  if (attrs.contains("approximate") && attr_string(attrs, "approximate") == "tanh") name += ".tanh";
  const NamedStep* known = named(name);
  if (!known || node.inputs.size() != static_cast<size_t>(known->operands) ||
      node.outputs.size() != 1)
    return std::nullopt;
  ElementStep step;
  step.op = known->op;
  step.b = known->operands - 2;  // 0 of two operands: set by the caller
  for (size_t i = 0; i < 2 && known->params[i]; ++i)
    step.params[i] = attr_float(attrs, known->params[i]);
  return step;
}

std::optional<ProgramOperand> program_operand(const Shape& input, const Shape& output) {
  const int64_t elements = output.elements();
  if (input == output) return ProgramOperand{1, elements};
  const int extra = output.rank() - input.rank();
  if (extra < 0) return std::nullopt;
  // The run of axes that the input has: those before and behind it are broadcast.
  int begin = -1, end = -1;
  for (int axis = 0; axis < output.rank(); ++axis) {
    const int64_t size = axis < extra ? 1 : input[axis - extra];
    if (size != 1 && size != output[axis]) return std::nullopt;
    if (size == 1 && output[axis] == 1) continue;
    if (size == 1) {
      if (begin >= 0 && end < 0) end = axis;
    } else {
      if (end >= 0) return std::nullopt;
      if (begin < 0) begin = axis;
    }
  }
  if (begin < 0) return ProgramOperand{std::max<int64_t>(elements, 1), 1};
  if (end < 0) end = output.rank();
  return ProgramOperand{output.elements(end, output.rank()), output.elements(begin, end)};
}

Result<std::vector<ProgramOperand>> program_operands(const OpTypes& types) {
  // Inference does not count absent inputs at the end.
  for (const auto* list : {&types.inputs, &types.outputs}) {
    if (!std::all_of(list->begin(), list->end(), [](const auto& type) { return type.present; }))
      return invalid_argument("expected all inputs and outputs, one is absent");
  }
  std::vector<ProgramOperand> operands;
  const Shape& shape = types.outputs[0].shape;
  for (size_t i = 0; i < types.inputs.size(); ++i) {
    const auto operand = program_operand(types.inputs[i].shape, shape);
    if (!operand)
      return unimplemented(cat("input ", i,
                               ": expected a shape that is broadcast along one run of ", "axes of ",
                               shape, ", received ", types.inputs[i].shape));
    operands.push_back(*operand);
  }
  return operands;
}

void register_program_ops(Catalogue& catalogue) {
  catalogue.add(Op("leat.Elementwise")
                    .variadic_input("x", "T", true)
                    .variadic_output("y", "T", true)
                    .attr_required("steps", "strings")
                    .attr_required("params", "floats")
                    .attr_required("results", "ints")
                    .type("T", DTypeSet::of(DType::f32, DType::f16, DType::bf16))
                    .infer(infer_elementwise));
}

}  // namespace leat
