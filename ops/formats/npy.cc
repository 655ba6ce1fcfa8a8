#include "ops/formats/npy.h"

#include <array>
#include <charconv>

#include "devices/base/text.h"
#include "ops/formats/array_file.h"
#include "ops/formats/elements.h"

namespace leat {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
// Magic, version and the size of 4 bytes that versions 2 and 3 have, then the literal.
constexpr uint64_t kLongestNpyHeader = 12 + kNpyHeaderBytes;

struct Descr {
  std::string_view name;  // without the byte order
  DType dtype;
};
constexpr Descr kDescrs[] = {
    {"f4", DType::f32}, {"f8", DType::f64}, {"f2", DType::f16}, {"i1", DType::i8},
    {"i2", DType::i16}, {"i4", DType::i32}, {"i8", DType::i64}, {"u1", DType::u8},
    {"u2", DType::u16}, {"u4", DType::u32}, {"u8", DType::u64}, {"b1", DType::boolean},
};

// At most 40 bytes of the text that was received, without characters that control a terminal.
std::string quoted(std::string_view text) {
  std::string out = "'";
  for (char c : text.substr(0, 40)) out += c >= 0x20 && c < 0x7f ? c : '?';
  return out + (text.size() > 40 ? "...'" : "'");
}

// Reads the one form of Python literal that numpy writes: keys in any order, each exactly once.
class LiteralParser {
 public:
  LiteralParser(std::string_view text, size_t offset, std::string_view subject)
      : text_(text), offset_(offset), subject_(subject) {}

  // Parses the braces, the items with their commas, then the padding. A comma may follow the last
  // item.
  Result<ArrayHeader> parse() {
    LEAT_RETURN_IF_ERROR(expect('{'));
    while (!accept('}')) {
      LEAT_RETURN_IF_ERROR(parse_item());
      if (accept(',')) continue;
      LEAT_RETURN_IF_ERROR(expect('}'));
      break;
    }
    skip_space();
    if (at_ != text_.size()) return wrong("the end of the header");
    for (std::string_view key : {"descr", "fortran_order", "shape"}) {
      if (!has(key)) return invalid_argument(cat("'", subject_, "': the header lacks '", key, "'"));
    }
    return header_;
  }

 private:
  static constexpr std::array<std::string_view, 3> kKeys = {"descr", "fortran_order", "shape"};

  // True if the key was read.
  bool has(std::string_view key) const {
    for (size_t i = 0; i < kKeys.size(); ++i) {
      if (kKeys[i] == key) return seen_[i];
    }
    return false;
  }

  // Parses one "'key': value". A key that occurs twice is refused: readers disagree which one
  // counts.
  Status parse_item() {
    const size_t start = at_;
    std::string_view key;
    LEAT_RETURN_IF_ERROR(parse_string(key));
    size_t which = 0;
    while (which < kKeys.size() && kKeys[which] != key) ++which;
    if (which == kKeys.size()) return wrong("descr, fortran_order or shape", start);
    if (seen_[which]) return wrong(cat("'", key, "' only once"), start);
    seen_[which] = true;
    LEAT_RETURN_IF_ERROR(expect(':'));
    if (which == 0) return parse_descr();
    return which == 1 ? parse_order() : parse_shape();
  }

  // Parses the element type, such as '<f4': byte order, kind, and size in bytes. The two types that
  // a user meets in practice and that cannot be read have messages of their own.
  Status parse_descr() {
    skip_space();
    if (peek() == '[') {
      return unimplemented(cat("'", subject_, "': expected a plain element type at byte ",
                               offset_ + at_, ", received a structured one"));
    }
    const size_t start = at_;
    std::string_view descr;
    LEAT_RETURN_IF_ERROR(parse_string(descr));
    if (descr.find('O') != std::string_view::npos) {
      return invalid_argument(cat("'", subject_,
                                  "': expected numbers, received an array of objects (",
                                  quoted(descr), "): it is a pickle, which can run code"));
    }
    if (descr.starts_with('>')) {
      return unimplemented(cat("'", subject_, "': expected little-endian elements, received ",
                               quoted(descr), ": save array.astype('<",
                               quoted(descr.substr(1)).substr(1), ")"));
    }
    // '|' means that the order of bytes is irrelevant, which is true of one-byte elements only.
    const bool ordered = descr.starts_with('<') || descr.starts_with('|');
    for (const Descr& known : kDescrs) {
      if (!ordered || descr.substr(1) != known.name) continue;
      if (descr[0] == '|' && dtype_size(known.dtype) != 1) continue;
      header_.dtype = known.dtype;
      return {};
    }
    return wrong("an element type such as '<f4'", start);
  }

  // Parses True or False.
  Status parse_order() {
    skip_space();
    for (bool value : {false, true}) {
      const std::string_view word = value ? "True" : "False";
      if (!text_.substr(at_).starts_with(word)) continue;
      at_ += word.size();
      header_.fortran_order = value;
      return {};
    }
    return wrong("True or False");
  }

  // "()", "(3,)", "(3, 4)", "(3, 4,)". "(3)" is a number in Python, not a tuple.
  Status parse_shape() {
    LEAT_RETURN_IF_ERROR(expect('('));
    std::array<int64_t, kMaxRank> dims{};
    size_t rank = 0;
    bool comma = true;
    while (!accept(')')) {
      if (!comma) return wrong("',' or ')'");
      if (rank == kMaxRank) return wrong(cat("at most ", kMaxRank, " sizes"));
      LEAT_RETURN_IF_ERROR(parse_size(dims[rank++]));
      comma = accept(',');
    }
    if (rank == 1 && !comma) return wrong("',' after a single size", at_ - 1);
    // The product may not overflow, since every later size is computed from it.
    const auto shape = Shape::checked({dims.data(), rank});
    if (!shape) return wrong("sizes whose product is at most 2^62");
    header_.shape = *shape;
    return {};
  }

  // Parses one size. from_chars reads "-0" as 0, so a sign is refused by itself.
  Status parse_size(int64_t& size) {
    skip_space();
    const std::string_view rest = text_.substr(at_);
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), size);
    if (error != std::errc() || size < 0 || rest.starts_with('-'))
      return wrong("a size below 2^63");
    at_ += static_cast<size_t>(end - rest.data());
    return {};
  }

  // Escapes are refused: no string that numpy writes here has one.
  Status parse_string(std::string_view& value) {
    skip_space();
    const char quote = peek();
    if (quote != '\'' && quote != '"') return wrong("a string");
    const size_t end = text_.find_first_of(quote == '"' ? "\"\\\n" : "'\\\n", at_ + 1);
    if (end == std::string_view::npos || text_[end] != quote) return wrong("a string that ends");
    value = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return {};
  }

  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) {
      ++at_;
    }
  }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  // Consumes `c` after blanks and returns true if it is next.
  bool accept(char c) {
    skip_space();
    if (peek() != c || at_ == text_.size()) return false;
    ++at_;
    return true;
  }
  Status expect(char c) { return accept(c) ? Status() : wrong(cat("'", c, "'")); }
  // The error says what the parser expected and what stands at that byte of the file instead.
  Status wrong(std::string_view expected) const { return wrong(expected, at_); }
  Status wrong(std::string_view expected, size_t at) const {
    const std::string_view rest = text_.substr(std::min(at, text_.size()));
    return invalid_argument(cat("'", subject_, "': expected ", expected, " in the header at byte ",
                                offset_ + at, ", received ",
                                rest.empty() ? "its end" : quoted(rest)));
  }

  std::string_view text_;
  size_t offset_;  // of the text in the file
  std::string_view subject_;
  size_t at_ = 0;
  std::array<bool, 3> seen_{};
  ArrayHeader header_;
};

// The header's text, and its place in the file.
struct Literal {
  std::string_view text;
  size_t offset;
};

// Checks magic, version and size, and returns the literal behind them. `bytes` is the beginning of
// a file, which may end anywhere.
Result<Literal> find_literal(std::span<const std::byte> bytes, std::string_view subject) {
  const std::string_view all(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!all.starts_with(kMagic)) {
    return invalid_argument(cat("'", subject, "': expected '\\x93NUMPY' at byte 0, received ",
                                all.empty() ? "an empty file" : quoted(all.substr(0, 6))));
  }
  const auto truncated = [&](size_t needed) {
    return invalid_argument(cat("'", subject, "': expected a header up to byte ", needed,
                                ", the file has ", bytes.size(), " bytes"));
  };
  if (bytes.size() < 10) return truncated(10);
  const int major = static_cast<int>(bytes[6]), minor = static_cast<int>(bytes[7]);
  if (major < 1 || major > 3 || minor != 0) {
    return unimplemented(cat("'", subject,
                             "': expected NPY version 1.0, 2.0 or 3.0 at byte 6, received ", major,
                             ".", minor));
  }
  // Version 1 has a size of 2 bytes, versions 2 and 3 have one of 4 bytes. They differ in nothing
  // else that the reader accepts.
  const size_t offset = major == 1 ? 10 : 12;
  if (bytes.size() < offset) return truncated(offset);
  const uint64_t size = major == 1 ? load_little<uint16_t>(bytes.data() + 8)
                                   : load_little<uint32_t>(bytes.data() + 8);
  if (size > kNpyHeaderBytes) {
    return invalid_argument(cat("'", subject, "': expected a header of at most ", kNpyHeaderBytes,
                                " bytes, byte 8 says ", size));
  }
  if (bytes.size() - offset < size) return truncated(offset + size);
  return Literal{all.substr(offset, size), offset};
}

// The header of the file with the offset of its elements. The padding belongs to the literal.
Result<ArrayHeader> parse_npy_header(std::span<const std::byte> bytes, std::string_view subject) {
  LEAT_ASSIGN_OR_RETURN(const Literal literal, find_literal(bytes, subject));
  LEAT_ASSIGN_OR_RETURN(ArrayHeader header,
                        LiteralParser(literal.text, literal.offset, subject).parse());
  header.offset = literal.offset + literal.text.size();
  return header;
}

// The name without byte order; "" for a type that numpy lacks.
std::string_view descr_of(DType dtype) {
  for (const Descr& known : kDescrs) {
    if (known.dtype == dtype) return known.name;
  }
  return {};
}

// Formats magic, version, size and literal, padded so that the elements begin at a multiple of 64.
std::string format_header(DType dtype, const Shape& shape) {
  std::string literal = cat("{'descr': '", dtype_size(dtype) == 1 ? '|' : '<', descr_of(dtype),
                            "', 'fortran_order': False, 'shape': (", join(shape.dims(), ", "),
                            shape.rank() == 1 ? "," : "", "), }");
  // The prefix has the magic, two bytes of version and two of size. With eight sizes at most, the
  // literal is far below the 65,535 bytes of version 1. A newline ends the padding, as numpy does
  // it.
  const size_t prefix = kMagic.size() + 4;
  literal.append(63 - (prefix + literal.size()) % 64, ' ');
  literal += '\n';
  std::string header(kMagic);
  header += {'\x01', '\x00', static_cast<char>(literal.size() & 255),
             static_cast<char>(literal.size() >> 8)};
  return header + literal;
}

Status check_writable(DType dtype, const Shape& shape) {
  if (!descr_of(dtype).empty()) return {};
  return unimplemented(cat("expected an element type that numpy has, the tensor is ", dtype, shape,
                           "; cast it first"));
}

}  // namespace

const ArrayFormat& npy_format() {
  static constexpr ArrayFormat kFormat{parse_npy_header, kLongestNpyHeader, false};
  return kFormat;
}

Result<Tensor> read_npy(Files& files, const std::string& path, uint64_t limit) {
  LEAT_ASSIGN_OR_RETURN(ArrayFile file, ArrayFile::open(files, path, npy_format(), limit));
  return file.read_all();
}

Result<std::string> npy_header(DType dtype, const Shape& shape) {
  LEAT_RETURN_IF_ERROR(check_writable(dtype, shape));
  return format_header(dtype, shape);
}

Result<Bytes> format_npy(const Tensor& tensor) {
  LEAT_ASSIGN_OR_RETURN(const std::string header, npy_header(tensor.dtype(), tensor.shape()));
  const auto head = std::as_bytes(std::span(header));
  Bytes out(head.begin(), head.end());
  const std::span<const std::byte> data = bytes_of(tensor);
  out.insert(out.end(), data.begin(), data.end());
  return out;
}

Status write_npy(Files& files, const std::string& path, const Tensor& tensor) {
  const auto made = npy_header(tensor.dtype(), tensor.shape());
  LEAT_RETURN_IF_ERROR(made.status().while_doing(cat("writing '", path, "'")));
  const std::string& header = *made;
  const std::span<const std::byte> pieces[] = {std::as_bytes(std::span(header)), bytes_of(tensor)};
  return write_file_atomically(files, path, pieces);
}

}  // namespace leat
