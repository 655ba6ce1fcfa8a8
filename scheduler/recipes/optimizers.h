// The parts of the table of optimizers, and the settings that they share. Private to the folder.
#pragma once

#include <span>
#include <string_view>

#include "scheduler/recipes/optimizer.h"
#include "scheduler/recipes/setting.h"
#include "scheduler/recipes/update.h"

namespace leat {

// The entries of all_optimizers(), each list from the file of its formulas. They live as long as
// the program.
std::span<const Optimizer> one_op_optimizers();    // SGD, Adam and AdamW, which have kernels
std::span<const Optimizer> adaptive_optimizers();  // RMSprop, Adagrad, RAdam, Lion, ...
std::span<const Optimizer> norm_optimizers();      // LARS, LAMB, Adafactor and Muon
std::span<const Optimizer> vector_optimizers();    // L-BFGS, which keeps its last steps

// AdamW, for the variables that another rule leaves to it.
void update_by_adamw(Update& u);

// Settings that several optimizers have, with the values that a job file may give: momentum from 0
// to below 1, decay from 0.
inline constexpr Setting kMomentum = {.name = "momentum", .min = 0, .max = 1, .max_open = true};
inline constexpr Setting kNesterov = {.name = "nesterov", .kind = SettingKind::flag};
inline constexpr Setting kWeightDecay = {.name = "weight_decay", .min = 0};

// A setting with another default.
constexpr Setting with_default(Setting setting, double initial) {
  setting.initial = initial;
  return setting;
}
// Numbers of a range: above 0, from 0, from 0 to below 1, and above 0 under the name "epsilon".
constexpr Setting positive(std::string_view name, double initial) {
  return {.name = name, .initial = initial, .min = 0, .min_open = true};
}
constexpr Setting not_negative(std::string_view name, double initial = 0) {
  return {.name = name, .initial = initial, .min = 0};
}
constexpr Setting beta(std::string_view name, double initial) {
  return {.name = name, .initial = initial, .min = 0, .max = 1, .max_open = true};
}
constexpr Setting epsilon(double initial) { return positive("epsilon", initial); }

}  // namespace leat
