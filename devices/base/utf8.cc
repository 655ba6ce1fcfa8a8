#include "devices/base/utf8.h"

#include <algorithm>
#include <cstdint>

#include "devices/base/text.h"

namespace leat {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD

uint8_t byte_at(std::string_view text, size_t at) { return static_cast<uint8_t>(text[at]); }

// The range of a sequence's second byte depends on the first: table 3-7 of the Unicode standard.
bool is_second(uint8_t first, uint8_t second) {
  const uint8_t least = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  const uint8_t most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  return second >= least && second <= most;
}

void append_escaped(std::string_view bytes, std::string& out) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  for (size_t i = 0; i < bytes.size(); ++i)
    out += {'\\', 'x', kDigits[byte_at(bytes, i) >> 4], kDigits[byte_at(bytes, i) & 15]};
}

// Bytes below 0x20, DEL, and the second set of control characters, U+0080 to U+009F.
bool is_control_sequence(std::string_view sequence) {
  const uint8_t first = byte_at(sequence, 0);
  if (sequence.size() == 1) return first < 0x20 || first == 0x7f;
  return sequence.size() == 2 && first == 0xc2 && byte_at(sequence, 1) < 0xa0;
}

// Calls `whole` for each sequence, and `other` for each byte that begins none.
template <typename Whole, typename Other>
void each_sequence(std::string_view text, Whole whole, Other other) {
  while (!text.empty()) {
    const size_t size = utf8_sequence(text);
    size == 0 ? other(text.substr(0, 1)) : whole(text.substr(0, size));
    text.remove_prefix(size == 0 ? 1 : size);
  }
}

// Escapes control characters, except those in `stay`, and bytes that belong to no sequence.
std::string escaped_but(std::string_view text, std::string_view stay) {
  std::string out;
  each_sequence(
      text,
      [&](std::string_view whole) {
        const bool keep = !is_control_sequence(whole) || stay.find(whole) != stay.npos;
        keep ? void(out += whole) : append_escaped(whole, out);
      },
      [&](std::string_view other) { append_escaped(other, out); });
  return out;
}

// True for a byte that begins a character of UTF-8: all others have the bits 10 at their top.
bool begins_character(char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }

}  // namespace

// 0xc0 and 0xc1 would begin overlong sequences, 0xf5 and above characters past U+10FFFF.
size_t utf8_sequence(std::string_view text) {
  if (text.empty()) return 0;
  const uint8_t first = byte_at(text, 0);
  if (first < 0x80) return 1;
  const size_t size = first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
  if (size == 0 || text.size() < size || !is_second(first, byte_at(text, 1))) return 0;
  for (size_t i = 2; i < size; ++i)
    if ((byte_at(text, i) & 0xc0) != 0x80) return 0;
  return size;
}

void append_utf8(uint32_t code_point, std::string& out) {
  const auto put = [&](uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) return put(code_point);
  if (code_point < 0x800) {
    put(0xc0 | code_point >> 6);
  } else {
    if (code_point < 0x10000) {
      put(0xe0 | code_point >> 12);
    } else {
      put(0xf0 | code_point >> 18);
      put(0x80 | (code_point >> 12 & 0x3f));
    }
    put(0x80 | (code_point >> 6 & 0x3f));
  }
  put(0x80 | (code_point & 0x3f));
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const size_t size = utf8_sequence(text);
    if (size == 0) return false;
    text.remove_prefix(size);
  }
  return true;
}

// Nearly all text is valid, and is returned without a copy.
std::string valid_utf8(std::string text) {
  if (is_utf8(text)) return text;
  std::string out;
  each_sequence(
      text, [&](std::string_view whole) { out += whole; },
      [&](std::string_view other) { append_escaped(other, out); });
  return out;
}

std::string printable(std::string_view text) { return escaped_but(text, ""); }
std::string printable_lines(std::string_view text) { return escaped_but(text, "\n"); }

std::string replaced_utf8(std::string_view text) {
  std::string out;
  each_sequence(
      text, [&](std::string_view whole) { out += whole; },
      [&](std::string_view) { out += kReplacement; });
  return out;
}

size_t utf8_characters(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), begins_character));
}

std::string shortened(std::string_view text, size_t most) {
  constexpr std::string_view kCut = "...";
  if (utf8_characters(text) <= most) return std::string(text);
  // If not even the dots have room, as many of them as fit stand for the text.
  const std::string_view cut = kCut.substr(0, std::min(most, kCut.size()));
  size_t bytes = 0;
  for (size_t characters = 0; bytes < text.size(); ++bytes) {
    // Stops at the first byte of the character that is too many, so no character is cut in two.
    if (begins_character(text[bytes]) && ++characters > most - cut.size()) break;
  }
  return cat(text.substr(0, bytes), cut);
}

std::string cut_utf8(std::string text, size_t most) {
  if (text.size() <= most) return text;
  while (most > 0 && !begins_character(text[most])) --most;
  text.resize(most);
  return text;
}

}  // namespace leat
