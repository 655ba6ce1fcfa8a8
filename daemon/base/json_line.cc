#include "daemon/base/json_line.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>

#include "devices/base/utf8.h"

namespace leat {

std::string_view name_of_number(double value) {
  if (std::isnan(value)) return "NaN";
  return value < 0 ? "-Infinity" : "Infinity";
}

void JsonLine::append_string(std::string_view value) {
  static constexpr char kHex[] = "0123456789abcdef";
  text_ += '"';
  // JSON is UTF-8, so bytes that are none are replaced before the text is escaped.
  for (const char c : replaced_utf8(value)) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      text_ += '\\';
      text_ += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      // JSON demands this below 0x20. The delete character is escaped, too, because terminals obey
      // it.
      text_ += "\\u00";
      text_ += kHex[byte >> 4];
      text_ += kHex[byte & 15];
    } else {
      text_ += c;
    }
  }
  text_ += '"';
}

// The first key opens the object, and each later one follows a comma. text() closes the object.
void JsonLine::begin(std::string_view key) {
  text_ += text_.empty() ? "{" : ", ";
  append_string(key);
  text_ += ": ";
}

template <typename T>
JsonLine& JsonLine::add_number(std::string_view key, T value) {
  begin(key);
  // to_chars() gives the shortest decimal that reads back to the number, in any locale. 32 bytes
  // hold every number of 64 bits.
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  text_.append(digits, end);
  return *this;
}

JsonLine& JsonLine::add(std::string_view key, std::string_view value) {
  begin(key);
  append_string(value);
  return *this;
}

JsonLine& JsonLine::add(std::string_view key, double value) {
  return std::isfinite(value) ? add_number(key, value) : add(key, name_of_number(value));
}
JsonLine& JsonLine::add(std::string_view key, float value) {
  return std::isfinite(value) ? add_number(key, value) : add(key, name_of_number(value));
}
JsonLine& JsonLine::add(std::string_view key, int64_t value) { return add_number(key, value); }
JsonLine& JsonLine::add(std::string_view key, uint64_t value) { return add_number(key, value); }

JsonLine& JsonLine::add(std::string_view key, bool value) {
  begin(key);
  text_ += value ? "true" : "false";
  return *this;
}

JsonLine& JsonLine::add(std::string_view key, const JsonLine& object) {
  begin(key);
  // The inner object is still open, because only text() would have closed it.
  text_ += object.text_.empty() ? "{" : object.text_;
  text_ += '}';
  return *this;
}

JsonLine& JsonLine::add(std::string_view key, const std::vector<std::string>& texts) {
  begin(key);
  text_ += '[';
  for (size_t i = 0; i < texts.size(); ++i) {
    if (i > 0) text_ += ", ";
    append_string(texts[i]);
  }
  text_ += ']';
  return *this;
}

JsonLine& JsonLine::add_null(std::string_view key) {
  begin(key);
  text_ += "null";
  return *this;
}

const std::string& JsonLine::text() {
  text_ += text_.empty() ? "{}\n" : "}\n";
  return text_;
}

std::string iso_time(int64_t unix_ms) {
  using namespace std::chrono;
  // Years have four digits, so a wrong clock shows as the first or the last moment of that range.
  constexpr int64_t kLast = 253'402'300'799'999;  // of year 9999
  const sys_time<milliseconds> at{milliseconds(std::clamp<int64_t>(unix_ms, 0, kLast))};
  const auto day = floor<days>(at);
  const year_month_day date(day);
  const hh_mm_ss<milliseconds> time(at - day);
  char text[64];
  std::snprintf(text, sizeof text, "%04d-%02u-%02uT%02d:%02d:%02d.%03dZ",
                static_cast<int>(date.year()), static_cast<unsigned>(date.month()),
                static_cast<unsigned>(date.day()), static_cast<int>(time.hours().count()),
                static_cast<int>(time.minutes().count()), static_cast<int>(time.seconds().count()),
                static_cast<int>(time.subseconds().count()));
  return text;
}

}  // namespace leat
