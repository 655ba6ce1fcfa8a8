// Comma-separated values (RFC 4180) and their relatives. A column of the data set is one field of
// each record, or several fields of one type as a vector.
#include <algorithm>
#include <map>

#include "devices/base/text.h"
#include "ops/data/source_formats.h"
#include "ops/data/sources/field_values.h"
#include "ops/data/sources/text_lines.h"

namespace leat {
namespace {

constexpr SourceOption kCsvColumn[] = {
    {.name = "from", .kind = OptionKind::texts},
    kDtypeOption,
    kCategoriesOption,
    kFillOption,
    kBytesOption,
};
constexpr SourceOption kCsvOptions[] = {
    {.name = "columns", .kind = OptionKind::columns, .of_column = kCsvColumn, .shorthand = "from"},
    {.name = "header", .kind = OptionKind::flag, .initial = "true"},
    {.name = "names", .kind = OptionKind::texts},
    {.name = "delimiter", .kind = OptionKind::text},
    {.name = "missing", .kind = OptionKind::texts},
    kOnBadRecordOption,
};

// The fields that a column is made of.
struct CsvColumn {
  FieldType type;
  std::vector<size_t> fields;      // their positions in a record
  std::vector<std::string> names;  // and their names, for messages
};

class CsvSource final : public RecordSource {
 public:
  static Result<std::unique_ptr<Source>> open(const SourceSetup& setup, char delimiter) {
    auto source = std::make_unique<CsvSource>();
    source->delimiter_ = delimiter;
    source->missing_ = setup.options.texts("missing");
    if (source->missing_.empty()) source->missing_ = {""};
    const bool header = setup.options.flag("header");
    std::vector<std::string> names = setup.options.texts("names");
    if (header) {
      LEAT_ASSIGN_OR_RETURN(names, read_header(setup, delimiter));
    }
    source->fields_ = names.size();
    LEAT_RETURN_IF_ERROR(source->make_columns(setup.options, names));
    RecordFiles::Options options;
    options.most_bytes = kLongestText;
    if (setup.options.text("on_bad_record") == "skip")
      options.keep = [&made = *source](std::span<const std::byte> record) {
        return made.check_record(record);
      };
    auto rule = std::make_shared<CsvRule>(delimiter, header ? names : std::vector<std::string>());
    LEAT_ASSIGN_OR_RETURN(auto records, RecordFiles::open(setup.files, setup.places,
                                                          std::move(rule), std::move(options)));
    source->take(std::move(records));
    return std::unique_ptr<Source>(std::move(source));
  }

  std::vector<std::string> class_names(size_t column) const override {
    return columns_[column].type.category_names();
  }

 private:
  static Result<std::vector<std::string>> read_header(const SourceSetup& setup, char delimiter) {
    const SourceFile& place = setup.places[0];
    const auto fail = [&](const Status& status) {
      return Status(status.code(), cat("'", place.name, "': header: ", status.message()));
    };
    LEAT_ASSIGN_OR_RETURN(auto file, setup.files.open(place.path));
    ForwardReader reader(std::move(file), size_t{1} << 16);
    const CsvRule rule(delimiter, {});
    const auto begin = rule.first(reader);
    if (!begin.ok()) return fail(begin.status());
    const auto found = rule.find(reader, *begin);
    if (!found.ok()) return fail(found.status());
    if (!*found) return fail(invalid_argument("expected the names of the fields, received none"));
    const auto size = static_cast<size_t>((*found)->end - (*found)->begin);
    LEAT_ASSIGN_OR_RETURN(const auto bytes, reader.peek((*found)->begin, size));
    CsvFields fields;
    const Status parsed = fields.parse(text_of(bytes.first(size)), delimiter);
    if (!parsed.ok()) return fail(parsed);
    return std::vector<std::string>(fields.fields().begin(), fields.fields().end());
  }

  Status make_columns(const SourceOptions& options, const std::vector<std::string>& names) {
    std::map<std::string, size_t, std::less<>> positions;
    for (size_t i = 0; i < names.size(); ++i) {
      if (!positions.emplace(names[i], i).second)
        return invalid_argument(
            cat("header: the field ", quoted_field(names[i]), " is there twice"));
    }
    for (const auto& [name, column] : options.columns()) {
      CsvColumn made;
      LEAT_ASSIGN_OR_RETURN(made.type, FieldType::make(column));
      made.names = column.texts("from");
      if (made.names.empty()) made.names = {name};
      for (const std::string& from : made.names) {
        const auto found = positions.find(from);
        if (found == positions.end()) {
          return invalid_argument(cat("column '", name, "': expected a field of the header, ",
                                      quoted_field(join(names, ", ")), ", received '", from, "'",
                                      did_you_mean(from, names)));
        }
        made.fields.push_back(found->second);
      }
      // A column of one field has scalars for rows, unless the job file wrote a list.
      const bool vector = made.fields.size() > 1;
      const auto width = static_cast<int64_t>(made.fields.size());
      info_.columns.push_back({name, made.type.dtype(), vector ? Shape{width} : made.type.shape()});
      columns_.push_back(std::move(made));
    }
    if (!columns_.empty()) return {};
    // Without columns, every field is one, of numbers.
    for (size_t i = 0; i < names.size(); ++i) {
      if (!is_column_name(names[i]))
        return invalid_argument(cat("columns: expected their names and fields, since the field ",
                                    quoted_field(names[i]),
                                    " of the header is no name of a column"));
      info_.columns.push_back({names[i], DType::f32, Shape{}});
      columns_.push_back({FieldType(), {i}, {names[i]}});
    }
    return {};
  }

  Status check_record(std::span<const std::byte> record) const {
    Bytes scratch;
    std::vector<RowPart> parts;
    int64_t all = 0;
    for (const ColumnInfo& column : info_.columns) all += column.row_bytes();
    scratch.resize(static_cast<size_t>(all));
    std::span<std::byte> rest(scratch);
    for (size_t c = 0; c < info_.columns.size(); ++c) {
      const auto size = static_cast<size_t>(info_.columns[c].row_bytes());
      parts.push_back({c, 0, rest.first(size)});
      rest = rest.subspan(size);
    }
    return store(record, parts);
  }

  Status store(std::span<const std::byte> record, std::span<const RowPart> parts) const override {
    CsvFields parsed;
    LEAT_RETURN_IF_ERROR(parsed.parse(text_of(record), delimiter_));
    if (parsed.fields().size() != fields_) {
      return invalid_argument(
          cat("expected ", fields_, " fields, received ", parsed.fields().size()));
    }
    for (const RowPart& part : parts) LEAT_RETURN_IF_ERROR(store_part(parsed.fields(), part));
    return {};
  }

  Status store_part(const std::vector<std::string_view>& fields, const RowPart& part) const {
    const CsvColumn& column = columns_[part.column];
    const int64_t size = column.type.size();
    // A part of bytes may begin within the field.
    Bytes whole(column.type.is_bytes() ? static_cast<size_t>(size) : 0);
    const auto begin = static_cast<size_t>(column.type.is_bytes() ? 0 : part.offset / size);
    const size_t count = column.type.is_bytes() ? 1 : part.out.size() / static_cast<size_t>(size);
    for (size_t i = 0; i < count; ++i) {
      const std::string_view text = fields[column.fields[begin + i]];
      std::byte* at =
          whole.empty() ? part.out.data() + i * static_cast<size_t>(size) : whole.data();
      const bool missing = std::find(missing_.begin(), missing_.end(), text) != missing_.end();
      const Status stored =
          missing ? column.type.store_missing(at) : column.type.store_text(text, at);
      if (!stored.ok()) {
        return invalid_argument(
            cat("field ", quoted_field(column.names[begin + i]), ": ", stored.message()));
      }
    }
    if (!whole.empty()) std::copy_n(whole.begin() + part.offset, part.out.size(), part.out.begin());
    return {};
  }

  char delimiter_ = ',';
  std::vector<std::string> missing_;  // the texts of fields without a value
  size_t fields_ = 0;                 // of a record
  std::vector<CsvColumn> columns_;
};

class CsvFormat final : public SourceFormat {
 public:
  CsvFormat(std::string_view name, char delimiter) : name_(name), delimiter_(delimiter) {}
  std::string_view name() const override { return name_; }
  FilesForm files_form() const override { return FilesForm::patterns; }
  std::span<const SourceOption> options() const override { return kCsvOptions; }

  Status check(const DatasetFiles&, const SourceOptions& options) const override {
    const std::string delimiter = options.text("delimiter");
    const bool one = delimiter.size() == 1 && delimiter[0] >= ' ' && delimiter != "\"";
    if (!delimiter.empty() && !one && delimiter != "tab")
      return invalid_argument(
          cat("delimiter: expected one character, or tab, received ", quoted_field(delimiter)));
    if (options.flag("header") && options.has("names"))
      return invalid_argument("names: expected none beside a header; write header: false");
    if (!options.flag("header") && !options.has("names"))
      return invalid_argument("names: expected the names of the fields, as there is no header");
    for (const auto& [name, column] : options.columns()) {
      const auto type = FieldType::make(column);
      if (!type.ok())
        return invalid_argument(cat("column '", name, "': ", type.status().message()));
      if (type->is_bytes() && column.texts("from").size() > 1)
        return invalid_argument(cat("column '", name, "': from: expected one field for bytes"));
    }
    return {};
  }

  Result<std::unique_ptr<Source>> open(const SourceSetup& setup) const override {
    const std::string delimiter = setup.options.text("delimiter");
    const char c = delimiter.empty() ? delimiter_ : delimiter == "tab" ? '\t' : delimiter[0];
    return CsvSource::open(setup, c);
  }

 private:
  const std::string_view name_;
  const char delimiter_;
};

}  // namespace

const SourceFormat& csv_source() {
  static const CsvFormat format("csv", ',');
  return format;
}
const SourceFormat& tsv_source() {
  static const CsvFormat format("tsv", '\t');
  return format;
}

}  // namespace leat
