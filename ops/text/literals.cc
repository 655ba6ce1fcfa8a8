// Numbers, names, types and the elements of tensors.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <type_traits>

#include "devices/base/narrow.h"
#include "ops/graph/limits.h"
#include "ops/text/cursor.h"

namespace leat {

Result<int64_t> Cursor::integer(std::string_view what) {
  int64_t value = 0;
  const Token& token = peek();
  if (token.kind != TokenKind::integer) return expected(what);
  const char* end = token.text.data() + token.text.size();
  // The lexer has checked the form, so the only failure here is a number of more than 64 bits.
  const auto [parsed, failure] = std::from_chars(token.text.data(), end, value);
  if (failure != std::errc() || parsed != end) return expected(cat(what, " of 64 bits"));
  take();
  return value;
}

Result<std::string> Cursor::string(std::string_view what) {
  if (peek().kind != TokenKind::string) return expected(what);
  // The limit applies to the content, without the quotes and escapes of the file.
  std::string content = unquote(peek());
  if (content.size() > limits::kStringLength) {
    return error(peek().offset, cat("expected ", what, " of at most ", limits::kStringLength,
                                    " bytes, got ", content.size()));
  }
  take();
  return content;
}

// An error leaves the token where it is, because its message describes the next token.
Result<DraftName> Cursor::name(std::string_view what) {
  const Token& token = peek();
  if (token.kind != TokenKind::identifier && token.kind != TokenKind::string) return expected(what);
  DraftName name{std::string(), token.offset};
  name.name = token.kind == TokenKind::string ? unquote(token) : std::string(token.text);
  if (name.name.size() > limits::kNameLength) {
    return expected(cat(what, " of at most ", limits::kNameLength, " bytes"));
  }
  take();
  return name;
}

namespace {

// Converts ASCII letters alone: the result must not depend on the locale.
std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

// inf, infinity, nan, and the same with '-'.
std::optional<double> special(std::string_view text) {
  const bool negative = text.starts_with('-');
  const std::string word = lower(negative ? text.substr(1) : text);
  double value = 0;
  if (word == "inf" || word == "infinity") {
    value = std::numeric_limits<double>::infinity();
  } else if (word == "nan") {
    value = std::numeric_limits<double>::quiet_NaN();
  } else {
    return std::nullopt;
  }
  return std::copysign(value, negative ? -1.0 : 1.0);
}

// A token as T, rounded once; nothing if it is no number or too large.
template <typename T>
std::optional<T> real_of(std::string_view text) {
  if (const auto value = special(text)) return static_cast<T>(*value);
  T value = 0;
  const char* end = text.data() + text.size();
  const auto [parsed, failure] = std::from_chars(text.data(), end, value);
  if (parsed != end) return std::nullopt;
  if (failure == std::errc()) return value;
  // Out of range: below the smallest number the result is zero, above the largest an error. A
  // number that is too large for a long double, too, has an exponent or digits before its point.
  long double wide = 0;
  if (std::from_chars(text.data(), end, wide).ec != std::errc()) {
    const std::string_view digits = text.substr(text.starts_with('-') ? 1 : 0);
    const size_t exponent = digits.find_first_of("eE");
    const bool is_small = exponent == std::string_view::npos
                              ? digits.starts_with("0.") || digits.starts_with('.')
                              : digits.substr(exponent + 1).starts_with('-');
    if (!is_small) return std::nullopt;
    wide = std::copysign(0.0L, text.starts_with('-') ? -1.0L : 1.0L);
  }
  if (std::abs(wide) < 1) return static_cast<T>(wide);
  return std::nullopt;
}

}  // namespace

// Without a sign, "inf" and "nan" are identifiers for the lexer, so they are looked at by their
// text.
bool at_number(const Cursor& in) {
  const Token& token = in.peek();
  if (token.kind == TokenKind::integer || token.kind == TokenKind::real) return true;
  return token.kind == TokenKind::identifier && special(token.text).has_value();
}

Result<double> parse_real(Cursor& in) {
  if (!at_number(in)) return in.expected("a number");
  const auto value = real_of<double>(in.peek().text);
  if (!value) return in.expected("a number that fits a double");
  in.take();
  return *value;
}

bool at_type(const Cursor& in) {
  if (in.peek().kind != TokenKind::identifier) return false;
  const std::string_view word = in.peek().text;
  // The list has types that Leat refuses too: they must reach parse_type(), which names the error,
  // and not pass as names of values.
  constexpr std::string_view kOthers[] = {"seq",    "map",    "optional",  "sparse_tensor",
                                          "opaque", "string", "complex64", "complex128"};
  const auto dtype = dtype_from_name(word);
  return (dtype && *dtype != DType::invalid) ||
         std::find(std::begin(kOthers), std::end(kOthers), word) != std::end(kOthers);
}

// Parses one size: ?, 128, N or "2*N". assemble() takes the symbol's text apart.
static Result<DraftDim> parse_dim(Cursor& in) {
  if (in.accept("?")) return DraftDim();
  if (in.peek().kind == TokenKind::integer) {
    LEAT_ASSIGN_OR_RETURN(const int64_t size, in.integer("a size"));
    return DraftDim{size, ""};
  }
  LEAT_ASSIGN_OR_RETURN(DraftName symbol, in.name("a size, a name or '?'"));
  return DraftDim{std::nullopt, std::move(symbol.name)};
}

// Parses: float, float[N,8]. "float[]", an unknown rank in ONNX, is refused.
static Result<DraftType> parse_tensor_type(Cursor& in) {
  DraftType type;
  const auto dtype =
      in.peek().kind == TokenKind::identifier ? dtype_from_name(in.peek().text) : std::nullopt;
  if (!dtype || *dtype == DType::invalid) {
    return in.expected(
        "an element type (float, double, float16, bfloat16, int8 ... uint64, bool, "
        "float8e4m3fn ... uint2)");
  }
  type.dtype = *dtype;
  in.take();
  if (!in.accept("[")) return type;  // a scalar
  if (in.at("]")) return in.expected("the sizes (a value's rank must be known)");
  do {
    if (type.dims.size() == limits::kRank) {
      return in.error(in.peek().offset, cat("expected at most ", limits::kRank, " dimensions"));
    }
    LEAT_ASSIGN_OR_RETURN(DraftDim dim, parse_dim(in));
    type.dims.push_back(std::move(dim));
  } while (in.accept(","));
  LEAT_RETURN_IF_ERROR(in.expect("]"));
  return type;
}

Result<DraftType> parse_type(Cursor& in) {
  DraftType type;
  // A token: opaque(leat.token).
  if (in.at_identifier("opaque")) {
    in.take();
    LEAT_RETURN_IF_ERROR(in.expect("("));
    const bool leat = in.at_identifier("leat");
    if (leat) in.take();
    const bool token = leat && in.accept(".") && in.at_identifier("token");
    if (!token) return in.expected("'leat.token', the only opaque type");
    in.take();
    type.kind = ValueKind::token;
  } else if (in.at_identifier("optional") || in.at_identifier("sparse_tensor")) {
    // A resource or rows of a table, each with the tensor's type in parentheses.
    const ValueKind kind = in.take().text == "optional" ? ValueKind::resource : ValueKind::rows;
    LEAT_RETURN_IF_ERROR(in.expect("("));
    LEAT_ASSIGN_OR_RETURN(type, parse_tensor_type(in));
    type.kind = kind;
  } else {
    return parse_tensor_type(in);
  }
  LEAT_RETURN_IF_ERROR(in.expect(")"));
  return type;
}

namespace {

// Reads one element of C++ type T. Half and BFloat16 are written as their bits, as in ONNX.
template <typename T>
Status parse_element(Cursor& in, T& element) {
  const Token token = in.peek();
  if constexpr (std::is_floating_point_v<T>) {
    // The text is converted to T directly: by way of double, a float would be rounded twice.
    const auto value = at_number(in) ? real_of<T>(token.text) : std::nullopt;
    if (!value) return in.expected(cat("an element of type ", DTypeOf<T>::value));
    element = *value;
  } else {
    // The integer that is read: of bool a byte of 0 or 1, of a 16-bit float its bits.
    using Bits = std::conditional_t<std::is_same_v<T, bool>, uint8_t,
                                    std::conditional_t<std::is_class_v<T>, uint16_t, T>>;
    Bits value = 0;
    const char* end = token.text.data() + token.text.size();
    const auto [parsed, failure] = std::from_chars(token.text.data(), end, value);
    const bool fits = token.kind == TokenKind::integer && failure == std::errc() && parsed == end;
    if (!fits || (std::is_same_v<T, bool> && value > 1)) {
      return in.expected(cat("an element of type ", DTypeOf<T>::value,
                             std::is_class_v<T> ? " as the integer of its bits" : ""));
    }
    if constexpr (std::is_class_v<T>) {
      element.bits = value;
    } else {
      element = static_cast<T>(value);
    }
  }
  in.take();
  return {};
}

// Reads the code of a narrow element: an integer of the type's range, or a float's bits.
Status parse_code(Cursor& in, DType dtype, uint8_t& code) {
  const NarrowFormat format = narrow_format(dtype);
  const Token token = in.peek();
  const bool is_signed = format.kind == NarrowFormat::Kind::signed_int;
  const int values = 1 << format.bits, least = is_signed ? -values / 2 : 0;
  int value = 0;
  const char* end = token.text.data() + token.text.size();
  const auto [parsed, failure] = std::from_chars(token.text.data(), end, value);
  if (token.kind != TokenKind::integer || failure != std::errc() || parsed != end ||
      value < least || value >= least + values) {
    return in.expected(
        cat("an element of type ", dtype, format.is_float() ? " as the integer of its bits" : ""));
  }
  code = static_cast<uint8_t>(value & (values - 1));
  in.take();
  return {};
}

}  // namespace

Result<Tensor> parse_elements(Cursor& in, const DraftType& type) {
  // Only a tensor with constant sizes can be written down, and only inside the file itself.
  const size_t begin = in.peek().offset;
  std::vector<int64_t> dims;
  for (const DraftDim& dim : type.dims) {
    if (!dim.size) return in.error(begin, "expected a tensor whose sizes are all numbers");
    dims.push_back(*dim.size);
  }
  if (type.kind != ValueKind::tensor) return in.error(begin, "expected a tensor's type");
  if (in.at("[")) return in.expected("'{' (external data is for ONNX files)");
  LEAT_RETURN_IF_ERROR(in.expect("{"));
  const auto shape = Shape::checked(dims);
  // Every element takes at least two characters, so a text cannot cause an allocation larger than
  // its own size.
  const size_t most = limits::kTextBytes / 2;
  if (!shape || static_cast<uint64_t>(shape->elements()) > most) {
    return in.error(begin, cat("expected a tensor of at most ", most, " elements"));
  }
  const int64_t count = shape->elements();
  return dispatch_dtype(type.dtype, [&](auto tag) -> Result<Tensor> {
    using T = decltype(tag);
    std::vector<char> bytes;  // grows with the elements read, not with the declared size
    int64_t read = 0;
    while (!in.at("}")) {
      if (read > 0) LEAT_RETURN_IF_ERROR(in.expect(","));
      // A surplus element is found before it is read, so its place is the one in the message.
      T element{};
      if (read == count) return in.expected(cat("'}' after ", count, " elements"));
      if constexpr (std::is_same_v<T, uint8_t>) {
        LEAT_RETURN_IF_ERROR(is_narrow(type.dtype) ? parse_code(in, type.dtype, element)
                                                   : parse_element(in, element));
      } else {
        LEAT_RETURN_IF_ERROR(parse_element(in, element));
      }
      const char* raw = reinterpret_cast<const char*>(&element);
      bytes.insert(bytes.end(), raw, raw + sizeof element);
      ++read;
    }
    if (read != count) return in.expected(cat(count, " elements, not ", read));
    in.take();
    // The tensor is allocated only now that all of its elements were in the text.
    LEAT_ASSIGN_OR_RETURN(Tensor tensor, Tensor::create(type.dtype, *shape));
    if (!bytes.empty()) std::memcpy(tensor.raw(), bytes.data(), bytes.size());
    return tensor;
  });
}

}  // namespace leat
