#include "scheduler/recipes/loss.h"

#include <algorithm>

#include "scheduler/recipes/losses.h"

namespace leat {
namespace {

constexpr Setting kFromLogits = {.name = "from_logits", .kind = SettingKind::flag, .initial = 1};

constexpr Setting kCrossEntropy[] = {
    kFromLogits,
    {.name = "label_smoothing", .min = 0, .max = 1},
    {.name = "soft_labels", .kind = SettingKind::flag},
};
constexpr Setting kBinaryCrossEntropy[] = {
    kFromLogits,
    {.name = "pos_weight", .initial = 1, .min = 0, .min_open = true},
};
constexpr Setting kFocal[] = {
    {.name = "gamma", .initial = 2, .min = 0},
    {.name = "alpha", .initial = 0.25, .min = -1, .max = 1},
};
constexpr Setting kHuber[] = {{.name = "delta", .initial = 1, .min = 0, .min_open = true}};
constexpr Setting kSmoothL1[] = {{.name = "beta", .initial = 1, .min = 0, .min_open = true}};
constexpr Setting kPoisson[] = {
    {.name = "log_input", .kind = SettingKind::flag, .initial = 1},
};
constexpr Setting kCtc[] = {
    {.name = "blank", .kind = SettingKind::integer, .min = 0},
    {.name = "zero_infinity", .kind = SettingKind::flag},
    {.name = "time_major", .kind = SettingKind::flag},
};
constexpr Setting kTriplet[] = {{.name = "margin", .initial = 1, .min = 0, .min_open = true}};

constexpr LossRecipe kLosses[] = {
    {"cross_entropy", kCrossEntropy, Labels::classes, losses::cross_entropy},
    {"mse", {}, Labels::values, losses::squared_error},
    {"binary_cross_entropy", kBinaryCrossEntropy, Labels::binary, losses::binary_cross_entropy},
    {"focal", kFocal, Labels::binary, losses::focal},
    {"hinge", {}, Labels::binary, losses::hinge},
    {"l1", {}, Labels::values, losses::absolute_error},
    {"mae", {}, Labels::values, losses::absolute_error},
    {"huber", kHuber, Labels::values, losses::huber},
    {"smooth_l1", kSmoothL1, Labels::values, losses::smooth_l1},
    {"log_cosh", {}, Labels::values, losses::log_cosh},
    {"poisson", kPoisson, Labels::values, losses::poisson},
    {"kl_div", {}, Labels::values, losses::kl_div},
    {"cosine", {}, Labels::values, losses::cosine},
    {"ctc", kCtc, Labels::sequence, losses::ctc},
    {"triplet", kTriplet, Labels::none, losses::triplet},
    {"output", {}, Labels::none, losses::output, false},
};

}  // namespace

std::span<const LossRecipe> all_losses() { return kLosses; }

const LossRecipe* find_loss(std::string_view name) {
  const auto found = std::find_if(std::begin(kLosses), std::end(kLosses),
                                  [&](const LossRecipe& each) { return each.name == name; });
  return found == std::end(kLosses) ? nullptr : &*found;
}

LossSpec LossSpec::of(std::string_view name) {
  LossSpec spec;
  spec.name = name;
  spec.settings = SettingValues(find_loss(name)->settings);
  return spec;
}

}  // namespace leat
