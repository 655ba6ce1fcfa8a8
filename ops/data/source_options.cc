#include "ops/data/source_options.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "devices/base/text.h"
#include "ops/data/dataset_files.h"

namespace leat {
namespace {

template <typename T>
std::optional<T> number_in(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string expected_range(const SourceOption& option, std::string_view what) {
  std::string out = cat("expected ", what);
  if (std::isfinite(option.min)) out += cat(" of at least ", shortest(option.min));
  if (std::isfinite(option.min) && std::isfinite(option.max)) out += " and";
  if (std::isfinite(option.max)) out += cat(" of at most ", shortest(option.max));
  return out;
}

bool takes_list(OptionKind kind) {
  return kind == OptionKind::texts || kind == OptionKind::integers || kind == OptionKind::numbers;
}

Status unknown_option(std::span<const SourceOption> table, std::string_view key) {
  std::vector<std::string> names;
  for (const SourceOption& option : table) names.emplace_back(option.name);
  if (names.empty()) return invalid_argument(cat(key, ": expected no options"));
  return invalid_argument(cat(key, ": expected one of the options ", join(names, ", "),
                              did_you_mean(std::string(key), names)));
}

// The options of a column, in the order in which its texts come.
struct ColumnTexts {
  std::string name;
  std::vector<std::string> texts;
};

// Adds "NAME=" or "NAME:key=value" to the texts of its column.
Status add_column_text(std::vector<ColumnTexts>& columns, std::string_view text) {
  const size_t end = text.find_first_of(":=");
  const std::string_view name = text.substr(0, end);
  if (end == std::string_view::npos || !is_column_name(name))
    return invalid_argument(cat("columns: expected NAME=, received '", text, "'"));
  const auto found = std::find_if(columns.begin(), columns.end(),
                                  [&](const ColumnTexts& each) { return each.name == name; });
  if (text[end] == '=') {
    if (found != columns.end())
      return invalid_argument(cat("columns: the column '", name, "' is there twice"));
    columns.push_back({std::string(name), {}});
    return {};
  }
  if (found == columns.end())
    return invalid_argument(cat("columns: expected ", name, "= before '", text, "'"));
  found->texts.emplace_back(text.substr(end + 1));
  return {};
}

}  // namespace

DType column_type(std::string_view name) {
  if (name == "float32") return DType::f32;
  if (name == "float64") return DType::f64;
  return dtype_from_name(name).value_or(DType::f32);
}

std::string_view column_type_name(DType dtype) {
  if (dtype == DType::f32) return "float32";
  return dtype == DType::f64 ? "float64" : dtype_name(dtype);
}

Result<Shape> row_shape(const std::vector<int64_t>& sizes) {
  constexpr int64_t kMost = int64_t{1} << 31;
  const bool positive =
      std::all_of(sizes.begin(), sizes.end(), [](int64_t size) { return size > 0; });
  const auto shape = positive ? Shape::checked(sizes) : std::nullopt;
  if (shape && shape->rank() < kMaxRank && shape->elements() <= kMost) return *shape;
  return invalid_argument(cat("shape: expected at most ", kMaxRank - 1, " sizes of at least 1 and ",
                              kMost, " elements, received [", join(sizes, ", "), "]"));
}

const SourceOption* find_option(std::span<const SourceOption> table, std::string_view name) {
  const auto found = std::find_if(table.begin(), table.end(),
                                  [&](const SourceOption& each) { return each.name == name; });
  return found == table.end() ? nullptr : &*found;
}

Status check_option(const SourceOption& option, std::string_view value) {
  const auto wrong = [&](const std::string& expected) {
    return invalid_argument(cat(expected, ", received '", value.substr(0, 120), "'"));
  };
  switch (option.kind) {
    case OptionKind::integer:
    case OptionKind::integers: {
      const auto number = number_in<int64_t>(value);
      if (number && static_cast<double>(*number) >= option.min &&
          static_cast<double>(*number) <= option.max)
        return {};
      return wrong(expected_range(option, "an integer"));
    }
    case OptionKind::number:
    case OptionKind::numbers: {
      const auto number = number_in<double>(value);
      if (number && std::isfinite(*number) && *number >= option.min && *number <= option.max)
        return {};
      return wrong(expected_range(option, "a number"));
    }
    case OptionKind::flag:
      return value == "true" || value == "false" ? Status() : wrong("expected true or false");
    case OptionKind::choice:
      if (std::find(option.choices.begin(), option.choices.end(), value) != option.choices.end())
        return {};
      return wrong(cat("expected one of ", join(option.choices, ", ")));
    case OptionKind::text:
    case OptionKind::texts:
    case OptionKind::columns:
      break;
  }
  return {};
}

Result<SourceOptions> SourceOptions::parse(std::span<const SourceOption> table,
                                           std::span<const std::string> texts) {
  SourceOptions out;
  out.table_ = table;
  std::vector<ColumnTexts> columns;
  const SourceOption* of_columns = nullptr;
  for (const std::string_view text : texts) {
    const size_t end = text.find_first_of(":=");
    const std::string_view key = text.substr(0, end);
    const SourceOption* option = find_option(table, key);
    if (!option || end == std::string_view::npos) return unknown_option(table, key);
    if ((text[end] == ':') != (option->kind == OptionKind::columns))
      return invalid_argument(cat(key, ": expected a value of its kind, received '", text, "'"));
    if (option->kind == OptionKind::columns) {
      of_columns = option;
      LEAT_RETURN_IF_ERROR(add_column_text(columns, text.substr(end + 1)));
      continue;
    }
    const std::string_view value = text.substr(end + 1);
    const Status fits = check_option(*option, value);
    if (!fits.ok()) return invalid_argument(cat(key, ": ", fits.message()));
    std::vector<std::string>& values = out.values_[std::string(key)];
    if (!values.empty() && !takes_list(option->kind))
      return invalid_argument(
          cat(key, ": expected one value, received another one, '", value, "'"));
    values.emplace_back(value);
  }
  for (const ColumnTexts& column : columns) {
    auto parsed = parse(of_columns->of_column, column.texts);
    if (!parsed.ok())
      return invalid_argument(cat("column '", column.name, "': ", parsed.status().message()));
    out.columns_.emplace_back(column.name, std::move(*parsed));
  }
  for (const SourceOption& option : table) {
    const bool given = option.kind == OptionKind::columns ? !columns.empty() : out.has(option.name);
    if (option.required && !given)
      return invalid_argument(cat(option.name, ": missing, expected a value"));
  }
  return out;
}

std::string SourceOptions::text(std::string_view name) const {
  const auto found = values_.find(name);
  if (found != values_.end()) return found->second[0];
  const SourceOption* option = find_option(table_, name);
  return option ? std::string(option->initial) : "";
}

std::vector<std::string> SourceOptions::texts(std::string_view name) const {
  const auto found = values_.find(name);
  return found != values_.end() ? found->second : std::vector<std::string>();
}

int64_t SourceOptions::integer(std::string_view name) const {
  return number_in<int64_t>(text(name)).value_or(0);
}

std::vector<int64_t> SourceOptions::integers(std::string_view name) const {
  std::vector<int64_t> out;
  for (const std::string& each : texts(name)) out.push_back(number_in<int64_t>(each).value_or(0));
  return out;
}

double SourceOptions::number(std::string_view name) const {
  return number_in<double>(text(name)).value_or(0);
}

std::vector<double> SourceOptions::numbers(std::string_view name) const {
  std::vector<double> out;
  for (const std::string& each : texts(name)) out.push_back(number_in<double>(each).value_or(0));
  return out;
}

}  // namespace leat
