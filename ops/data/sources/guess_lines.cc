// Guesses the columns of CSV files and JSON lines by their first records.
#include <algorithm>
#include <functional>
#include <map>

#include "devices/base/text.h"
#include "ops/data/sources/field_guess.h"
#include "ops/data/sources/json_text.h"
#include "ops/data/sources/text_lines.h"

namespace leat {
namespace {

// Passes the first `most` records of a file to `take`.
Status each_text_record(Files& files, const std::string& path, const RecordRule& rule, int64_t most,
                        const std::function<void(std::string_view)>& take) {
  LEAT_ASSIGN_OR_RETURN(auto file, files.open(path));
  ForwardReader reader(std::move(file), size_t{1} << 20);
  const auto named = [&](const Status& status) {
    return Status(status.code(), cat("'", path, "': ", status.message()));
  };
  const auto begin = rule.first(reader);
  if (!begin.ok()) return named(begin.status());
  uint64_t from = *begin;
  for (int64_t record = 0; record < most; ++record) {
    const auto place = rule.find(reader, from);
    if (!place.ok()) return named(place.status());
    if (!*place) return {};
    const uint64_t size = (*place)->end - (*place)->begin;
    if (size > kLongestText) {
      return invalid_argument(cat("'", path, "': record ", record + 1, ": expected at most ",
                                  kLongestText, " bytes, received ", size));
    }
    LEAT_ASSIGN_OR_RETURN(const auto bytes, reader.peek((*place)->begin, size));
    take(text_of(bytes.first(static_cast<size_t>(size))));
    from = (*place)->end;
  }
  return {};
}

bool all_are_numbers(const std::vector<std::string_view>& fields) {
  return std::all_of(fields.begin(), fields.end(), [](std::string_view text) {
    FieldGuess guess;
    guess.add_text(text);
    return guess.is_number();
  });
}

// --- JSON lines.

// The values of one path of names.
struct JsonField {
  FieldGuess values;
  std::optional<std::vector<int64_t>> sizes;  // of the arrays, from the outermost on
  int64_t records = 0;                        // that have the field
  std::string odd;                            // the reason why it is no column; empty: it is one
};

// Walks over records, and collects the values by their paths. Threads: one.
class JsonGuess {
 public:
  Status add(std::string_view record) {
    JsonText text(record);
    LEAT_ASSIGN_OR_RETURN(const JsonKind kind, text.kind());
    if (kind != JsonKind::object) return invalid_argument("expected an object");
    LEAT_RETURN_IF_ERROR(members(text, "", 1));
    LEAT_RETURN_IF_ERROR(text.end());
    ++records_;
    return {};
  }
  int64_t records() const { return records_; }

  void finish(GuessedData& out) {
    GuessedColumns columns;
    for (const std::string& path : order_) {
      JsonField& field = fields_[path];
      // Behind the path the next one in order is one inside of it, if there is one.
      const auto next = fields_.lower_bound(path + ".");
      if (next != fields_.end() && next->first.starts_with(path + "."))
        field.odd = "it is an object in some records and a value in others";
      for (size_t dot = path.find('.'); dot != std::string::npos; dot = path.find('.', dot + 1)) {
        if (fields_.contains(path.substr(0, dot)))
          field.odd = "it is an object in some records and a value in others";
      }
      if (field.odd.empty() && field.values.is_mixed())
        field.odd = "it has values of different kinds";
      if (field.odd.empty() && field.sizes && !field.sizes->empty() && field.values.is_text())
        field.odd = "it has lists of texts";
      if (!field.odd.empty()) {
        out.notes.push_back(cat("the field ", quoted_field(path), " is left out: ", field.odd));
        continue;
      }
      for (int64_t i = field.records; i < records_; ++i) field.values.add_missing();
      note_missing(path, field.values, out);
      std::vector<std::string> options = field.values.options();
      if (field.sizes) {
        for (const int64_t size : *field.sizes) options.push_back(cat("shape=", size));
      }
      columns.add(path, "field", std::move(options));
    }
    out.names.options = columns.take();
  }

 private:
  Status members(JsonText& text, const std::string& prefix, int depth) {
    if (depth > kJsonDepth) return text.wrong(cat("at most ", kJsonDepth, " nested values"));
    return text.object([&](const std::string& name) -> Status {
      LEAT_ASSIGN_OR_RETURN(const JsonKind kind, text.kind());
      if (kind == JsonKind::object && name.find('.') == std::string::npos)
        return members(text, cat(prefix, name, "."), depth + 1);
      JsonField& field = find(prefix + name);
      if (name.find('.') != std::string::npos) {
        field.odd = "its name has a dot";
        return text.skip(depth + 1);
      }
      if (kind == JsonKind::null) return text.word().status();
      ++field.records;
      std::vector<int64_t> sizes;
      LEAT_RETURN_IF_ERROR(value(text, field, sizes, 0, depth + 1));
      std::erase(sizes, -1);
      if (!field.sizes) field.sizes = sizes;
      if (*field.sizes != sizes) field.odd = "its lists have different sizes";
      return {};
    });
  }

  // A value, whose lists have so many items: sizes[dimension] is -1 until a list has set it.
  Status value(JsonText& text, JsonField& field, std::vector<int64_t>& sizes, size_t dimension,
               int depth) {
    if (depth > kJsonDepth) return text.wrong(cat("at most ", kJsonDepth, " nested values"));
    LEAT_ASSIGN_OR_RETURN(const JsonKind kind, text.kind());
    if (kind == JsonKind::array) {
      if (sizes.size() == dimension) sizes.push_back(-1);
      int64_t count = 0;
      LEAT_RETURN_IF_ERROR(text.array([&] {
        ++count;
        return value(text, field, sizes, dimension + 1, depth + 1);
      }));
      int64_t& size = sizes[dimension];
      if (count == 0) field.odd = "it has an empty list";
      if (size >= 0 && size != count) field.odd = "its lists have different sizes";
      size = count;
      return {};
    }
    if (dimension < sizes.size()) field.odd = "its lists have different depths";
    if (kind == JsonKind::string) {
      LEAT_ASSIGN_OR_RETURN(const std::string string, text.string());
      field.values.add_string(string);
      return {};
    }
    if (kind == JsonKind::object || kind == JsonKind::null) {
      field.odd = cat("it has ", json_kind_name(kind), " in a list");
      return text.skip(depth);
    }
    LEAT_ASSIGN_OR_RETURN(const std::string_view word, text.word());
    if (kind == JsonKind::boolean) {
      field.values.add_boolean();
    } else {
      field.values.add_text(word);
    }
    return {};
  }

  JsonField& find(const std::string& path) {
    const auto [found, fresh] = fields_.try_emplace(path);
    if (fresh) order_.push_back(path);
    return found->second;
  }

  std::map<std::string, JsonField, std::less<>> fields_;
  std::vector<std::string> order_;  // in which the records have them
  int64_t records_ = 0;
};

}  // namespace

Result<GuessedData> guess_csv(Files& files, const std::string& path, char delimiter,
                              int64_t most_records) {
  GuessedData out{names_of_file(delimiter == '\t' ? "tsv" : "csv", path), {}};
  std::vector<std::string> names;
  std::vector<FieldGuess> guesses;
  bool header = true;
  // The first record is the header: unless all of it are numbers, which are no names.
  const auto take = [&](std::string_view record) {
    CsvFields fields;
    if (!fields.parse(record, delimiter).ok()) return;
    if (guesses.empty()) {
      header = !all_are_numbers(fields.fields());
      guesses.resize(fields.fields().size());
      for (size_t i = 0; i < guesses.size(); ++i)
        names.push_back(header ? std::string(fields.fields()[i]) : cat("field_", i));
      if (header) return;
    }
    if (fields.fields().size() != guesses.size()) return;  // a bad record, which readers report
    for (size_t i = 0; i < guesses.size(); ++i) {
      if (fields.fields()[i].empty()) {
        guesses[i].add_missing();
      } else {
        guesses[i].add_text(fields.fields()[i]);
      }
    }
  };
  const int64_t most = most_records < INT64_MAX ? most_records + 1 : most_records;
  LEAT_RETURN_IF_ERROR(each_text_record(files, path, CsvRule(delimiter, {}), most, take));
  if (guesses.empty())
    return invalid_argument(cat("'", path, "': expected at least one record, received none"));
  GuessedColumns columns;
  for (size_t i = 0; i < guesses.size(); ++i) {
    note_missing(names[i], guesses[i], out);
    columns.add(names[i], "from", guesses[i].options());
  }
  out.names.options = columns.take();
  if (!header) {
    out.notes.push_back(
        "the first record has numbers alone: the file is taken as one without a "
        "header");
    out.names.options.push_back("header=false");
    for (const std::string& name : names) out.names.options.push_back("names=" + name);
  }
  return out;
}

Result<GuessedData> guess_jsonl(Files& files, const std::string& path, int64_t most_records) {
  GuessedData out{names_of_file("jsonl", path), {}};
  JsonGuess guess;
  Status first_bad;
  LEAT_RETURN_IF_ERROR(
      each_text_record(files, path, LineRule(), most_records, [&](std::string_view record) {
        // A bad record counts nothing here: readers report it.
        const Status added = guess.add(record);
        if (!added.ok() && first_bad.ok()) first_bad = added;
      }));
  guess.finish(out);
  if (!out.names.options.empty()) return out;
  return invalid_argument(cat(
      "'", path, "': expected a record with a field, received none",
      first_bad.ok() ? "" : "; a record is damaged: ", first_bad.ok() ? "" : first_bad.message()));
}

}  // namespace leat
