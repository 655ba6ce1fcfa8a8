// The settings of recipes. A recipe is a named rule that a job file chooses: an optimizer, a
// schedule of the learning rate, a loss, a metric. Each kind of recipe is a table of entries; an
// entry lists its settings once, and the job file, its printing and the graph of a step all read
// that list.
//
//   constexpr Setting kAdam[] = {
//       {.name = "beta_1", .initial = 0.9, .min = 0, .max = 1, .max_open = true},
//   };
//   SettingValues values(kAdam);       // the defaults
//   values.set("beta_1", 0.8);
//   values.number("beta_1");           // 0.8
//
// Threads: values.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>

namespace leat {

enum class SettingKind : uint8_t { number, integer, flag, choice };

// One setting of an entry: its key in the job file, its default and the values that it may have.
struct Setting {
  std::string_view name;
  SettingKind kind = SettingKind::number;
  double initial = 0;     // the default; a flag's is 0 or 1
  bool required = false;  // a job file must have it
  // The values that are allowed. A flag has no such limits. An open end does not belong to them.
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool min_open = false;
  bool max_open = false;
  std::span<const std::string_view> choices = {};  // a choice's value is an index of these
};

// A value for each setting of an entry. Integers are exact up to 2^53.
class SettingValues {
 public:
  SettingValues() = default;
  // The defaults of these settings.
  explicit SettingValues(std::span<const Setting> settings) {
    for (const Setting& setting : settings) values_.emplace(setting.name, setting.initial);
  }

  // REQUIRES, of these: the entry has a setting of that name.
  double number(std::string_view name) const { return values_.find(name)->second; }
  int64_t integer(std::string_view name) const { return static_cast<int64_t>(number(name)); }
  bool flag(std::string_view name) const { return number(name) != 0; }
  void set(std::string_view name, double value) { values_.find(name)->second = value; }

  bool has(std::string_view name) const { return values_.contains(name); }
  bool operator==(const SettingValues&) const = default;

 private:
  std::map<std::string, double, std::less<>> values_;
};

}  // namespace leat
