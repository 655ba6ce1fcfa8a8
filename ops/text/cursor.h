// The state that all parts of the parser share: the lexer, the file's name, and the errors.
#pragma once

#include <string>
#include <string_view>

#include "devices/base/status.h"
#include "devices/base/text.h"
#include "ops/text/draft.h"
#include "ops/text/lexer.h"

namespace leat {

class Cursor {
 public:
  Cursor(std::string_view text, std::string_view file) : text_(text), file_(file), lexer_(text) {}

  const Token& peek() const { return lexer_.peek(); }
  Token take() { return lexer_.take(); }
  bool at(std::string_view punctuation) const {
    return peek().kind == TokenKind::punctuation && peek().text == punctuation;
  }
  bool at_identifier(std::string_view word) const {
    return peek().kind == TokenKind::identifier && peek().text == word;
  }
  // Consumes the punctuation and returns true if it is next.
  bool accept(std::string_view punctuation) {
    if (!at(punctuation)) return false;
    take();
    return true;
  }
  Status expect(std::string_view punctuation) {
    if (accept(punctuation)) return {};
    return expected(cat("'", punctuation, "'"));
  }

  std::string place(size_t offset) const { return cat(file_, ":", line_and_column(text_, offset)); }
  Status error(size_t offset, std::string_view message) const {
    return invalid_argument(cat(place(offset), ": ", message));
  }
  // The error "file:1:2: expected WHAT, got 'next'".
  Status expected(std::string_view what) const { return expected(what, peek()); }
  Status expected(std::string_view what, const Token& got) const {
    return error(got.offset, cat("expected ", what, ", got ", describe(got)));
  }

  Result<int64_t> integer(std::string_view what);
  Result<std::string> string(std::string_view what);  // checked against kStringLength
  // Reads an identifier or a quoted name, of at most kNameLength bytes.
  Result<DraftName> name(std::string_view what);

 private:
  std::string_view text_, file_;
  Lexer lexer_;
};

// True if a type begins here.
bool at_type(const Cursor& in);
Result<DraftType> parse_type(Cursor& in);
// Reads the elements of a tensor of `type`, whose sizes must be constant: {1, 2, 3}.
Result<Tensor> parse_elements(Cursor& in, const DraftType& type);

// True if the next token is a number for a double: this includes inf, infinity and nan in any case,
// with or without '-'.
bool at_number(const Cursor& in);
Result<double> parse_real(Cursor& in);

}  // namespace leat
