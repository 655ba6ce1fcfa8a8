#include "ops/data/sources/json_text.h"

#include "devices/base/text.h"
#include "devices/base/utf8.h"

namespace leat {
namespace {

bool is_digit_char(char c) { return c >= '0' && c <= '9'; }

// The length of a number of the grammar at the beginning of the text; 0 if there is none.
size_t number_length(std::string_view text) {
  size_t at = text.starts_with('-') ? 1 : 0;
  const auto digits = [&] {
    const size_t before = at;
    while (at < text.size() && is_digit_char(text[at])) ++at;
    return at > before;
  };
  const bool zero = at < text.size() && text[at] == '0';
  if (!digits()) return 0;
  // A leading zero is the whole part.
  if (zero && at > (text.starts_with('-') ? 2u : 1u)) return 0;
  if (at < text.size() && text[at] == '.') {
    ++at;
    if (!digits()) return 0;
  }
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && (text[at] == '+' || text[at] == '-')) ++at;
    if (!digits()) return 0;
  }
  return at;
}

}  // namespace

std::string_view json_kind_name(JsonKind kind) {
  switch (kind) {
    case JsonKind::object:
      return "an object";
    case JsonKind::array:
      return "an array";
    case JsonKind::string:
      return "a string";
    case JsonKind::number:
      return "a number";
    case JsonKind::boolean:
      return "a boolean";
    case JsonKind::null:
      break;
  }
  return "null";
}

Status JsonText::wrong(std::string_view expected) const {
  const std::string received =
      at_ < text_.size() ? cat("'", text_.substr(at_, 1), "'") : "the end of the record";
  return invalid_argument(
      cat("character ", at_ + 1, ": expected ", expected, ", received ", received));
}

void JsonText::blanks() {
  while (at_ < text_.size() &&
         (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r'))
    ++at_;
}

bool JsonText::take(char c) {
  blanks();
  if (at_ >= text_.size() || text_[at_] != c) return false;
  ++at_;
  return true;
}

Status JsonText::expect(char c) { return take(c) ? Status() : wrong(cat("'", c, "'")); }

Result<JsonKind> JsonText::kind() {
  blanks();
  if (at_ >= text_.size()) return wrong("a value");
  switch (text_[at_]) {
    case '{':
      return JsonKind::object;
    case '[':
      return JsonKind::array;
    case '"':
      return JsonKind::string;
    case 't':
    case 'f':
      return JsonKind::boolean;
    case 'n':
      return JsonKind::null;
    default:
      if (text_[at_] == '-' || is_digit_char(text_[at_])) return JsonKind::number;
  }
  return wrong("a value");
}

Result<unsigned> JsonText::hex() {
  unsigned value = 0;
  for (int i = 0; i < 4; ++i, ++at_) {
    const char c = at_ < text_.size() ? text_[at_] : ' ';
    if (is_digit_char(c)) {
      value = value * 16 + static_cast<unsigned>(c - '0');
    } else if ((c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F')) {
      value = value * 16 + static_cast<unsigned>((c | 0x20) - 'a' + 10);
    } else {
      return wrong("a hexadecimal digit");
    }
  }
  return value;
}

// Consumes what follows a backslash.
Status JsonText::escape(std::string& out) {
  if (at_ >= text_.size()) return wrong("an escape");
  const char c = text_[at_++];
  constexpr std::string_view kFrom = "\"\\/bfnrt", kTo = "\"\\/\b\f\n\r\t";
  if (const size_t plain = kFrom.find(c); plain != std::string_view::npos) {
    out.push_back(kTo[plain]);
    return {};
  }
  if (c != 'u') {
    --at_;
    return wrong("an escape");
  }
  LEAT_ASSIGN_OR_RETURN(unsigned point, hex());
  if (point >= 0xd800 && point < 0xdc00) {
    if (text_.substr(at_, 2) != "\\u") return wrong("the second half of a pair");
    at_ += 2;
    LEAT_ASSIGN_OR_RETURN(const unsigned low, hex());
    if (low < 0xdc00 || low > 0xdfff) return wrong("the second half of a pair");
    point = 0x10000 + ((point - 0xd800) << 10) + (low - 0xdc00);
  } else if (point >= 0xdc00 && point <= 0xdfff) {
    return wrong("the first half of a pair");
  }
  append_utf8(point, out);
  return {};
}

Result<std::string> JsonText::string() {
  LEAT_RETURN_IF_ERROR(expect('"'));
  std::string out;
  for (;;) {
    const size_t begin = at_;
    while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\\' &&
           static_cast<unsigned char>(text_[at_]) >= 0x20)
      ++at_;
    out.append(text_.substr(begin, at_ - begin));
    if (at_ >= text_.size()) return wrong("the end of a string");
    const char c = text_[at_];
    if (c != '"' && c != '\\') return wrong("no control character in a string");
    ++at_;
    if (c == '\\') {
      LEAT_RETURN_IF_ERROR(escape(out));
      continue;
    }
    if (!is_utf8(out)) return wrong("a string in UTF-8 before this");
    return out;
  }
}

Result<std::string_view> JsonText::word() {
  blanks();
  const std::string_view rest = text_.substr(at_);
  for (const std::string_view word : {"true", "false", "null"}) {
    if (!rest.starts_with(word)) continue;
    at_ += word.size();
    return rest.substr(0, word.size());
  }
  const size_t length = number_length(rest);
  if (length == 0) return wrong("a value");
  at_ += length;
  return rest.substr(0, length);
}

Status JsonText::skip(int depth) {
  if (depth > kJsonDepth) return wrong(cat("at most ", kJsonDepth, " nested values"));
  LEAT_ASSIGN_OR_RETURN(const JsonKind what, kind());
  switch (what) {
    case JsonKind::object:
      return object([&](const std::string&) { return skip(depth + 1); });
    case JsonKind::array:
      return array([&] { return skip(depth + 1); });
    case JsonKind::string:
      return string().status();
    default:
      return word().status();
  }
}

Status JsonText::end() {
  blanks();
  return at_ >= text_.size() ? Status() : wrong("the end of the record");
}

}  // namespace leat
