// The entries of the table of optimizers: their settings and their rules. Private to optimizer.cc.
#pragma once

#include "scheduler/recipes/setting.h"
#include "scheduler/recipes/update.h"

namespace leat {

// optimizers_one_op.cc

inline constexpr Setting kMomentum = {.name = "momentum", .min = 0, .max = 1, .max_open = true};
inline constexpr Setting kNesterov = {.name = "nesterov", .kind = SettingKind::flag};
inline constexpr Setting kWeightDecay = {.name = "weight_decay", .min = 0};

// A setting with another default.
constexpr Setting with_default(Setting setting, double initial) {
  setting.initial = initial;
  return setting;
}
constexpr Setting beta(std::string_view name, double initial) {
  return {.name = name, .initial = initial, .min = 0, .max = 1, .max_open = true};
}
constexpr Setting epsilon(double initial) {
  return {.name = "epsilon", .initial = initial, .min = 0, .min_open = true};
}

inline constexpr Setting kSgdSettings[] = {kMomentum, kNesterov, kWeightDecay};
void update_by_sgd(Update& u);

inline constexpr Setting kAdamSettings[] = {beta("beta_1", 0.9), beta("beta_2", 0.999),
                                            epsilon(1e-8), kWeightDecay};
inline constexpr Setting kAdamWSettings[] = {beta("beta_1", 0.9), beta("beta_2", 0.999),
                                             epsilon(1e-8), with_default(kWeightDecay, 0.01)};
void update_by_adam(Update& u);
void update_by_adamw(Update& u);

// optimizers_adaptive.cc

inline constexpr Setting kDecoupled = {.name = "decoupled", .kind = SettingKind::flag};
constexpr Setting positive(std::string_view name, double initial) {
  return {.name = name, .initial = initial, .min = 0, .min_open = true};
}
constexpr Setting not_negative(std::string_view name, double initial = 0) {
  return {.name = name, .initial = initial, .min = 0};
}

inline constexpr Setting kNadamSettings[] = {
    beta("beta_1", 0.9), beta("beta_2", 0.999),
    epsilon(1e-8),       not_negative("momentum_decay", 4e-3),
    kWeightDecay,        kDecoupled};
inline constexpr Setting kRadamSettings[] = {beta("beta_1", 0.9), beta("beta_2", 0.999),
                                             epsilon(1e-8), kWeightDecay, kDecoupled};
inline constexpr Setting kAdamaxSettings[] = {beta("beta_1", 0.9), beta("beta_2", 0.999),
                                              epsilon(1e-8), kWeightDecay};
inline constexpr Setting kAdagradSettings[] = {
    not_negative("lr_decay"), not_negative("initial_accumulator"), epsilon(1e-10), kWeightDecay};
inline constexpr Setting kRmspropSettings[] = {beta("rho", 0.99),
                                               kMomentum,
                                               {.name = "centered", .kind = SettingKind::flag},
                                               epsilon(1e-8),
                                               kWeightDecay};
inline constexpr Setting kAdadeltaSettings[] = {beta("rho", 0.9), epsilon(1e-6), kWeightDecay};
inline constexpr Setting kLionSettings[] = {beta("beta_1", 0.9), beta("beta_2", 0.99),
                                            kWeightDecay};
inline constexpr Setting kRpropSettings[] = {
    {.name = "rise", .initial = 1.2, .min = 1, .min_open = true},
    {.name = "fall", .initial = 0.5, .min = 0, .max = 1, .min_open = true, .max_open = true},
    positive("step_min", 1e-6),
    positive("step_max", 50)};
inline constexpr Setting kAsgdSettings[] = {not_negative("lambd", 1e-4),
                                            not_negative("power", 0.75),
                                            not_negative("averages_from", 1e6), kWeightDecay};
void update_by_nadam(Update& u);
void update_by_radam(Update& u);
void update_by_adamax(Update& u);
void update_by_adagrad(Update& u);
void update_by_rmsprop(Update& u);
void update_by_adadelta(Update& u);
void update_by_lion(Update& u);
void update_by_rprop(Update& u);
void update_by_asgd(Update& u);

// optimizers_by_norm.cc

inline constexpr Setting kLarsSettings[] = {with_default(kMomentum, 0.9),
                                            not_negative("trust_coefficient", 1e-3), kWeightDecay};
inline constexpr Setting kLambSettings[] = {beta("beta_1", 0.9), beta("beta_2", 0.999),
                                            epsilon(1e-6), with_default(kWeightDecay, 0.01)};
inline constexpr Setting kAdafactorSettings[] = {
    {.name = "beta_2_decay", .initial = -0.8, .max = 0},
    not_negative("epsilon_1"),
    positive("epsilon_2", 1e-3),
    positive("clip_threshold", 1),
    kWeightDecay};
inline constexpr Setting kMuonSettings[] = {
    with_default(kMomentum, 0.95),
    with_default(kNesterov, 1),
    {.name = "ns_steps", .kind = SettingKind::integer, .initial = 5, .min = 1, .max = 20},
    {.name = "match_rms", .kind = SettingKind::flag},
    {.name = "orthogonal", .kind = SettingKind::flag, .initial = 1},
    beta("beta_1", 0.9),
    beta("beta_2", 0.999),
    epsilon(1e-8),
    with_default(kWeightDecay, 0.1)};
void update_by_lars(Update& u);
void update_by_lamb(Update& u);
void update_by_adafactor(Update& u);
void update_by_muon(Update& u);

// optimizers_lbfgs.cc

inline constexpr Setting kLbfgsSettings[] = {
    {.name = "history", .kind = SettingKind::integer, .initial = 10, .min = 1, .max = 100},
    not_negative("tolerance", 1e-9)};
void update_by_lbfgs(Update& u);

}  // namespace leat
