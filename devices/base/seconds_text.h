// Times as people read them.
#pragma once

#include <chrono>
#include <cmath>
#include <string>

#include "devices/base/text.h"

namespace leat {

// "3.2 s": rounded to tenths.
inline std::string seconds_text(std::chrono::duration<double> time) {
  return cat(std::round(time.count() * 10) / 10, " s");
}

}  // namespace leat
