#include "daemon/cli/column_text.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "daemon/base/json_line.h"
#include "devices/base/float16.h"
#include "devices/base/text.h"
#include "devices/base/utf8.h"
#include "devices/core/tensor.h"

namespace leat {
namespace {

template <typename T>
T element_at(const std::byte* row, int64_t i) {
  T value;
  std::memcpy(&value, row + static_cast<size_t>(i) * sizeof value, sizeof value);
  return value;
}

// The number as a text, in the type that has its digits.
template <typename T>
std::string text_of_number(T value, bool json) {
  if constexpr (std::is_same_v<T, bool>) {
    return value ? "true" : "false";
  } else if constexpr (std::is_integral_v<T>) {
    return std::to_string(value);
  } else {
    if (std::isfinite(value)) return shortest(value);
    return json ? cat("\"", name_of_number(value), "\"") : shortest(value);
  }
}

}  // namespace

std::string json_string(const std::string& text) {
  JsonLine line;
  const std::string out = line.add("c", text).text();
  return out.substr(6, out.size() - 8);  // between {"c": and }\n
}

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out.append(c == '"' ? 2 : 1, c);
  return out + "\"";
}

ColumnText::ColumnText(ColumnInfo info, bool is_text, std::vector<std::string> classes)
    : info_(std::move(info)),
      is_text_(is_text && info_.dtype == DType::u8),
      classes_(std::move(classes)) {}

std::string ColumnText::text(const std::byte* row) const {
  std::string out(reinterpret_cast<const char*>(row), static_cast<size_t>(info_.row_bytes()));
  out.erase(out.find_last_not_of('\0') + 1);
  return out;
}

double ColumnText::number(const std::byte* row, int64_t i) const {
  return dispatch_dtype(info_.dtype, [&](auto type) -> double {
    using T = decltype(type);
    const T value = element_at<T>(row, i);
    if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
      return to_float(value);
    } else {
      return static_cast<double>(value);
    }
  });
}

std::string ColumnText::element(const std::byte* row, int64_t i, bool json) const {
  if (!classes_.empty() && is_int(info_.dtype)) {
    const double label = number(row, i);
    if (label >= 0 && label < static_cast<double>(classes_.size())) {
      const std::string& name = classes_[static_cast<size_t>(label)];
      return json ? json_string(name) : csv_field(name);
    }
  }
  return dispatch_dtype(info_.dtype, [&](auto type) -> std::string {
    using T = decltype(type);
    if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
      return text_of_number(to_float(element_at<T>(row, i)), json);
    } else {
      return text_of_number(element_at<T>(row, i), json);
    }
  });
}

void ColumnText::add_nested(const std::byte* row, int dimension, int64_t& next,
                            std::string& out) const {
  if (dimension == info_.shape.rank()) {
    out += element(row, next++, true);
    return;
  }
  out += '[';
  for (int64_t i = 0; i < info_.shape[dimension]; ++i) {
    if (i > 0) out += ", ";
    add_nested(row, dimension + 1, next, out);
  }
  out += ']';
}

void ColumnText::add_json(const std::byte* row, std::string& out) const {
  if (is_text_) {
    out += json_string(text(row));
    return;
  }
  int64_t next = 0;
  add_nested(row, 0, next, out);
}

std::vector<std::string> ColumnText::csv_fields() const {
  if (is_text_ || info_.shape.rank() == 0) return {info_.name};
  std::vector<std::string> out;
  for (int64_t i = 0; i < info_.shape.elements(); ++i) out.push_back(cat(info_.name, "_", i));
  return out;
}

void ColumnText::add_csv(const std::byte* row, std::string& out) const {
  if (is_text_) {
    out += csv_field(text(row));
    return;
  }
  for (int64_t i = 0; i < info_.shape.elements(); ++i) {
    if (i > 0) out += ',';
    out += element(row, i, false);
  }
}

std::string ColumnText::shown(const std::byte* row, size_t most) const {
  constexpr int64_t kElements = 4;
  if (is_text_) return cat("'", shortened(printable(text(row)), most), "'");
  if (info_.shape.rank() == 0) return shortened(printable(element(row, 0, false)), most);
  std::vector<std::string> items;
  const int64_t all = info_.shape.elements();
  for (int64_t i = 0; i < std::min(all, kElements); ++i) items.push_back(element(row, i, false));
  if (all > kElements) items.push_back("...");
  return cat("[", join(items, ", "), "]");
}

}  // namespace leat
