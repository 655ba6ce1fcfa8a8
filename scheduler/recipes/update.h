// The update of one variable, as an optimizer of the table sees it: what it reads, and what it
// writes.
//
//   void lion(Update& u) {
//     const Expression m = u.state("m"), g = u.gradient();
//     u.set_state("m", lerp(m, g, 1 - u.number("beta_2")));
//     u.set_weight(u.weight() - u.narrow(u.rate()) * sign(lerp(m, g, 1 - u.number("beta_1"))));
//   }
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/graph/builder.h"
#include "scheduler/recipes/expression.h"
#include "scheduler/recipes/optimizer.h"

namespace leat {

class Update;

// All that a step has for the update of one variable. All but `step` and `rate` are of `dtype`.
struct UpdateInputs {
  std::string name;  // of the variable
  Shape shape;
  DType dtype = DType::f32;
  ValueId variable = kNone;      // the resource
  ValueId weight = kNone;        // its value before the step
  ValueId rate = kNone;          // a scalar of f64
  ValueId rounded_rate = kNone;  // the same, rounded to dtype
  ValueId step = kNone;          // a scalar of int64, counted from 0
  Expression t = 1;              // the same as f64, counted from 1
  bool lazy = false;
  // Of the mean loss over the global batch. Calls after the first one add no nodes.
  std::function<ValueId()> gradient;
  // The updates of all variables, in the order in which the model reads them, this one among them.
  const std::vector<std::unique_ptr<Update>>* all = nullptr;
};

// Threads: one. The builder, the settings and the emitter outlive it; errors are the builder's.
class Update {
 public:
  Update(Emitter& emitter, GraphBuilder& g, const UpdateInputs& inputs, const SettingValues& values)
      : emitter_(emitter), g_(g), inputs_(inputs), values_(values) {}

  const UpdateInputs& inputs() const { return inputs_; }
  GraphBuilder& builder() { return g_; }
  // The settings that the variable has.
  double number(std::string_view setting) const { return values_.number(setting); }
  bool flag(std::string_view setting) const { return values_.flag(setting); }
  int64_t integer(std::string_view setting) const { return values_.integer(setting); }

  // Before the step.
  Expression weight() { return graph_value(g_, inputs_.weight); }
  Expression gradient() { return graph_value(g_, inputs_.gradient()); }
  // In f64: the rate, and the number of the step, counted from 1. A factor of elements that follows
  // from them is best computed in f64 and rounded once, by narrow().
  Expression rate() { return graph_value(g_, inputs_.rate); }
  Expression t() const { return inputs_.t; }
  Expression narrow(const Expression& x) { return cast(x, inputs_.dtype); }

  // State beside the variable, which is all zeros at first: by default of its shape. `slot` is the
  // end of its name, which begins with kOptimizerPrefix and the variable's name.
  Expression state(std::string_view slot) { return state(slot, inputs_.shape); }
  Expression state(std::string_view slot, const Shape& shape);
  // A scalar of f64, whatever the variable is.
  Expression exact_state(std::string_view slot);
  void set_state(std::string_view slot, const Expression& value);
  void set_weight(const Expression& value);

  // For rules that look at all variables together. Such a rule is called for each of them, and does
  // the work of all when it is called for the first.
  const std::vector<std::unique_ptr<Update>>& all() const { return *inputs_.all; }
  bool is_first() const { return all().front().get() == this; }

  // For updates that are one op.
  ValueId slot(std::string_view name) { return slot(name, inputs_.dtype, inputs_.shape); }
  void add(NodeId node) { nodes_.push_back(node); }

  // The nodes that write.
  const std::vector<NodeId>& nodes() const { return nodes_; }

 private:
  ValueId slot(std::string_view name, DType dtype, const Shape& shape);
  Emitter& emitter_;
  GraphBuilder& g_;
  const UpdateInputs& inputs_;
  const SettingValues& values_;
  std::vector<std::pair<std::string, ValueId>> slots_;
  std::vector<NodeId> nodes_;
};

// The variable of the optimizer's state beside a variable of the model.
ValueId optimizer_slot(GraphBuilder& g, std::string_view variable, std::string_view slot,
                       DType dtype, const Shape& shape);

}  // namespace leat
