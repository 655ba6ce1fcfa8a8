// The types of scalars by the core schema of YAML 1.2 (section 10.3.2), without the rules of YAML
// 1.1.
#include <algorithm>

#include "daemon/base/yaml_document.h"

namespace leat {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_octal(char c) { return c >= '0' && c <= '7'; }
bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

// As std::all_of(), but false for an empty text.
template <typename Predicate>
bool all_of(std::string_view text, Predicate predicate) {
  return !text.empty() && std::all_of(text.begin(), text.end(), predicate);
}

// Removes the digits at the front and returns their number.
size_t take_digits(std::string_view& text) {
  const size_t count =
      static_cast<size_t>(std::find_if_not(text.begin(), text.end(), is_digit) - text.begin());
  text.remove_prefix(count);
  return count;
}

// Removes a sign at the front, and returns true if there was one.
bool take_sign(std::string_view& text) {
  if (text.empty() || (text[0] != '-' && text[0] != '+')) return false;
  text.remove_prefix(1);
  return true;
}

// ( \. [0-9]+ | [0-9]+ ( \. [0-9]* )? ) ( [eE] [-+]? [0-9]+ )?  -- the sign is taken already
bool is_real(std::string_view text) {
  const size_t whole = take_digits(text);
  size_t fraction = 0;
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    fraction = take_digits(text);
  }
  if (whole + fraction == 0) return false;
  if (text.empty()) return true;
  if (text[0] != 'e' && text[0] != 'E') return false;
  text.remove_prefix(1);
  take_sign(text);
  return all_of(text, is_digit);
}

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

// The plain scalars that YAML reads as null.
bool is_null_word(std::string_view text) {
  return is_one_of(text, {"", "~", "null", "Null", "NULL"});
}

// The type of a scalar without quotes. The parser reports null before this is asked.
YamlType plain_type(std::string_view text) {
  if (is_one_of(text, {"true", "True", "TRUE", "false", "False", "FALSE"})) {
    return YamlType::boolean;
  }
  // Before the sign is taken, because the core schema has no sign before 0x and 0o.
  if (text.starts_with("0x") && all_of(text.substr(2), is_hex)) return YamlType::integer;
  if (text.starts_with("0o") && all_of(text.substr(2), is_octal)) return YamlType::integer;
  take_sign(text);
  if (is_one_of(text, {".inf", ".Inf", ".INF", ".nan", ".NaN", ".NAN"})) {
    return YamlType::not_finite;
  }
  if (all_of(text, is_digit)) {
    // YAML 1.1 reads 012 as octal and YAML 1.2 as decimal, so a reader of this file could see
    // another number.
    return text.size() > 1 && text[0] == '0' ? YamlType::ambiguous : YamlType::integer;
  }
  return is_real(text) ? YamlType::real : YamlType::string;
}

// True if a YAML reader takes this text as one plain scalar.
bool is_plain_safe(std::string_view text) {
  const auto word = [](char c) {
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           c == '/' || c == '.';
  };
  return !text.empty() && word(text[0]) && !text.starts_with("...") &&
         std::all_of(text.begin(), text.end(), [&](char c) { return word(c) || c == '-'; });
}

// A value for a message: cut after 60 bytes, on one line.
std::string shortened(std::string_view text) {
  constexpr size_t kShown = 60;
  std::string shown;
  for (const char c : text.substr(0, kShown)) {
    shown += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return text.size() > kShown ? shown + "..." : shown;
}

// The type is named with the value, because the wrong type is often the mistake.
std::string describe_scalar(const YamlNode& scalar) {
  const std::string text = shortened(scalar.text);
  switch (yaml_type(scalar)) {
    case YamlType::boolean:
      return text;
    case YamlType::integer:
      return "the integer " + text;
    case YamlType::real:
    case YamlType::not_finite:
      return "the number " + text;
    case YamlType::ambiguous:
      return text + ", which is octal to some readers (write it without the leading zero)";
    case YamlType::string:
      break;
  }
  // The string '5' and the integer 5 would look the same in a message.
  const bool looks_different = scalar.quoted && plain_type(scalar.text) != YamlType::string;
  return "the string '" + text + (looks_different ? "' (in quotes)" : "'");
}

}  // namespace

YamlType yaml_type(const YamlNode& scalar) {
  return scalar.quoted ? YamlType::string : plain_type(scalar.text);
}

std::string yaml_string(std::string_view text) {
  // A text that YAML would read as another type needs quotes, such as `true` or `5`.
  if (is_plain_safe(text) && plain_type(text) == YamlType::string && !is_null_word(text)) {
    return std::string(text);
  }
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + '"';
}

std::string describe(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::null:
      return "nothing";
    case YamlNode::Kind::list:
      return "a list";
    case YamlNode::Kind::map:
      return "a map";
    case YamlNode::Kind::scalar:
      break;
  }
  return describe_scalar(node);
}

}  // namespace leat
