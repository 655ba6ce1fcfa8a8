#include "scheduler/recipes/update.h"

#include <algorithm>

#include "devices/base/text.h"

namespace leat {

ValueId optimizer_slot(GraphBuilder& g, std::string_view variable, std::string_view slot,
                       DType dtype, const Shape& shape) {
  return g.op("leat.Variable", {},
              {{"name", cat(kOptimizerPrefix, variable, "/", slot)},
               {"shape", std::vector<int64_t>(shape.begin(), shape.end())},
               {"dtype", std::string(dtype_name(dtype))},
               {"trainable", int64_t{0}}});
}

ValueId Update::slot(std::string_view name, DType dtype, const Shape& shape) {
  const auto found = std::find_if(slots_.begin(), slots_.end(),
                                  [&](const auto& each) { return each.first == name; });
  if (found != slots_.end()) return found->second;
  slots_.emplace_back(name, optimizer_slot(g_, inputs_.name, name, dtype, shape));
  return slots_.back().second;
}

Expression Update::state(std::string_view name, const Shape& shape) {
  return graph_value(g_, g_.op("leat.Read", {slot(name, inputs_.dtype, shape)}));
}

Expression Update::exact_state(std::string_view name) {
  return graph_value(g_, g_.op("leat.Read", {slot(name, DType::f64, Shape())}));
}

void Update::set_state(std::string_view name, const Expression& value) {
  add(g_.effect("leat.Assign", {slot(name), emitter_.emit(value, inputs_.dtype)}));
}

void Update::set_weight(const Expression& value) {
  add(g_.effect("leat.Assign", {inputs_.variable, emitter_.emit(value, inputs_.dtype)}));
}

}  // namespace leat
