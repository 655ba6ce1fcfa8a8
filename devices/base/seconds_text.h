// Durations in messages for people.
#pragma once

#include <chrono>
#include <cmath>
#include <string>

#include "devices/base/text.h"

namespace leat {

// The time in seconds, rounded to tenths: "3.2 s". Whole seconds have no decimals: "12 s".
inline std::string seconds_text(std::chrono::duration<double> time) {
  return cat(std::round(time.count() * 10) / 10, " s");
}

}  // namespace leat
