// Small text helpers that C++20's library lacks.
#pragma once

#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace leat {

// cat("a is ", 3, " wide"): the arguments streamed one after another. For messages, never on a
// step.
template <typename... Args>
std::string cat(const Args&... args) {
  std::ostringstream out;
  (out << ... << args);
  return std::move(out).str();
}

// "a, b, c" of anything that streams.
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

// Number of single-character edits (insert, delete, replace, swap neighbours) from a to b.
int edit_distance(std::string_view a, std::string_view b);

// The candidate nearest to `word` if it is near enough to be a slip, else empty.
std::string nearest(std::string_view word, std::span<const std::string> candidates);

// " (did you mean 'x'?)" or "".
std::string did_you_mean(std::string_view word, std::span<const std::string> candidates);

// 1536 -> "1.5 KiB".
std::string human_bytes(uint64_t bytes);

// The shortest decimal that reads back to the same value; "nan", "inf", "-inf" for the rest.
std::string shortest(double value);
std::string shortest(float value);

}  // namespace leat
