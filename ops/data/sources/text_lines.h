// Records of text: lines, and records of comma-separated values, which may go over several lines.
// Private to ops/data/sources.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ops/data/sources/record_files.h"

namespace leat {

// A record of text has at most this many bytes.
inline constexpr uint64_t kLongestText = uint64_t{16} << 20;

// The place at which the text of a file begins: behind a mark of UTF-8. invalid_argument for
// UTF-16.
Result<uint64_t> begin_of_text(ForwardReader& file);

// Each line that is not blank is a record.
class LineRule final : public RecordRule {
 public:
  Result<uint64_t> first(ForwardReader& file) const override { return begin_of_text(file); }
  Result<std::optional<RecordPlace>> find(ForwardReader& file, uint64_t from) const override;
};

// A record ends at the end of a line that is not in quotes. A field is in quotes if it begins with
// one; "" in it is a quote. Blank lines are no records.
class CsvRule final : public RecordRule {
 public:
  // `header`: the fields that the first record of each file has; empty: files have no header.
  CsvRule(char delimiter, std::vector<std::string> header)
      : delimiter_(delimiter), header_(std::move(header)) {}
  Result<uint64_t> first(ForwardReader& file) const override;
  Result<std::optional<RecordPlace>> find(ForwardReader& file, uint64_t from) const override;

 private:
  const char delimiter_;
  const std::vector<std::string> header_;
};

// The text of a record, without the end of its line.
std::string_view text_of(std::span<const std::byte> record);

// The fields of one record. The views are of the record, or of the object itself: valid until the
// next parse() or the end of either.
class CsvFields {
 public:
  // invalid_argument, without a subject, for text behind a closing quote, or without such a quote.
  Status parse(std::string_view record, char delimiter);
  const std::vector<std::string_view>& fields() const { return fields_; }

 private:
  std::vector<std::string_view> fields_;
  std::string unquoted_;
};

}  // namespace leat
