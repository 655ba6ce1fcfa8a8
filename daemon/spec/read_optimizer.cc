#include "daemon/spec/read_optimizer.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/spec/read_recipes.h"
#include "daemon/spec/read_settings.h"
#include "devices/base/text.h"

namespace leat {
namespace {

constexpr FloatRange kAboveZero = {.min = 0, .min_open = true};
constexpr IntRange kWarmup = {.min = 0, .max = int64_t{1} << 40};

// Reads the name of an entry of a table; false if it is absent or unknown.
template <typename Entries>
bool read_entry_name(YamlMap& map, const Entries& entries, std::string_view& name) {
  std::vector<std::string_view> names;
  for (const auto& entry : entries) names.push_back(entry.name);
  size_t index = 0;
  if (!map.get_choice("name", Need::required, names, index)) return false;
  name = names[index];
  return true;
}

// Reads one glob, or a list of them.
void read_globs(YamlMap& map, std::string_view key, std::vector<std::string>& globs) {
  if (map.is_list(key)) {
    map.get_strings(key, Need::required, globs);
    if (globs.empty()) map.fail(key, "expected at least one glob, received none");
  } else if (std::string one;
             map.get_string(key, Need::required, one, "a glob of names of variables, or a list")) {
    globs = {one};
  }
}

OptimizerGroup read_group(YamlMap map, const Optimizer& optimizer) {
  OptimizerGroup group;
  read_globs(map, "match", group.match);
  if (double rate = 0; map.get_float("learning_rate", Need::optional, kAboveZero, rate))
    group.learning_rate = rate;
  map.get_float("lr_scale", Need::optional, kAboveZero, group.lr_scale);
  map.get_bool("freeze", Need::optional, group.freeze);
  SettingValues values(optimizer.settings);
  read_settings(map, optimizer.settings, values);
  for (const Setting& setting : optimizer.settings) {
    if (map.has(setting.name)) group.values.emplace(setting.name, values.number(setting.name));
  }
  refuse_other_settings(map, optimizer.name, optimizer.settings, all_optimizer_settings());
  map.finish();
  return group;
}

void read_layer_decay(YamlMap map, LayerDecay& decay) {
  if (!map.present()) return;
  map.get_float("factor", Need::required, {.min = 0, .max = 1, .min_open = true}, decay.factor);
  map.get_strings("layers", Need::required, decay.layers);
  map.finish();
}

// The keys beside those of the rule itself.
void read_bounds_and_groups(YamlMap& map, const Optimizer& entry, OptimizerSpec& optimizer,
                            int64_t& accumulate) {
  map.get_float("clip_norm", Need::optional, kAboveZero, optimizer.clip_norm);
  map.get_float("clip_value", Need::optional, kAboveZero, optimizer.clip_value);
  map.get_float("ema", Need::optional, {.min = 0, .max = 1, .min_open = true, .max_open = true},
                optimizer.ema);
  map.get_float("sam", Need::optional, kAboveZero, optimizer.sam);
  map.get_int("accumulate", Need::optional, {.min = 1, .max = 4096}, accumulate);
  for (YamlMap& group : map.get_maps("groups", Need::optional))
    optimizer.groups.push_back(read_group(std::move(group), entry));
  for (const OptimizerGroup& group : optimizer.groups) {
    SettingValues values = optimizer.values;
    for (const auto& [name, value] : group.values) values.set(name, value);
    if (entry.name == "sgd" && values.flag("nesterov") && values.number("momentum") == 0 &&
        group.values.size() > 0)
      map.fail("groups", "nesterov: expected a momentum greater than 0 beside it, received none");
  }
  read_layer_decay(map.get_map("layer_decay", Need::optional), optimizer.layer_decay);
}

// Counts the keys of all entries as read, so that an unknown name is the only error.
void skip_settings(YamlMap& map, std::span<const Setting> settings) {
  for (const Setting& setting : settings) map.skip(setting.name);
}

}  // namespace

void read_optimizer(YamlMap map, OptimizerSpec& optimizer, int64_t& accumulate) {
  if (!map.present()) return;
  std::string_view name = optimizer.name;
  const bool named = read_entry_name(map, all_optimizers(), name);
  optimizer = OptimizerSpec(name);
  map.get_float("learning_rate", Need::required, kAboveZero, optimizer.learning_rate);
  const Optimizer& entry = *find_optimizer(name);
  if (named) {
    read_settings(map, entry.settings, optimizer.values);
    refuse_other_settings(map, name, entry.settings, all_optimizer_settings());
  } else {
    skip_settings(map, all_optimizer_settings());
  }
  map.get_bool("lazy", Need::optional, optimizer.lazy);
  if (optimizer.lazy && !entry.is_one_op)
    map.fail("lazy", "expected sgd, adam or adamw, whose updates can leave out rows, received " +
                         optimizer.name);
  read_bounds_and_groups(map, entry, optimizer, accumulate);
  if (name == "sgd" && optimizer.values.flag("nesterov") &&
      optimizer.values.number("momentum") == 0) {
    map.fail("nesterov", "expected a momentum greater than 0 beside it, received none");
  }
  map.finish();
}

void read_scheduler(YamlMap map, Job& job) {
  if (!map.present()) return;
  ScheduleSpec& scheduler = job.lr_scheduler;
  std::string_view name = scheduler.name;
  const bool named = read_entry_name(map, all_schedules(), name);
  scheduler = ScheduleSpec(name);
  map.get_int("warmup_steps", Need::optional, kWarmup, scheduler.warmup_steps);
  // A schedule that looks at results has a setting of this name.
  constexpr std::string_view kPer[] = {"step", "epoch"};
  const bool has_per = !named || !scheduler.values.has("per");
  if (size_t per = 0; has_per && map.get_choice("per", Need::optional, kPer, per))
    scheduler.per_epoch = per == 1;
  const bool has_milestones = find_schedule(name)->has_milestones;
  if (named && !has_milestones && map.has("milestones"))
    map.fail("milestones", cat("is not a key of ", name));
  map.get_ints("milestones", has_milestones ? Need::required : Need::optional,
               {.min = 1, .max = kWarmup.max}, scheduler.milestones);
  if (named) {
    const auto& own = find_schedule(name)->settings;
    read_settings(map, own, scheduler.values);
    std::vector<Setting> others = all_schedule_settings();
    std::erase_if(others, [](const Setting& setting) { return setting.name == "per"; });
    refuse_other_settings(map, name, own, others);
    if (find_schedule(name)->looks_at_epochs) read_monitor(map, job, job.plateau);
  } else {
    skip_settings(map, all_schedule_settings());
  }
  map.finish();
}

}  // namespace leat
