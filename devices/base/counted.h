// Counts for people: "1 thread", "4 threads".
#pragma once

#include <string>
#include <string_view>

#include "devices/base/text.h"

namespace leat {

// `count` of something whose plural ends in "s".
template <typename Integer>
std::string counted(Integer count, std::string_view one) {
  return cat(count, " ", one, count == 1 ? "" : "s");
}

}  // namespace leat
