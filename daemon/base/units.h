// Sizes and times as people write them in config files.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace leat {

// Reads "1073741824", "512MiB", "2 GiB": an integer, and B, KiB, MiB, GiB or TiB. Nothing if the
// text is not of this form, or does not fit in 63 bits.
std::optional<uint64_t> parse_bytes(std::string_view text);

// The longest time of a config, which is a leap year.
inline constexpr std::chrono::milliseconds kLongestDuration = std::chrono::hours(24 * 366);

// Reads "30s", "1500ms", "5m", "90d": an integer and ms, s, m, h or d, at most `most`. Nothing
// otherwise.
std::optional<std::chrono::milliseconds> parse_duration(
    std::string_view text, std::chrono::milliseconds most = kLongestDuration);

// Returns a text that reads back to the value, in the largest unit up to hours that divides it.
std::string print_bytes(uint64_t bytes);
std::string print_duration(std::chrono::milliseconds time);

}  // namespace leat
