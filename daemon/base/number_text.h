// A metric as people read it: with the same digits in every line, table and log.
#pragma once

#include <string>

namespace leat {

// Formats a number with four decimals; with an exponent if its absolute value is below 0.001 or at
// least 1e9; as "NaN", "Infinity" or "-Infinity" if it is not finite.
std::string number_text(double value);

}  // namespace leat
