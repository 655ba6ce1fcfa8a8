#include "daemon/base/units.h"

#include <charconv>
#include <iterator>
#include <limits>
#include <span>

#include "devices/base/text.h"

namespace leat {
namespace {

// A unit and its size in bytes, or in milliseconds. Each list is ascending, and each unit divides
// the next.
struct Unit {
  std::string_view name;
  uint64_t size;
};

constexpr Unit kBytes[] = {{"B", 1},
                           {"KiB", uint64_t{1} << 10},
                           {"MiB", uint64_t{1} << 20},
                           {"GiB", uint64_t{1} << 30},
                           {"TiB", uint64_t{1} << 40}};
constexpr Unit kTimes[] = {
    {"ms", 1}, {"s", 1000}, {"m", 60'000}, {"h", 3'600'000}, {"d", 24 * 3'600'000}};
constexpr size_t kPrintedTimes = 4;
constexpr uint64_t kMaxBytes = std::numeric_limits<int64_t>::max();

// Reads an integer without a leading zero, at most one space, and a unit.
std::optional<uint64_t> parse(std::string_view text, std::span<const Unit> units, uint64_t max) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const auto digits = static_cast<size_t>(end - text.data());
  if (error != std::errc() || (text.front() == '0' && digits > 1)) return std::nullopt;
  std::string_view name = text.substr(digits);
  if (name.starts_with(' ')) name.remove_prefix(1);
  for (const Unit& unit : units) {
    if (unit.name != name) continue;
    // Divided, because the product could overflow.
    if (number > max / unit.size) return std::nullopt;
    return number * unit.size;
  }
  return std::nullopt;
}

// The number in the largest unit that divides it. Zero stays in the smallest one.
std::string print(uint64_t number, std::span<const Unit> units) {
  size_t unit = 0;
  while (number != 0 && unit + 1 < units.size() && number % units[unit + 1].size == 0) ++unit;
  return cat(number / units[unit].size, units[unit].name);
}

}  // namespace

std::optional<uint64_t> parse_bytes(std::string_view text) {
  // A number alone is one of bytes. A time always needs its unit.
  const bool plain = text.find_first_not_of("0123456789") == std::string_view::npos;
  return parse(plain ? cat(text, "B") : std::string(text), kBytes, kMaxBytes);
}

std::optional<std::chrono::milliseconds> parse_duration(std::string_view text,
                                                        std::chrono::milliseconds most) {
  const auto time = parse(text, kTimes, static_cast<uint64_t>(most.count()));
  if (!time) return std::nullopt;
  return std::chrono::milliseconds(*time);
}

std::string print_bytes(uint64_t bytes) { return print(bytes, kBytes); }
std::string print_duration(std::chrono::milliseconds time) {
  return print(static_cast<uint64_t>(time.count()), std::span(kTimes).first(kPrintedTimes));
}

}  // namespace leat
