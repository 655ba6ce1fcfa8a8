#include "daemon/spec/read_settings.h"

#include <algorithm>
#include <limits>

#include "devices/base/text.h"

namespace leat {
namespace {

// The limits of an integer; those that are infinite are the type's.
IntRange integers_of(const Setting& setting) {
  constexpr double kLargest = 9007199254740992;  // 2^53
  return {.min = static_cast<int64_t>(std::max(setting.min, -kLargest)),
          .max = static_cast<int64_t>(std::min(setting.max, kLargest))};
}

void read_setting(YamlMap& map, const Setting& setting, SettingValues& values) {
  const Need need = setting.required ? Need::required : Need::optional;
  switch (setting.kind) {
    case SettingKind::flag:
      if (bool flag = false; map.get_bool(setting.name, need, flag)) values.set(setting.name, flag);
      return;
    case SettingKind::integer:
      if (int64_t integer = 0; map.get_int(setting.name, need, integers_of(setting), integer))
        values.set(setting.name, static_cast<double>(integer));
      return;
    case SettingKind::choice:
      if (size_t index = 0; map.get_choice(setting.name, need, setting.choices, index))
        values.set(setting.name, static_cast<double>(index));
      return;
    case SettingKind::number: {
      const FloatRange range = {.min = setting.min,
                                .max = setting.max,
                                .min_open = setting.min_open,
                                .max_open = setting.max_open};
      if (double number = 0; map.get_float(setting.name, need, range, number))
        values.set(setting.name, number);
      return;
    }
  }
}

bool has(std::span<const Setting> settings, std::string_view name) {
  return std::any_of(settings.begin(), settings.end(),
                     [&](const Setting& setting) { return setting.name == name; });
}

}  // namespace

void read_settings(YamlMap& map, std::span<const Setting> settings, SettingValues& values) {
  for (const Setting& setting : settings) read_setting(map, setting, values);
}

void refuse_other_settings(YamlMap& map, std::string_view name, std::span<const Setting> own,
                           std::span<const Setting> others) {
  for (const Setting& other : others) {
    if (has(own, other.name) || !map.has(other.name)) continue;
    map.fail(other.name, cat("is not a key of ", name));
    map.skip(other.name);
  }
}

void print_changed(std::span<const Setting> settings, const SettingValues& values,
                   std::vector<std::string>& entries) {
  for (const Setting& setting : settings) {
    if (values.number(setting.name) != setting.initial)
      entries.push_back(cat(setting.name, ": ", setting_text(setting, values)));
  }
}

std::string flow_map(const std::vector<std::string>& entries) {
  return "{" + join(entries, ", ") + "}";
}

std::string setting_text(const Setting& setting, const SettingValues& values) {
  switch (setting.kind) {
    case SettingKind::flag:
      return values.flag(setting.name) ? "true" : "false";
    case SettingKind::integer:
      return cat(values.integer(setting.name));
    case SettingKind::choice:
      return std::string(setting.choices[static_cast<size_t>(values.integer(setting.name))]);
    case SettingKind::number:
      break;
  }
  return shortest(values.number(setting.name));
}

}  // namespace leat
