#include "scheduler/recipes/optimizer.h"

#include <algorithm>
#include <cmath>

#include "devices/base/glob.h"
#include "scheduler/recipes/optimizers.h"

namespace leat {
namespace {

constexpr Optimizer kOptimizers[] = {
    {.name = "sgd", .settings = kSgdSettings, .update = update_by_sgd, .is_one_op = true},
    {.name = "adam", .settings = kAdamSettings, .update = update_by_adam, .is_one_op = true},
    {.name = "adamw", .settings = kAdamWSettings, .update = update_by_adamw, .is_one_op = true},
    {.name = "nadam", .settings = kNadamSettings, .update = update_by_nadam},
    {.name = "radam", .settings = kRadamSettings, .update = update_by_radam},
    {.name = "adamax", .settings = kAdamaxSettings, .update = update_by_adamax},
    {.name = "adagrad", .settings = kAdagradSettings, .update = update_by_adagrad},
    {.name = "rmsprop", .settings = kRmspropSettings, .update = update_by_rmsprop},
    {.name = "adadelta", .settings = kAdadeltaSettings, .update = update_by_adadelta},
    {.name = "lion", .settings = kLionSettings, .update = update_by_lion},
    {.name = "rprop", .settings = kRpropSettings, .update = update_by_rprop},
    {.name = "asgd", .settings = kAsgdSettings, .update = update_by_asgd},
    {.name = "lars", .settings = kLarsSettings, .update = update_by_lars},
    {.name = "lamb", .settings = kLambSettings, .update = update_by_lamb},
    {.name = "adafactor", .settings = kAdafactorSettings, .update = update_by_adafactor},
    {.name = "muon", .settings = kMuonSettings, .update = update_by_muon},
    {.name = "lbfgs", .settings = kLbfgsSettings, .update = update_by_lbfgs},
};

bool matches(const std::vector<std::string>& globs, std::string_view name) {
  return std::any_of(globs.begin(), globs.end(),
                     [&](const std::string& glob) { return matches_glob(glob, name); });
}

}  // namespace

OptimizerSpec::OptimizerSpec(std::string_view optimizer)
    : name(optimizer), values(find_optimizer(optimizer)->settings) {}

std::span<const Optimizer> all_optimizers() { return kOptimizers; }

const Optimizer* find_optimizer(std::string_view name) {
  const auto found = std::find_if(std::begin(kOptimizers), std::end(kOptimizers),
                                  [&](const Optimizer& each) { return each.name == name; });
  return found == std::end(kOptimizers) ? nullptr : found;
}

std::vector<Setting> all_optimizer_settings() {
  std::vector<Setting> all;
  for (const Optimizer& optimizer : kOptimizers) {
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
