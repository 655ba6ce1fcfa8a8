// The rows of a column as texts, for `leat data`: a number is the shortest one that reads back to
// the same bits, a class has its name, and bytes of a text are that text without the zeros at its
// end.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "ops/data/columns.h"

namespace leat {

// Immutable. Threads: any. Each function takes the bytes of one row, which need no alignment.
class ColumnText {
 public:
  // `classes`: the names of the column's numbers; empty: none.
  ColumnText(ColumnInfo info, bool is_text, std::vector<std::string> classes);
  const ColumnInfo& info() const { return info_; }
  bool is_text() const { return is_text_; }
  const std::vector<std::string>& classes() const { return classes_; }

  // A value of JSON: lists as the shape has them. NaN and infinity are the texts "NaN", "Infinity"
  // and "-Infinity".
  void add_json(const std::byte* row, std::string& out) const;
  // The names of the fields of CSV: that of the column or, of more elements than one, NAME_0 ...
  std::vector<std::string> csv_fields() const;
  void add_csv(const std::byte* row, std::string& out) const;
  // A short form for people, of at most `most` characters or a few elements.
  std::string shown(const std::byte* row, size_t most) const;
  // An element of the row as a number; a 64-bit integer is rounded.
  double number(const std::byte* row, int64_t element) const;

 private:
  std::string element(const std::byte* row, int64_t i, bool json) const;
  std::string text(const std::byte* row) const;
  void add_nested(const std::byte* row, int dimension, int64_t& next, std::string& out) const;

  const ColumnInfo info_;
  const bool is_text_;
  const std::vector<std::string> classes_;
};

// A text in quotes as JSON has it. Bytes that are no UTF-8 become U+FFFD.
std::string json_string(const std::string& text);
// A text as a field of CSV (RFC 4180), in quotes if it needs them.
std::string csv_field(const std::string& text);

}  // namespace leat
