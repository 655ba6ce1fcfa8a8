// Functions on the ASCII characters of a text, whatever the locale is. All are pure.
#pragma once

#include <string>
#include <string_view>

namespace leat {

// The text with small letters in place of A to Z.
inline std::string lower_case(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

// Replaces all bytes but letters, digits, '-', '.', '_', '~' and those of `kept` by %XX.
inline std::string url_encoded(std::string_view text, std::string_view kept = "") {
  constexpr std::string_view kHex = "0123456789ABCDEF", kPlain = "-._~";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       kPlain.find(c) != std::string_view::npos ||
                       kept.find(c) != std::string_view::npos;
    if (plain) {
      out.push_back(c);
    } else {
      out.append({'%', kHex[byte >> 4], kHex[byte & 15]});
    }
  }
  return out;
}

}  // namespace leat
