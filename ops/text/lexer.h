// Cuts the text form into tokens. The rules are those of ONNX's textual syntax: '#' begins a
// comment that ends with the line, strings are in double quotes, and '\' makes the next character
// literal.
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
  bad,          // a character that begins no token, or a string without an end
};

// One token. It refers to the text of the lexer, which must outlive it.
struct Token {
  TokenKind kind = TokenKind::end;
  std::string_view text;  // as it is in the file
  size_t offset = 0;      // of its first byte
};

// "end of file", or the token's text, shortened to 40 bytes and quoted for a message: 'Conv'.
std::string describe(const Token& token);

// The content of a string token, without the quotes and with escapes replaced: '\' and a character
// give that character, so "\n" is the letter n. REQUIRES: kind is string.
std::string unquote(const Token& token);

// The reverse of unquote(): adds quotes, and '\' before '"' and '\'.
std::string quote(std::string_view content);

// True for a plain identifier, which needs no quotes. Only ASCII letters count, in any locale.
bool is_identifier(std::string_view name);

// "3:14" for a byte of the text: lines and columns count from 1, a column is a UTF-8 character. An
// offset past the end is the end. It counts from the beginning of the text, so it is for errors.
std::string line_and_column(std::string_view text, size_t offset);

// A lexer with one token of lookahead, over a text that must outlive it. It never fails: text that
// it cannot read becomes a token of kind bad, and after the end it returns the end again. Blanks
// and comments separate tokens and are skipped. It allocates nothing. Threads: one.
class Lexer {
 public:
  explicit Lexer(std::string_view text);
  // The next token. The reference is valid until take().
  const Token& peek() const { return next_; }
  // Returns the next token and moves on.
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
