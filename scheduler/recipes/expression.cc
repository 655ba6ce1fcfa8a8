#include "scheduler/recipes/expression.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace leat {
namespace {

using Part = Expression::Part;
using Operands = std::vector<std::shared_ptr<const Part>>;

// The ops that have a meaning for numbers. Conditions are 1 and 0.
double compute(std::string_view op, const std::vector<double>& x) {
  if (op == "Add") return x[0] + x[1];
  if (op == "Sub") return x[0] - x[1];
  if (op == "Mul") return x[0] * x[1];
  if (op == "Div") return x[0] / x[1];
  if (op == "Min") return std::min(x[0], x[1]);
  if (op == "Max") return std::max(x[0], x[1]);
  if (op == "Pow") return std::pow(x[0], x[1]);
  if (op == "Neg") return -x[0];
  if (op == "Sqrt") return std::sqrt(x[0]);
  if (op == "Cos") return std::cos(x[0]);
  if (op == "Floor") return std::floor(x[0]);
  if (op == "Abs") return std::abs(x[0]);
  if (op == "Sign") return x[0] > 0 ? 1 : x[0] < 0 ? -1 : 0;
  if (op == "Less") return x[0] < x[1] ? 1 : 0;
  if (op == "GreaterOrEqual") return x[0] >= x[1] ? 1 : 0;
  if (op == "Where") return x[0] != 0 ? x[1] : x[2];
  return std::nan("");
}

DType dtype_among(const Operands& operands, size_t from) {
  for (size_t i = from; i < operands.size(); ++i) {
    if (operands[i]->dtype != DType::invalid) return operands[i]->dtype;
  }
  return DType::invalid;
}

// An elementwise op. On numbers alone it is computed at once.
Expression elementwise(std::string_view op, const std::vector<Expression>& operands,
                       bool is_condition = false) {
  Part part{.kind = Part::Kind::op, .op = op};
  std::vector<double> numbers;
  for (const Expression& each : operands) {
    part.operands.push_back(each.part());
    if (each.is_number()) numbers.push_back(each.part()->number);
  }
  if (numbers.size() == operands.size()) return compute(op, numbers);
  part.dtype = is_condition ? DType::boolean : dtype_among(part.operands, op == "Where" ? 1 : 0);
  return Expression(std::make_shared<const Part>(std::move(part)));
}

Expression integers(GraphBuilder& g, const std::vector<int64_t>& values) {
  Tensor tensor(DType::i64, Shape{static_cast<int64_t>(values.size())});
  std::copy(values.begin(), values.end(), tensor.data<int64_t>());
  return graph_value(g, g.constant(std::move(tensor)));
}

double value_of(const Part& part, double argument) {
  if (part.kind == Part::Kind::number) return part.number;
  if (part.kind == Part::Kind::argument) return argument;
  std::vector<double> numbers;
  for (const auto& each : part.operands) numbers.push_back(value_of(*each, argument));
  return compute(part.op, numbers);
}

}  // namespace

Expression::Expression(double number)
    : part_(std::make_shared<const Part>(Part{.number = number})) {}

Expression argument() {
  return Expression(
      std::make_shared<const Part>(Part{.kind = Part::Kind::argument, .dtype = DType::f64}));
}

Expression graph_value(GraphBuilder& g, ValueId value) {
  const DType dtype = g.status().ok() ? g.graph().value(value).type.dtype : DType::f64;
  return Expression(std::make_shared<const Part>(
      Part{.kind = Part::Kind::value, .value = value, .dtype = dtype}));
}

Expression graph_constant(GraphBuilder& g, DType dtype, double number) {
  return graph_value(g, g.scalar(dtype, number));
}

Expression operator+(const Expression& a, const Expression& b) {
  return elementwise("Add", {a, b});
}
Expression operator-(const Expression& a, const Expression& b) {
  return elementwise("Sub", {a, b});
}
Expression operator*(const Expression& a, const Expression& b) {
  return elementwise("Mul", {a, b});
}
Expression operator/(const Expression& a, const Expression& b) {
  return elementwise("Div", {a, b});
}
Expression operator-(const Expression& a) { return elementwise("Neg", {a}); }
Expression min(const Expression& a, const Expression& b) { return elementwise("Min", {a, b}); }
Expression max(const Expression& a, const Expression& b) { return elementwise("Max", {a, b}); }
Expression pow(const Expression& a, const Expression& b) { return elementwise("Pow", {a, b}); }
Expression sqrt(const Expression& a) { return elementwise("Sqrt", {a}); }
Expression cos(const Expression& a) { return elementwise("Cos", {a}); }
Expression floor(const Expression& a) { return elementwise("Floor", {a}); }
Expression abs(const Expression& a) { return elementwise("Abs", {a}); }
Expression sign(const Expression& a) { return elementwise("Sign", {a}); }

Expression less(const Expression& a, const Expression& b) {
  return elementwise("Less", {a, b}, true);
}

Expression at_least(const Expression& a, const Expression& b) {
  return elementwise("GreaterOrEqual", {a, b}, true);
}

Expression where(const Expression& condition, const Expression& a, const Expression& b) {
  return elementwise("Where", {condition, a, b});
}

Expression square(const Expression& x) { return x * x; }

Expression lerp(const Expression& a, const Expression& b, const Expression& weight) {
  return a + (b - a) * weight;
}

Expression node(std::string_view op, std::vector<Expression> operands, Attrs attrs) {
  Part part{.kind = Part::Kind::op, .op = op, .attrs = std::move(attrs)};
  for (const Expression& each : operands) part.operands.push_back(each.part());
  part.dtype = dtype_among(part.operands, 0);
  return Expression(std::make_shared<const Part>(std::move(part)));
}

Expression cast(const Expression& x, DType dtype) {
  if (x.is_number() || x.part()->dtype == dtype) return x;
  Part part{.kind = Part::Kind::op,
            .op = "Cast",
            .attrs = {{"to", int64_t{dtype_onnx_code(dtype)}}},
            .operands = {x.part()},
            .dtype = dtype};
  return Expression(std::make_shared<const Part>(std::move(part)));
}

Expression sum(GraphBuilder& g, const Expression& x, const std::vector<int64_t>& axes) {
  if (axes.empty()) return node("ReduceSum", {x}, {{"keepdims", int64_t{0}}});
  return node("ReduceSum", {x, integers(g, axes)}, {{"keepdims", int64_t{1}}});
}

Expression matmul(const Expression& a, const Expression& b) { return node("MatMul", {a, b}); }

Expression transpose(const Expression& x) {
  return node("Transpose", {x}, {{"perm", std::vector<int64_t>{1, 0}}});
}

Expression reshape(GraphBuilder& g, const Expression& x, const std::vector<int64_t>& shape) {
  return node("Reshape", {x, integers(g, shape)});
}

double value_of(const Expression& expression, double argument) {
  return value_of(*expression.part(), argument);
}

ValueId Emitter::emit(const Expression& expression, DType dtype) {
  return emit(expression.part(), dtype);
}

ValueId Emitter::emit(const std::shared_ptr<const Part>& part, DType dtype) {
  if (part->kind == Part::Kind::value) return part->value;
  if (part->kind == Part::Kind::number) return g_.scalar(dtype, part->number);
  if (const auto found = done_.find(part); found != done_.end()) return found->second;
  // The type of the numbers among the operands: that of the operands that have one.
  const bool is_condition = part->dtype == DType::boolean && part->op != "Where";
  DType inner = is_condition ? dtype_among(part->operands, 0) : part->dtype;
  if (inner == DType::invalid) inner = dtype;
  std::vector<ValueId> inputs;
  for (const auto& each : part->operands) inputs.push_back(emit(each, inner));
  const ValueId made = g_.op(part->op, std::move(inputs), part->attrs);
  // A choice between numbers has the type of each place that it is in.
  if (part->dtype != DType::invalid) done_[part] = made;
  return made;
}

}  // namespace leat
