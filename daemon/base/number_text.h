// A metric as people read it: the same digits in every line, table and log.
#pragma once

#include <string>

namespace leat {

// Four decimals, or an exponent for what would read 0.0000, or is large; "NaN", "Infinity",
// "-Infinity".
std::string number_text(double value);

}  // namespace leat
