// The optimizers: each is a rule by which a step updates one variable from the sum of its gradient.
// all_optimizers() is the table of them; a new optimizer is an entry in one of the optimizers_*.cc
// files, with its settings and its formula.
//
// SGD, Adam and AdamW are one op for each variable, which has kernels of its own. All others are
// made of ordinary nodes, so that every device has them. Their bits are the same on any number of
// workers like those of any node.
//
// Threads: pure functions and values.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "scheduler/recipes/setting.h"

namespace leat {

class Update;

struct Optimizer {
  std::string_view name;
  std::span<const Setting> settings;
  // Adds the nodes that update one variable (update.h).
  void (*update)(Update& update);
  // One op reads and writes the variable and its state: it may be lazy, and workers that do not
  // wait for each other may update a variable by it.
  bool is_one_op = false;
};

std::span<const Optimizer> all_optimizers();
// Null if there is no optimizer of that name.
const Optimizer* find_optimizer(std::string_view name);
// The settings of all optimizers, each name once.
std::vector<Setting> all_optimizer_settings();

// The prefix of the names of state that is not part of the model's weights.
inline constexpr std::string_view kOptimizerPrefix = "optimizer/";
// Of the average of the weights (scheduler/graph/weight_average.h): the slot beside a variable, and
// the variable with the number of steps.
inline constexpr std::string_view kAverageSlot = "ema";
inline constexpr std::string_view kAverageSteps = "optimizer/ema_steps";

// The settings that differ for the variables whose names match.
struct OptimizerGroup {
  std::vector<std::string> match;        // globs: '*' stands for any characters, '?' for one
  std::optional<double> learning_rate;   // in place of the optimizer's
  double lr_scale = 1;                   // times the rate
  bool freeze = false;                   // not trained
  std::map<std::string, double> values;  // of the optimizer's settings
  bool operator==(const OptimizerGroup&) const = default;
};

// A factor of the rate by the depth of a variable in the model. The variables of the last layer
// have 1, those of the one before it the factor, then its square and so on.
struct LayerDecay {
  double factor = 1;
  std::vector<std::string> layers;  // globs, from the first layer to the last
  bool operator==(const LayerDecay&) const = default;
};

// The part of a job that is about its updates. In a step, with the gradients of the mean loss over
// the global batch: clip_value bounds each element, then clip_norm scales all gradients together,
// then the optimizer updates the variables, then the average follows them. With `sam`, the
// gradients are those at the weights plus the step of that length along the gradients at the
// weights.
struct OptimizerSpec {
  OptimizerSpec() : OptimizerSpec("sgd") {}
  // With the defaults of its settings. REQUIRES: an optimizer of that name.
  explicit OptimizerSpec(std::string_view optimizer);

  std::string name;
  double learning_rate = 0.01;
  SettingValues values;
  bool lazy = false;  // a variable that is only looked up by rows is updated in those rows alone
  std::vector<OptimizerGroup> groups;  // the first that matches a variable counts
  LayerDecay layer_decay;
  double clip_norm = 0;   // the largest norm of all gradients together; 0: any
  double clip_value = 0;  // the largest absolute value of an element of a gradient; 0: any
  double ema = 0;         // the factor of the average of the weights in a step; 0: no average
  double sam = 0;         // the radius of sharpness-aware minimization; 0: none of it

  bool operator==(const OptimizerSpec&) const = default;
};

// The rule of one variable.
struct VariableRule {
  SettingValues values;
  double learning_rate = 0;  // with the factors of its group and layer
  bool frozen = false;
};
VariableRule rule_of(const OptimizerSpec& spec, std::string_view variable);

}  // namespace leat
