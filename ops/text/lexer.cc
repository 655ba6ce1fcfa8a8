#include "ops/text/lexer.h"

#include <algorithm>

#include "devices/base/text.h"

namespace leat {
namespace {

// Only ASCII counts: the format must not depend on the locale.
bool is_alpha(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

}  // namespace

// The token may be megabytes long, so a message shows its first 40 bytes only.
std::string describe(const Token& token) {
  if (token.kind == TokenKind::end) return "end of file";
  if (token.kind == TokenKind::bad && token.text.starts_with('"')) return "a string without an end";
  constexpr size_t kShown = 40;
  std::string text(token.text.substr(0, kShown));
  if (token.text.size() > kShown) text += "...";
  return cat("'", text, "'");
}

std::string unquote(const Token& token) {
  std::string content;
  content.reserve(token.text.size());
  for (size_t i = 1; i + 1 < token.text.size(); ++i) {
    // The lexer has made sure that a character follows each '\' before the closing quote.
    if (token.text[i] == '\\') ++i;
    content.push_back(token.text[i]);
  }
  return content;
}

std::string quote(std::string_view content) {
  std::string text = "\"";
  for (const char c : content) {
    if (c == '"' || c == '\\') text.push_back('\\');
    text.push_back(c);
  }
  text.push_back('"');
  return text;
}

bool is_identifier(std::string_view name) {
  return !name.empty() && is_alpha(name[0]) &&
         std::all_of(name.begin(), name.end(), [](char c) { return is_alpha(c) || is_digit(c); });
}

// Counts from the beginning of the text, which is slow for a large file but happens once per error.
std::string line_and_column(std::string_view text, size_t offset) {
  const std::string_view before = text.substr(0, std::min(offset, text.size()));
  const auto lines = std::count(before.begin(), before.end(), '\n');
  const size_t newline = before.rfind('\n');
  const std::string_view line =
      newline == std::string_view::npos ? before : before.substr(newline + 1);
  const auto characters = std::count_if(line.begin(), line.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;  // not a UTF-8 continuation
  });
  return cat(lines + 1, ":", characters + 1);
}

Lexer::Lexer(std::string_view text) : text_(text) { next_ = scan(); }

Token Lexer::take() {
  Token taken = next_;
  next_ = scan();
  return taken;
}

// Skips blanks and comments. A comment ends before its newline, which is then skipped as a blank.
void Lexer::skip_blanks() {
  while (position_ < text_.size()) {
    if (text_[position_] == '#') {
      position_ = std::min(text_.find('\n', position_), text_.size());
    } else if (is_blank(text_[position_])) {
      ++position_;
    } else {
      return;
    }
  }
}

// The token reaches from `begin` to the current position.
Token Lexer::token(TokenKind kind, size_t begin) const {
  return {kind, text_.substr(begin, position_ - begin), begin};
}

Token Lexer::scan() {
  skip_blanks();
  const size_t begin = position_;
  if (begin >= text_.size()) return token(TokenKind::end, begin);
  const char c = text_[begin];
  if (is_alpha(c)) {
    while (is_alpha(at(position_)) || is_digit(at(position_))) ++position_;
    return token(TokenKind::identifier, begin);
  }
  // A '-' has no other use than as a sign, so it begins a number in every place.
  if (is_digit(c) || c == '-') return scan_number(begin);
  if (c == '"') return scan_string(begin);
  ++position_;
  // A character that begins no token is consumed as well, so that each call makes progress.
  if (c == '=' && at(position_) == '>') ++position_;
  constexpr std::string_view kPunctuation = "<>()[]{}=:,.@?";
  const bool known = kPunctuation.find(c) != std::string_view::npos;
  return token(known ? TokenKind::punctuation : TokenKind::bad, begin);
}

Token Lexer::scan_number(size_t begin) {
  if (at(position_) == '-') ++position_;
  if (is_alpha(at(position_))) {  // -inf, -nan; for any other word the parser reports the error
    while (is_alpha(at(position_))) ++position_;
    return token(TokenKind::real, begin);
  }
  if (!is_digit(at(position_))) return token(TokenKind::bad, begin);
  // Digits with at most one '.', then an exponent. The lexer does not check that digits follow the
  // '.' or the 'e': the conversion to a number refuses a token that it cannot read to its end.
  bool real = false;
  while (is_digit(at(position_)) || (at(position_) == '.' && !real)) {
    real = real || at(position_) == '.';
    ++position_;
  }
  if (at(position_) == 'e' || at(position_) == 'E') {
    real = true;
    ++position_;
    if (at(position_) == '+' || at(position_) == '-') ++position_;
    while (is_digit(at(position_))) ++position_;
  }
  return token(real ? TokenKind::real : TokenKind::integer, begin);
}

Token Lexer::scan_string(size_t begin) {
  ++position_;
  while (position_ < text_.size() && text_[position_] != '"') {
    // A '\' as the last byte of the text moves the position past the end, which is repaired below.
    position_ += text_[position_] == '\\' ? 2 : 1;
  }
  if (position_ >= text_.size()) {
    position_ = text_.size();
    return token(TokenKind::bad, begin);
  }
  ++position_;
  return token(TokenKind::string, begin);
}

}  // namespace leat
