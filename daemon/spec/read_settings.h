// Reads and prints the settings of a recipe (scheduler/recipes/setting.h) in a job file.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/yaml_reader.h"
#include "scheduler/recipes/setting.h"

namespace leat {

// Reads the keys of `settings` from the map into `values`, which has their defaults. The reader
// gets the errors: a value of another type or outside its limits, and a required key that is
// absent.
void read_settings(YamlMap& map, std::span<const Setting> settings, SettingValues& values);

// Refuses each key of the map that is a setting of another entry of the same table, which would be
// ignored otherwise: "is not a key of sgd". `name`: the entry whose keys are `own`. It counts the
// key as read, so that finish() does not call it unknown.
void refuse_other_settings(YamlMap& map, std::string_view name, std::span<const Setting> own,
                           std::span<const Setting> others);

// Adds "key: value" for each setting that differs from its default.
void print_changed(std::span<const Setting> settings, const SettingValues& values,
                   std::vector<std::string>& entries);
// "{a: 1, b: 2}" from "a: 1" and "b: 2".
std::string flow_map(const std::vector<std::string>& entries);

// Returns the setting as the job file writes it: "0.9", "5", "true".
std::string setting_text(const Setting& setting, const SettingValues& values);

}  // namespace leat
