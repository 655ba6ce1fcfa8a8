#include "daemon/base/number_text.h"

#include <cmath>
#include <cstdio>

#include "daemon/base/json_line.h"

namespace leat {

std::string number_text(double value) {
  if (!std::isfinite(value)) return std::string(name_of_number(value));
  const double size = std::fabs(value);
  // Four decimals would show 0.0000 for a small number, and too many digits for a large one.
  const bool exponent = (size != 0 && size < 1e-3) || size >= 1e9;
  char text[64];
  std::snprintf(text, sizeof text, exponent ? "%.4e" : "%.4f", value);
  return text;
}

}  // namespace leat
