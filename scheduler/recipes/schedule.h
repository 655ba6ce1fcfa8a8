// The schedules of the learning rate: each multiplies the optimizer's rate by a factor of the step.
// all_schedules() is the table of them; a new schedule is a new entry in schedule.cc, which gives
// it its name, its keys in the job file, and its formula for graphs and numbers alike.
//
// Threads: pure functions and values.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "scheduler/recipes/setting.h"

namespace leat {

class Expression;

// The part of a job that is about its learning rate, and the length of the job.
struct ScheduleSpec {
  ScheduleSpec() : ScheduleSpec("constant") {}
  // With the defaults of its settings. REQUIRES: a schedule of that name.
  explicit ScheduleSpec(std::string_view schedule);

  std::string name;
  SettingValues values;
  std::vector<int64_t> milestones;  // multi_step
  int64_t warmup_steps = 0;         // the factor climbs from 1/warmup_steps to 1
  bool per_epoch = false;           // t counts epochs in place of steps

  // Of the job; a job file does not have them.
  int64_t total_steps = 0;
  int64_t rows_per_step = 0, rows_per_epoch = 0;  // with per_epoch

  bool operator==(const ScheduleSpec&) const = default;
};

// All that a formula needs besides t.
struct ScheduleTerms {
  const SettingValues& values;
  const std::vector<int64_t>& milestones;
  double warmup = 0;
  double rest = 1;   // from t = 0 to the end of the job, at least 1
  double decay = 1;  // decay_steps; by default the rest
};

struct Schedule {
  std::string_view name;
  std::span<const Setting> settings;
  // The factor of t: the steps since the warm-up, or with per_epoch the epochs that have ended.
  Expression (*factor)(const Expression& t, const ScheduleTerms& terms);
  bool has_milestones = false;
  // The rate also follows from the numbers of epochs that have ended, or of validations:
  // after_cut().
  bool looks_at_epochs = false;
};

std::span<const Schedule> all_schedules();
// Null if there is no schedule of that name.
const Schedule* find_schedule(std::string_view name);
// The settings of all schedules, each name once.
std::vector<Setting> all_schedule_settings();

// The factor of a rate that was cut by the numbers of epochs: 1 / (1 + cut), 1 at first.
Expression after_cut(const Expression& cut);

// The factor of the rate at a step, counted from 0, which is of f64: that of the schedule times
// that of the warm-up, which is min(1, (step + 1) / warmup_steps). The first step has a rate above
// 0.
Expression schedule_factor(const ScheduleSpec& spec, const Expression& step);

}  // namespace leat
