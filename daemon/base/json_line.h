// Writes one JSON object on one line, its keys in the order added. Equal values give equal bytes: a
// number is the shortest decimal that reads back to it. After the first few lines of a reused
// JsonLine nothing is allocated.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace leat {

// "NaN", "Infinity" or "-Infinity", for a number that JSON has no digits for.
std::string_view name_of_number(double value);

class JsonLine {
 public:
  JsonLine& add(std::string_view key, std::string_view value);
  JsonLine& add(std::string_view key, const char* value) {
    return add(key, std::string_view(value));
  }
  // JSON has no NaN and no infinity: the texts "NaN", "Infinity" and "-Infinity" stand for them, as
  // in the JSON of Protocol Buffers.
  JsonLine& add(std::string_view key, double value);
  JsonLine& add(std::string_view key, float value);  // shorter than as a double
  JsonLine& add(std::string_view key, int64_t value);
  JsonLine& add(std::string_view key, uint64_t value);
  JsonLine& add(std::string_view key, int value) { return add(key, int64_t{value}); }
  JsonLine& add(std::string_view key, bool value);
  // null when there is none.
  template <typename T>
  JsonLine& add(std::string_view key, const std::optional<T>& value) {
    return value ? add(key, *value) : add_null(key);
  }
  JsonLine& add_null(std::string_view key);
  // An object, as it was added up.
  JsonLine& add(std::string_view key, const JsonLine& object);

  // The object closed, with its newline. Call once; then clear() before the next.
  const std::string& text();
  void clear() { text_.clear(); }

 private:
  void begin(std::string_view key);
  void append_string(std::string_view value);
  template <typename T>
  JsonLine& add_number(std::string_view key, T value);

  std::string text_;
};

}  // namespace leat
