#include "ops/data/sources/text_lines.h"

#include <algorithm>
#include <cstring>

#include "devices/base/text.h"
#include "ops/data/sources/field_values.h"

namespace leat {
namespace {

std::string_view chars_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

Status too_long(uint64_t begin) {
  return invalid_argument(cat("expected at most ", kLongestText, " bytes in a record, the one at ",
                              "byte ", begin, " has more"));
}

// The end of the line that begins at `from`, behind its newline; the end of the file for the last.
// The line is read in windows, so that its length takes no memory.
Result<uint64_t> end_of_line(ForwardReader& file, uint64_t from, uint64_t record) {
  for (uint64_t at = from; at < file.size();) {
    LEAT_ASSIGN_OR_RETURN(const auto bytes, file.peek(at, 1));
    const size_t newline = chars_of(bytes).find('\n');
    if (newline != std::string_view::npos) return at + newline + 1;
    at += bytes.size();
    if (at - record > kLongestText) return too_long(record);
  }
  return file.size();
}

// The place of the next line that is not blank.
Result<std::optional<RecordPlace>> find_line(ForwardReader& file, uint64_t from) {
  while (from < file.size()) {
    LEAT_ASSIGN_OR_RETURN(const uint64_t end, end_of_line(file, from, from));
    if (end - from > kLongestText) return too_long(from);
    LEAT_ASSIGN_OR_RETURN(const auto bytes, file.peek(from, static_cast<size_t>(end - from)));
    if (!is_blank(chars_of(bytes).substr(0, static_cast<size_t>(end - from))))
      return std::optional(RecordPlace{from, end});
    from = end;
  }
  return std::optional<RecordPlace>();
}

// Walks over the characters of a record.
class QuoteState {
 public:
  explicit QuoteState(char delimiter) : delimiter_(delimiter) {}
  void take(std::string_view text) {
    for (const char c : text) take(c);
  }
  bool in_quotes() const { return state_ == State::quoted; }

 private:
  enum class State : uint8_t { begin, plain, quoted, quote_in_quotes };
  void take(char c) {
    switch (state_) {
      case State::begin:
        state_ = c == '"' ? State::quoted : c == delimiter_ ? State::begin : State::plain;
        return;
      case State::plain:
        if (c == delimiter_) state_ = State::begin;
        return;
      case State::quoted:
        if (c == '"') state_ = State::quote_in_quotes;
        return;
      case State::quote_in_quotes:
        state_ = c == '"' ? State::quoted : c == delimiter_ ? State::begin : State::plain;
        return;
    }
  }
  const char delimiter_;
  State state_ = State::begin;
};

}  // namespace

Result<uint64_t> begin_of_text(ForwardReader& file) {
  LEAT_ASSIGN_OR_RETURN(const auto bytes, file.peek(0, 3));
  const std::string_view text = chars_of(bytes);
  if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff"))
    return invalid_argument("expected text in UTF-8, received UTF-16");
  return uint64_t{text.starts_with("\xef\xbb\xbf") ? 3u : 0u};
}

Result<std::optional<RecordPlace>> LineRule::find(ForwardReader& file, uint64_t from) const {
  return find_line(file, from);
}

Result<std::optional<RecordPlace>> CsvRule::find(ForwardReader& file, uint64_t from) const {
  LEAT_ASSIGN_OR_RETURN(auto line, find_line(file, from));
  if (!line) return line;
  QuoteState state(delimiter_);
  for (uint64_t begin = line->begin;;) {
    LEAT_ASSIGN_OR_RETURN(const auto bytes,
                          file.peek(begin, static_cast<size_t>(line->end - begin)));
    const std::string_view text = chars_of(bytes).substr(0, static_cast<size_t>(line->end - begin));
    // A line without quotes, most often.
    if (begin == line->begin && text.find('"') == std::string_view::npos) return line;
    state.take(text);
    if (!state.in_quotes()) return line;
    if (line->end == file.size())
      return invalid_argument(cat("expected a closing quote in the record at byte ", line->begin,
                                  ", received the end of the file"));
    begin = line->end;
    LEAT_ASSIGN_OR_RETURN(line->end, end_of_line(file, begin, line->begin));
    if (line->end - line->begin > kLongestText) return too_long(line->begin);
  }
}

Result<uint64_t> CsvRule::first(ForwardReader& file) const {
  LEAT_ASSIGN_OR_RETURN(const uint64_t begin, begin_of_text(file));
  if (header_.empty()) return begin;
  LEAT_ASSIGN_OR_RETURN(const auto place, find(file, begin));
  if (!place) return invalid_argument("expected a header, received an empty file");
  LEAT_ASSIGN_OR_RETURN(const auto bytes,
                        file.peek(place->begin, static_cast<size_t>(place->end - place->begin)));
  CsvFields fields;
  LEAT_RETURN_IF_ERROR(fields.parse(
      text_of(bytes.first(static_cast<size_t>(place->end - place->begin))), delimiter_));
  if (std::equal(fields.fields().begin(), fields.fields().end(), header_.begin(), header_.end()))
    return place->end;
  return invalid_argument(cat("expected the header ", quoted_field(join(header_, ", ")),
                              " as in the first file, received ",
                              quoted_field(join(fields.fields(), ", "))));
}

std::string_view text_of(std::span<const std::byte> record) {
  std::string_view text = chars_of(record);
  if (text.ends_with('\n')) text.remove_suffix(1);
  if (text.ends_with('\r')) text.remove_suffix(1);
  return text;
}

Status CsvFields::parse(std::string_view record, char delimiter) {
  fields_.clear();
  unquoted_.clear();
  // It never grows beyond this, so that the views into it stay valid.
  unquoted_.reserve(record.size());
  for (size_t at = 0;;) {
    if (at < record.size() && record[at] == '"') {
      const size_t begin = unquoted_.size();
      for (++at;; ++at) {
        const size_t quote = record.find('"', at);
        if (quote == std::string_view::npos) {
          return invalid_argument(
              cat("field ", fields_.size() + 1, ": expected a closing quote, received none"));
        }
        unquoted_.append(record.substr(at, quote - at));
        at = quote + 1;
        if (at >= record.size() || record[at] != '"') break;
        unquoted_.push_back('"');
      }
      fields_.push_back(std::string_view(unquoted_).substr(begin));
      if (at < record.size() && record[at] != delimiter) {
        return invalid_argument(cat("field ", fields_.size(), ": expected '", delimiter,
                                    "' behind the closing quote, received ",
                                    quoted_field(record.substr(at, 20))));
      }
    } else {
      const size_t end = std::min(record.find(delimiter, at), record.size());
      fields_.push_back(record.substr(at, end - at));
      at = end;
    }
    if (at >= record.size()) return {};
    ++at;  // the delimiter; a field follows, even at the end
  }
}

}  // namespace leat
