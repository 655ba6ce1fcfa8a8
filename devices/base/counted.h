// Counts in messages for people: "1 thread", "4 threads".
#pragma once

#include <string>
#include <string_view>

#include "devices/base/text.h"

namespace leat {

// `count` and the noun `one`, with an "s" for every count but 1. REQUIRES: the plural of the noun
// ends in "s".
template <typename Integer>
std::string counted(Integer count, std::string_view one) {
  return cat(count, " ", one, count == 1 ? "" : "s");
}

}  // namespace leat
