// Cuts the text form into tokens. The rules are those of ONNX's textual syntax: '#' begins a
// comment that ends with the line, strings stand in double quotes and '\' takes the next character
// as it is.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace leat {

enum class TokenKind : uint8_t {
  end,
  identifier,   // [A-Za-z_][A-Za-z0-9_]*
  integer,      // -?[0-9]+
  real,         // a number with '.' or an exponent; "-inf", "-nan" (without a sign an identifier)
  string,       // with its quotes and escapes: see unquote()
  punctuation,  // one character, or "=>"
  bad,          // what no token begins with, or a string without an end
};

struct Token {
  TokenKind kind = TokenKind::end;
  std::string_view text;  // as it stands in the file
  size_t offset = 0;      // of its first byte
};

// "end of file", or the token's text, shortened, as a message says it: 'Conv'.
std::string describe(const Token& token);

// A string token's content. REQUIRES: kind is string.
std::string unquote(const Token& token);

// The reverse: quotes around, '\' before '"' and '\'.
std::string quote(std::string_view content);

// Is it a plain identifier, which needs no quotes?
bool is_identifier(std::string_view name);

// "3:14" for a byte of the text: lines and columns count from 1, a column is a UTF-8 character.
std::string line_and_column(std::string_view text, size_t offset);

// One token of lookahead over a text that must outlive it. Never fails: what it cannot read is a
// token of kind bad, and after the end there is only the end.
class Lexer {
 public:
  explicit Lexer(std::string_view text);
  const Token& peek() const { return next_; }
  Token take();

 private:
  void skip_blanks();
  Token scan();
  Token scan_number(size_t begin);
  Token scan_string(size_t begin);
  Token token(TokenKind kind, size_t begin) const;
  char at(size_t i) const { return i < text_.size() ? text_[i] : '\0'; }

  std::string_view text_;
  size_t position_ = 0;
  Token next_;
};

}  // namespace leat
