// Text that people and programs may read, whatever bytes it was made of. Messages quote files and
// peers, and cut what they quote: what leaves a process, and every Status, passes through here.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace leat {

// Bytes of the UTF-8 sequence (RFC 3629: no surrogates, nothing overlong, nothing past U+10FFFF)
// that begins `text`; 0 if none does.
size_t utf8_sequence(std::string_view text);

bool is_utf8(std::string_view text);

// `text` with each byte that is no part of UTF-8 as \xNN.
std::string valid_utf8(std::string text);

// The same as one line of a terminal: control characters are \xNN, too, so that they neither end
// the line nor steer the terminal.
std::string printable(std::string_view text);

// The same as lines: newlines stay.
std::string printable_lines(std::string_view text);

// `text` with each byte that is no part of UTF-8 as U+FFFD, for JSON and HTML.
std::string replaced_utf8(std::string_view text);

}  // namespace leat
