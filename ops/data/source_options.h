// The options of a format of data: the keys that a job file has beside `format` and `files`.
//
// A format lists its options once, in a table. They travel as texts, "key=value", from the job file
// to the graph's attributes and to the workers, so that a new format changes neither of those. The
// texts of a list repeat the key, and the options of a column have its name in the key:
//
//   names=age            columns:features=              (the column is there)
//   names=height         columns:features:from=age
//                        columns:features:from=height
//
// Threads: tables are constants, and everything else is a value.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "devices/base/dtype.h"
#include "devices/base/shape.h"
#include "devices/base/status.h"

namespace leat {

enum class OptionKind : uint8_t {
  text,
  texts,  // one or more texts; a job file may write a single one without a list
  integer,
  integers,  // as `texts`
  number,    // finite
  numbers,   // as `texts`
  flag,      // true or false
  choice,    // one of `choices`
  columns,   // a map from names of columns to their own options
};

// One option of a format, or of a column of one.
struct SourceOption {
  std::string_view name;
  OptionKind kind = OptionKind::text;
  std::string_view initial = {};  // the default, as its text; empty: none
  bool required = false;
  // The values that an integer or a number may have, ends included.
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  std::span<const std::string_view> choices = {};
  // Kind columns: the options of one column, and the one among them that a job file means with a
  // value instead of a map: `age: years` is short for `age: {from: years}`.
  std::span<const SourceOption> of_column = {};
  std::string_view shorthand = {};
};

// Null if no option of the table has the name.
const SourceOption* find_option(std::span<const SourceOption> table, std::string_view name);
// Checks one value of an option that is not of kind columns: invalid_argument with "expected ...,
// received '...'", without a subject.
Status check_option(const SourceOption& option, std::string_view value);

// The values of a table's options.
class SourceOptions {
 public:
  SourceOptions() = default;
  // Reads the texts. invalid_argument for a key that the table does not have, a value that it does
  // not allow, an option given twice, and a required one that is absent. `table` has to live as
  // long as the result: tables are constants.
  static Result<SourceOptions> parse(std::span<const SourceOption> table,
                                     std::span<const std::string> texts);

  // True if the option is given.
  bool has(std::string_view name) const { return values_.contains(name); }
  // The values, or the default; "" or 0 if there is none. REQUIRES, of all these: the table has the
  // option, and it is of that kind.
  std::string text(std::string_view name) const;
  std::vector<std::string> texts(std::string_view name) const;
  int64_t integer(std::string_view name) const;
  std::vector<int64_t> integers(std::string_view name) const;
  double number(std::string_view name) const;
  std::vector<double> numbers(std::string_view name) const;
  bool flag(std::string_view name) const { return text(name) == "true"; }
  // The columns and their options, in the order of the texts.
  const std::vector<std::pair<std::string, SourceOptions>>& columns() const { return columns_; }

 private:
  std::span<const SourceOption> table_;
  std::map<std::string, std::vector<std::string>, std::less<>> values_;
  std::vector<std::pair<std::string, SourceOptions>> columns_;
};

// The names of element types that options take: float32, float64, int8 ... uint64 and bool.
inline constexpr std::string_view kColumnTypes[] = {"float32", "float64", "int8",  "int16",
                                                    "int32",   "int64",   "uint8", "uint16",
                                                    "uint32",  "uint64",  "bool"};
// REQUIRES: one of these names.
DType column_type(std::string_view name);
// The name of a type as options take it: float32 and float64, and else that of dtype_name().
std::string_view column_type_name(DType dtype);
// The sizes as a shape. invalid_argument if one is below 1, if there are more than kMaxRank - 1, or
// if a row would have more than 2^31 elements.
Result<Shape> row_shape(const std::vector<int64_t>& sizes);

}  // namespace leat
