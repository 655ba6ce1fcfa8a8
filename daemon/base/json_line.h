// Writes one JSON object on one line, with its keys in the order of the calls. Equal values give
// equal bytes: a number is the shortest decimal that reads back to it. After the first few lines, a
// reused JsonLine allocates no memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace leat {

// Returns "NaN", "Infinity" or "-Infinity", for a number that JSON cannot represent.
std::string_view name_of_number(double value);

// Returns a time such as "2026-01-31T12:00:00.123Z".
std::string iso_time(int64_t unix_ms);

// Threads: one.
class JsonLine {
 public:
  JsonLine& add(std::string_view key, std::string_view value);
  JsonLine& add(std::string_view key, const char* value) {
    return add(key, std::string_view(value));
  }
  // JSON has no NaN and no infinity: the texts "NaN", "Infinity" and "-Infinity" represent them, as
  // in the JSON of Protocol Buffers.
  JsonLine& add(std::string_view key, double value);
  JsonLine& add(std::string_view key, float value);  // with fewer digits than a double
  JsonLine& add(std::string_view key, int64_t value);
  JsonLine& add(std::string_view key, uint64_t value);
  JsonLine& add(std::string_view key, int value) { return add(key, int64_t{value}); }
  JsonLine& add(std::string_view key, bool value);
  // Writes null if there is no value.
  template <typename T>
  JsonLine& add(std::string_view key, const std::optional<T>& value) {
    return value ? add(key, *value) : add_null(key);
  }
  JsonLine& add(std::string_view key, const std::vector<std::string>& texts);  // an array
  JsonLine& add_null(std::string_view key);
  // Adds an object with the keys that were added to it; text() must not have been called on it.
  JsonLine& add(std::string_view key, const JsonLine& object);

  // Closes the object and returns the line with its newline. Call it once, then clear() before the
  // next line.
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
