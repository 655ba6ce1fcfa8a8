// The parts of the table of optimizers, and the settings that they share. Private to the folder.
#pragma once

#include <span>
#include <string_view>

#include "scheduler/recipes/optimizer.h"
#include "scheduler/recipes/setting.h"
#include "scheduler/recipes/update.h"

namespace leat {

std::span<const Optimizer> one_op_optimizers();
std::span<const Optimizer> adaptive_optimizers();
std::span<const Optimizer> norm_optimizers();
std::span<const Optimizer> vector_optimizers();

// AdamW, for the variables that another rule leaves to it.
void update_by_adamw(Update& u);

inline constexpr Setting kMomentum = {.name = "momentum", .min = 0, .max = 1, .max_open = true};
inline constexpr Setting kNesterov = {.name = "nesterov", .kind = SettingKind::flag};
inline constexpr Setting kWeightDecay = {.name = "weight_decay", .min = 0};

// A setting with another default.
constexpr Setting with_default(Setting setting, double initial) {
  setting.initial = initial;
  return setting;
}
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
