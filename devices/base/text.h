// Functions on text that the library of C++20 lacks. All are pure.
#pragma once

#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace leat {

// Streams the arguments one after the other: cat("a is ", 3, " wide"). For messages; too slow for
// the path of a step.
template <typename... Args>
std::string cat(const Args&... args) {
  std::ostringstream out;
  (out << ... << args);
  return std::move(out).str();
}

// The items, streamed, with `separator` between them: "a, b, c".
template <typename Range>
std::string join(const Range& range, std::string_view separator) {
  std::ostringstream out;
  std::string_view between;
  for (const auto& item : range) {
    out << between << item;
    between = separator;
  }
  return std::move(out).str();
}

// The number of single-character edits from a to b: insert, delete, replace, or swap two
// neighbours.
int edit_distance(std::string_view a, std::string_view b);

// The candidate nearest to `word`, if it is near enough to be a slip of the writer; else empty.
std::string nearest(std::string_view word, std::span<const std::string> candidates);

// " (did you mean 'x'?)" for the nearest candidate, or "".
std::string did_you_mean(std::string_view word, std::span<const std::string> candidates);

// "1.5 KiB" for 1536. Units are powers of 1024, up to PiB.
std::string human_bytes(uint64_t bytes);

// The shortest decimal that reads back as the same value; "nan", "inf" and "-inf" for the rest.
std::string shortest(double value);
std::string shortest(float value);

}  // namespace leat
