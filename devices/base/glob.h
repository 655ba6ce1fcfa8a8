// Patterns of names, as shells have them: '*' stands for any characters, '?' for one.
#pragma once

#include <string_view>

namespace leat {

// True if the whole text matches the pattern. The time is at most that of their lengths multiplied,
// whatever the pattern has. There are no escapes and no classes of characters.
bool matches_glob(std::string_view pattern, std::string_view text);

// True if the text has a character that a pattern gives a meaning.
inline bool is_glob(std::string_view text) {
  return text.find_first_of("*?") != std::string_view::npos;
}

}  // namespace leat
