#include "scheduler/recipes/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "scheduler/recipes/expression.h"

namespace leat {
namespace {

// Steps, or epochs.
constexpr double kMostSteps = 1099511627776;  // 2^40
// Without a value, until the end of the job.
constexpr Setting kDecaySteps = {
    .name = "decay_steps", .kind = SettingKind::integer, .min = 1, .max = kMostSteps};
constexpr Setting kAlpha = {.name = "alpha", .min = 0, .max = 1};
constexpr Setting kGamma = {.name = "gamma", .initial = 0.1, .min = 0, .max = 1, .min_open = true};

constexpr Setting required(Setting setting) {
  setting.required = true;
  return setting;
}

constexpr Setting kFading[] = {kDecaySteps, kAlpha};
constexpr Setting kStep[] = {{.name = "step_size",
                              .kind = SettingKind::integer,
                              .required = true,
                              .min = 1,
                              .max = kMostSteps},
                             kGamma};
constexpr Setting kExponential[] = {
    required(kDecaySteps),
    {.name = "decay_rate", .required = true, .min = 0, .max = 1, .min_open = true}};
constexpr Setting kPolynomial[] = {
    kDecaySteps, kAlpha, {.name = "power", .initial = 1, .min = 0, .min_open = true}};
constexpr Setting kMultiStep[] = {kGamma};
constexpr Setting kRestarts[] = {
    {.name = "restart_steps",
     .kind = SettingKind::integer,
     .required = true,
     .min = 1,
     .max = kMostSteps},
    {.name = "restart_factor", .kind = SettingKind::integer, .initial = 1, .min = 1, .max = 1024},
    kAlpha};
constexpr Setting kStable[] = {
    required(kDecaySteps), kAlpha, {.name = "square_root", .kind = SettingKind::flag}};
constexpr Setting kInverseRoot[] = {
    {.name = "timescale", .kind = SettingKind::integer, .min = 1, .max = kMostSteps}};
constexpr Setting kOneCycle[] = {kDecaySteps,
                                 {.name = "rise", .initial = 0.3, .min = 0, .max = 1},
                                 {.name = "div_factor", .initial = 25, .min = 1},
                                 {.name = "final_div_factor", .initial = 1e4, .min = 1},
                                 {.name = "three_phase", .kind = SettingKind::flag},
                                 {.name = "straight", .kind = SettingKind::flag}};

constexpr std::string_view kThresholdModes[] = {"rel", "abs"};
// Those of torch.optim.lr_scheduler.ReduceLROnPlateau.
// plateau: it counts epochs or validations. Other schedules have this key themselves.
constexpr std::string_view kPlateauPer[] = {"epoch", "validation"};
constexpr Setting kPlateau[] = {
    {.name = "factor", .initial = 0.1, .min = 0, .max = 1, .min_open = true, .max_open = true},
    {.name = "patience", .kind = SettingKind::integer, .initial = 10, .min = 0, .max = 1e6},
    {.name = "threshold", .initial = 1e-4, .min = 0},
    {.name = "threshold_mode", .kind = SettingKind::choice, .choices = kThresholdModes},
    {.name = "cooldown", .kind = SettingKind::integer, .min = 0, .max = 1e6},
    {.name = "min_learning_rate", .min = 0},
    {.name = "epsilon", .initial = 1e-8, .min = 0},
    {.name = "per", .kind = SettingKind::choice, .choices = kPlateauPer}};

// The part of the decay that is over, up to 1.
Expression part(const Expression& t, double decay) { return min(t / decay, 1); }

Expression constant(const Expression&, const ScheduleTerms&) { return 1; }

// From 1 down to alpha.
Expression linear(const Expression& t, const ScheduleTerms& terms) {
  return part(t, terms.decay) * (terms.values.number("alpha") - 1) + 1;
}

// alpha + (1 - alpha) * (1 + cos(pi * part)) / 2.
Expression cosine_of(const Expression& part, double alpha) {
  return (cos(part * std::numbers::pi) + 1) * (0.5 * (1 - alpha)) + alpha;
}

Expression cosine(const Expression& t, const ScheduleTerms& terms) {
  return cosine_of(part(t, terms.decay), terms.values.number("alpha"));
}

Expression step(const Expression& t, const ScheduleTerms& terms) {
  return pow(terms.values.number("gamma"), floor(t / terms.values.number("step_size")));
}

// decay_rate^(t / decay_steps), without an end.
Expression exponential(const Expression& t, const ScheduleTerms& terms) {
  return pow(terms.values.number("decay_rate"), t / terms.decay);
}

Expression polynomial(const Expression& t, const ScheduleTerms& terms) {
  const double alpha = terms.values.number("alpha");
  return pow(1 - part(t, terms.decay), terms.values.number("power")) * (1 - alpha) + alpha;
}

// gamma^(the number of milestones that t has reached).
Expression multi_step(const Expression& t, const ScheduleTerms& terms) {
  Expression count = 0;
  for (const int64_t milestone : terms.milestones)
    count = count + where(at_least(t, static_cast<double>(milestone)), 1, 0);
  return pow(terms.values.number("gamma"), count);
}

// A cosine from 1 to alpha over restart_steps, then another one that is restart_factor times as
// long, and so on: SGDR of Loshchilov and Hutter (2017).
Expression cosine_restarts(const Expression& t, const ScheduleTerms& terms) {
  const double alpha = terms.values.number("alpha"), first = terms.values.number("restart_steps");
  const double factor = terms.values.number("restart_factor");
  if (factor == 1) return cosine_of((t - floor(t / first) * first) / first, alpha);
  // The beginning and the length of the period that t is in. The sums are of integers, so a period
  // begins at its step and not one beside it, as it could by a logarithm.
  Expression begin = 0, length = first;
  double last = first;
  for (double next = first; next < terms.rest; next += last) {
    const Expression reached = at_least(t, next);
    begin = begin + where(reached, last, 0);
    length = length + where(reached, last * (factor - 1), 0);
    last *= factor;
  }
  return cosine_of((t - begin) / length, alpha);
}

// 1 until decay_steps before the end of the job, then down to alpha: in a line, or as 1 - sqrt, as
// Haegele et al. have it in Scaling Laws and Compute-Optimal Training Beyond Fixed Training
// Durations (2024).
Expression warmup_stable_decay(const Expression& t, const ScheduleTerms& terms) {
  const double alpha = terms.values.number("alpha");
  const double begin = std::max(terms.rest - terms.decay, 0.0);
  const Expression gone = min(max(t - begin, 0) / terms.decay, 1);
  return (terms.values.flag("square_root") ? 1 - sqrt(gone) : 1 - gone) * (1 - alpha) + alpha;
}

// sqrt(timescale / (t + timescale)), with the warm-up as the default of timescale: Vaswani et al.,
// Attention Is All You Need (2017).
Expression inverse_sqrt(const Expression& t, const ScheduleTerms& terms) {
  const double given = terms.values.number("timescale");
  const double scale = given > 0 ? given : terms.warmup > 0 ? terms.warmup : 10000;
  return 1 / sqrt((t + scale) / scale);
}

// From 1 / div_factor up to 1 and down to 1 / (div_factor * final_div_factor): torch's OneCycleLR,
// after Smith and Topin, Super-Convergence (2018).
Expression one_cycle(const Expression& t, const ScheduleTerms& terms) {
  const SettingValues& v = terms.values;
  const double low = 1 / v.number("div_factor"), last = low / v.number("final_div_factor");
  const double top = v.number("rise") * terms.decay - 1, end = terms.decay - 1;
  const double back = v.flag("three_phase") ? 2 * v.number("rise") * terms.decay - 2 : end;
  const auto anneal = [&](double from, double to, double begin, double until) -> Expression {
    // A phase without length is over at once.
    if (until <= begin) return to;
    const Expression gone = min(max(t - begin, 0) / (until - begin), 1);
    if (v.flag("straight")) return gone * (to - from) + from;
    return (cos(gone * std::numbers::pi) + 1) * (0.5 * (from - to)) + to;
  };
  const Expression up = anneal(low, 1, 0, top);
  if (!v.flag("three_phase")) return where(at_least(top, t), up, anneal(1, last, top, end));
  return where(at_least(top, t), up,
               where(at_least(back, t), anneal(1, low, top, back), anneal(low, last, back, end)));
}

constexpr Schedule kSchedules[] = {
    {.name = "constant", .settings = {}, .factor = constant},
    {.name = "linear", .settings = kFading, .factor = linear},
    {.name = "cosine", .settings = kFading, .factor = cosine},
    {.name = "step", .settings = kStep, .factor = step},
    {.name = "exponential", .settings = kExponential, .factor = exponential},
    {.name = "polynomial", .settings = kPolynomial, .factor = polynomial},
    {.name = "multi_step", .settings = kMultiStep, .factor = multi_step, .has_milestones = true},
    {.name = "cosine_restarts", .settings = kRestarts, .factor = cosine_restarts},
    {.name = "wsd", .settings = kStable, .factor = warmup_stable_decay},
    {.name = "inverse_sqrt", .settings = kInverseRoot, .factor = inverse_sqrt},
    {.name = "one_cycle", .settings = kOneCycle, .factor = one_cycle},
    {.name = "plateau", .settings = kPlateau, .factor = constant, .looks_at_epochs = true},
};

// The steps from t = 0 to the end of the job, or the epochs.
double rest_of(const ScheduleSpec& spec) {
  double rest = static_cast<double>(spec.total_steps);
  if (spec.per_epoch && spec.rows_per_epoch > 0) {
    rest = std::ceil(rest * static_cast<double>(spec.rows_per_step) /
                     static_cast<double>(spec.rows_per_epoch));
  } else {
    rest -= static_cast<double>(spec.warmup_steps);
  }
  return std::max(rest, 1.0);  // it is a divisor
}

// An epoch has ended when its last row is in a step. The product is exact, and the quotient of
// integers is rounded to no other integer.
Expression epochs_before(const ScheduleSpec& spec, const Expression& step) {
  return floor(step * static_cast<double>(spec.rows_per_step) /
               static_cast<double>(std::max<int64_t>(1, spec.rows_per_epoch)));
}

}  // namespace

ScheduleSpec::ScheduleSpec(std::string_view schedule)
    : name(schedule), values(find_schedule(schedule)->settings) {}

std::span<const Schedule> all_schedules() { return kSchedules; }

const Schedule* find_schedule(std::string_view name) {
  const auto found = std::find_if(std::begin(kSchedules), std::end(kSchedules),
                                  [&](const Schedule& each) { return each.name == name; });
  return found == std::end(kSchedules) ? nullptr : found;
}

std::vector<Setting> all_schedule_settings() {
  std::vector<Setting> all;
  for (const Schedule& schedule : kSchedules) {
    for (const Setting& setting : schedule.settings) {
      const bool known = std::any_of(
          all.begin(), all.end(), [&](const Setting& each) { return each.name == setting.name; });
      if (!known) all.push_back(setting);
    }
  }
  return all;
}

Expression after_cut(const Expression& cut) { return 1 / (cut + 1); }

Expression schedule_factor(const ScheduleSpec& spec, const Expression& step) {
  const auto warmup = static_cast<double>(spec.warmup_steps);
  ScheduleTerms terms{spec.values, spec.milestones, warmup, rest_of(spec), 1};
  terms.decay = terms.rest;
  if (spec.values.has("decay_steps") && spec.values.integer("decay_steps") > 0)
    terms.decay = spec.values.number("decay_steps");
  const Expression t = spec.per_epoch ? epochs_before(spec, step) : max(step - warmup, 0);
  const Expression factor = find_schedule(spec.name)->factor(t, terms);
  return warmup > 0 ? factor * min((step + 1) / warmup, 1) : factor;
}

}  // namespace leat
