#include "scheduler/recipes/optimizer.h"

#include <algorithm>
#include <cmath>

#include "devices/base/glob.h"
#include "scheduler/recipes/optimizers.h"

namespace leat {
namespace {

bool matches(const std::vector<std::string>& globs, std::string_view name) {
  return std::any_of(globs.begin(), globs.end(),
                     [&](const std::string& glob) { return matches_glob(glob, name); });
}

}  // namespace

OptimizerSpec::OptimizerSpec(std::string_view optimizer)
    : name(optimizer), values(find_optimizer(optimizer)->settings) {}

std::span<const Optimizer> all_optimizers() {
  static const std::vector<Optimizer> all = [] {
    std::vector<Optimizer> out;
    for (const auto& part :
         {one_op_optimizers(), adaptive_optimizers(), norm_optimizers(), vector_optimizers()})
      out.insert(out.end(), part.begin(), part.end());
    return out;
  }();
  return all;
}

const Optimizer* find_optimizer(std::string_view name) {
  const auto all = all_optimizers();
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const Optimizer& each) { return each.name == name; });
  return found == all.end() ? nullptr : &*found;
}

std::vector<Setting> all_optimizer_settings() {
  std::vector<Setting> all;
  for (const Optimizer& optimizer : all_optimizers()) {
    for (const Setting& setting : optimizer.settings) {
      const bool known = std::any_of(
          all.begin(), all.end(), [&](const Setting& each) { return each.name == setting.name; });
      if (!known) all.push_back(setting);
    }
  }
  return all;
}

VariableRule rule_of(const OptimizerSpec& spec, std::string_view variable) {
  VariableRule rule{spec.values, spec.learning_rate, false};
  const auto group =
      std::find_if(spec.groups.begin(), spec.groups.end(),
                   [&](const OptimizerGroup& each) { return matches(each.match, variable); });
  if (group != spec.groups.end()) {
    rule.learning_rate = group->learning_rate.value_or(rule.learning_rate) * group->lr_scale;
    rule.frozen = group->freeze;
    for (const auto& [name, value] : group->values) rule.values.set(name, value);
  }
  const auto& layers = spec.layer_decay.layers;
  const auto layer = std::find_if(layers.begin(), layers.end(), [&](const std::string& glob) {
    return matches_glob(glob, variable);
  });
  if (layer != layers.end())
    rule.learning_rate *=
        std::pow(spec.layer_decay.factor, static_cast<double>(layers.end() - layer - 1));
  return rule;
}

}  // namespace leat
