// Text that people and programs can read, whatever bytes it was made of. Messages quote files and
// peers, and cut what they quote, so every Status and every text that leaves a process passes
// through here. All functions are pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace leat {

// The number of bytes of the UTF-8 sequence at the beginning of `text`, and 0 if there is none.
// Sequences are those of RFC 3629: no surrogates, nothing overlong, nothing past U+10FFFF.
size_t utf8_sequence(std::string_view text);

// True if `text` consists of such sequences only.
bool is_utf8(std::string_view text);

// The number of characters of UTF-8; other bytes count as one each, but for those with the bits 10
// at their top.
size_t utf8_characters(std::string_view text);

// `text`, or its beginning and "..." if it has more than `most` of those characters.
std::string shortened(std::string_view text, size_t most);

// The beginning of `text`, at most `most` bytes, without a part of a sequence at its end.
std::string cut_utf8(std::string text, size_t most);

// Appends a code point as its sequence. REQUIRES: code_point <= U+10FFFF; surrogates give bytes
// that are no sequence.
void append_utf8(uint32_t code_point, std::string& out);

// `text`, in which \xNN replaces each byte that belongs to no sequence.
std::string valid_utf8(std::string text);

// The same as one line of a terminal: \xNN replaces control characters, too, so that they neither
// end the line nor steer the terminal.
std::string printable(std::string_view text);

// The same as several lines: newlines stay.
std::string printable_lines(std::string_view text);

// `text`, in which U+FFFD replaces each byte that belongs to no sequence, for JSON and HTML.
std::string replaced_utf8(std::string_view text);

}  // namespace leat
