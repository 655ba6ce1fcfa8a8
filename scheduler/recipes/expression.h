// A formula as a value: a tree that is computed with numbers, or becomes nodes of a graph. So the
// rule of a schedule or of an optimizer is written once, the way its paper has it:
//
//   Expression factor(const Expression& t) { return pow(0.1, floor(t / 30)); }
//
//   value_of(factor(argument()), 42)                     // 0.1
//   Emitter(g).emit(factor(graph_value(g, step)))        // nodes Div, Floor, Pow
//
// An operation on numbers alone is done at once. The nodes of a graph are added in the order of the
// tree, operands from left to right, and a part that the tree has several times is added once.
// Compilers may make the parts of a formula in any order; the graph does not depend on it.
//
// Threads: a value; its parts are shared and never change.
#pragma once

#include <map>
#include <memory>
#include <string_view>
#include <vector>

#include "devices/base/dtype.h"
#include "ops/graph/attrs.h"
#include "ops/graph/builder.h"

namespace leat {

class Expression {
 public:
  struct Part {
    enum class Kind { number, argument, value, op } kind = Kind::number;
    double number = 0;
    ValueId value = kNone;
    std::string_view op = {};  // the full name of an op of the catalogue
    Attrs attrs = {};
    std::vector<std::shared_ptr<const Part>> operands = {};
    DType dtype = DType::invalid;  // invalid: that of the expression around it
  };

  // A number. Not explicit, so that formulas may have them: 2 * x.
  Expression(double number);
  explicit Expression(std::shared_ptr<const Part> part) : part_(std::move(part)) {}

  const std::shared_ptr<const Part>& part() const { return part_; }
  bool is_number() const { return part_->kind == Part::Kind::number; }

 private:
  std::shared_ptr<const Part> part_;
};

// The one argument of a formula, such as a step: of f64.
Expression argument();
// A value of the graph.
Expression graph_value(GraphBuilder& g, ValueId value);
// The number as a constant of the graph, so that what follows from it is computed there.
Expression graph_constant(GraphBuilder& g, DType dtype, double number);

// Element by element, with ONNX's rules of broadcasting. A condition is a value of type bool.
Expression operator+(const Expression& a, const Expression& b);
Expression operator-(const Expression& a, const Expression& b);
Expression operator*(const Expression& a, const Expression& b);
Expression operator/(const Expression& a, const Expression& b);
Expression operator-(const Expression& a);
Expression min(const Expression& a, const Expression& b);
Expression max(const Expression& a, const Expression& b);
Expression pow(const Expression& a, const Expression& b);
Expression sqrt(const Expression& a);
Expression cos(const Expression& a);
Expression floor(const Expression& a);
Expression abs(const Expression& a);
Expression sign(const Expression& a);
Expression less(const Expression& a, const Expression& b);
Expression at_least(const Expression& a, const Expression& b);  // a >= b
Expression where(const Expression& condition, const Expression& a, const Expression& b);
// x * x.
Expression square(const Expression& x);
// a + (b - a) * weight.
Expression lerp(const Expression& a, const Expression& b, const Expression& weight);

// Of graphs alone: any op with one output.
Expression node(std::string_view op, std::vector<Expression> operands, Attrs attrs = {});
Expression cast(const Expression& x, DType dtype);
// Over these axes, which stay with size 1; without axes over all, to a scalar.
Expression sum(GraphBuilder& g, const Expression& x, const std::vector<int64_t>& axes = {});
Expression matmul(const Expression& a, const Expression& b);
Expression transpose(const Expression& x);  // of a matrix
Expression reshape(GraphBuilder& g, const Expression& x, const std::vector<int64_t>& shape);

// The value of a formula of numbers and its argument. REQUIRES: it has no parts of graphs.
double value_of(const Expression& expression, double argument);

// Adds expressions to a graph. Errors are those of the builder, which outlives it.
class Emitter {
 public:
  explicit Emitter(GraphBuilder& g) : g_(g) {}
  // Numbers that stand by themselves become constants of `dtype`.
  ValueId emit(const Expression& expression, DType dtype = DType::f64);

 private:
  ValueId emit(const std::shared_ptr<const Expression::Part>& part, DType dtype);
  GraphBuilder& g_;
  // Each part that has been added, which stays alive so that its address belongs to nothing else.
  std::map<std::shared_ptr<const Expression::Part>, ValueId> done_;
};

}  // namespace leat
