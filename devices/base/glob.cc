#include "devices/base/glob.h"

#include <cstddef>

namespace leat {

// If a character does not match, the last '*' takes one more; earlier ones need not change.
bool matches_glob(std::string_view pattern, std::string_view text) {
  size_t p = 0, t = 0, after_star = std::string_view::npos, taken = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      after_star = ++p;
      taken = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p, ++t;
    } else if (after_star != std::string_view::npos) {
      p = after_star;
      t = ++taken;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

}  // namespace leat
