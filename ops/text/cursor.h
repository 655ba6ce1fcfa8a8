// The state that all parts of the parser share: the lexer, the file's name, and the errors. Private
// to ops/text.
#pragma once

#include <string>
#include <string_view>

#include "devices/base/status.h"
#include "devices/base/text.h"
#include "ops/text/draft.h"
#include "ops/text/lexer.h"

namespace leat {

// A place in a text, with one token of lookahead. A function that parses something consumes its
// tokens if it succeeds; after an error its caller stops, and the next token may be anywhere. All
// errors are invalid_argument and begin with the place ("cnn.onnxtxt:3:14: ").
//
//   // shape: "[" integer {"," integer} "]"
//   LEAT_RETURN_IF_ERROR(in.expect("["));
//   do {
//     LEAT_ASSIGN_OR_RETURN(const int64_t size, in.integer("a size"));
//   } while (in.accept(","));
//   return in.expect("]");
//
// Threads: one. The parser is recursive; it bounds its depth by limits::kNesting.
class Cursor {
 public:
  // Both texts must outlive the cursor and its tokens. `file` is a name for messages alone.
  Cursor(std::string_view text, std::string_view file) : text_(text), file_(file), lexer_(text) {}

  // The next token, which peek() leaves and take() consumes. At the end of the text both return the
  // end, any number of times.
  const Token& peek() const { return lexer_.peek(); }
  Token take() { return lexer_.take(); }
  // True if the next token is this punctuation, or this identifier (without quotes).
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
  // Consumes the punctuation; it is an error if something else is next.
  Status expect(std::string_view punctuation) {
    if (accept(punctuation)) return {};
    return expected(cat("'", punctuation, "'"));
  }

  // "file:line:column" of a byte of the text.
  std::string place(size_t offset) const { return cat(file_, ":", line_and_column(text_, offset)); }
  // The error `message` at that byte.
  Status error(size_t offset, std::string_view message) const {
    return invalid_argument(cat(place(offset), ": ", message));
  }
  // The error "file:1:2: expected WHAT, got 'next'".
  Status expected(std::string_view what) const { return expected(what, peek()); }
  Status expected(std::string_view what, const Token& got) const {
    return error(got.offset, cat("expected ", what, ", got ", describe(got)));
  }

  // These read one token, and name it `what` in their errors ("a size"). An integer must fit 64
  // bits.
  Result<int64_t> integer(std::string_view what);
  // Returns the content of a quoted string, of at most kStringLength bytes.
  Result<std::string> string(std::string_view what);
  // Reads an identifier or a quoted name, of at most kNameLength bytes.
  Result<DraftName> name(std::string_view what);

 private:
  std::string_view text_, file_;
  Lexer lexer_;
};

// True if a type begins here. This includes the names of types that Leat refuses, such as string
// and map: parse_type() then has the better error.
bool at_type(const Cursor& in);
// Reads "float[N,10]", "optional(float[2])", "sparse_tensor(float[N,8])" or "opaque(leat.token)":
// a tensor, a resource, rows of a table, a token.
Result<DraftType> parse_type(Cursor& in);
// Reads the elements of a tensor of `type`, whose sizes must be constant: {1, 2, 3}. They are in
// row-major order; 16-bit floats are the integers of their bits, booleans 0 and 1. It is an error
// if an element does not fit the type. Memory grows with the elements that were read, and not with
// the declared size.
Result<Tensor> parse_elements(Cursor& in, const DraftType& type);

// True if the next token is a number for a double: this includes inf, infinity and nan in any case,
// with or without '-'.
bool at_number(const Cursor& in);
// Reads such a number, rounded once to the nearest double. A number too small for a double is 0;
// one too large is an error.
Result<double> parse_real(Cursor& in);

}  // namespace leat
