// JSON lines: each line is an object, and a column is one of its values, which a path of names with
// dots finds: a number, a string, or nested arrays of the declared shape.
#include <algorithm>
#include <map>
#include <memory>

#include "devices/base/text.h"
#include "ops/data/source_formats.h"
#include "ops/data/sources/field_values.h"
#include "ops/data/sources/json_text.h"
#include "ops/data/sources/text_lines.h"

namespace leat {
namespace {

constexpr SourceOption kJsonColumn[] = {
    {.name = "field", .kind = OptionKind::text},
    {.name = "shape", .kind = OptionKind::integers, .min = 1},
    kDtypeOption,
    kCategoriesOption,
    kFillOption,
    kBytesOption,
};
constexpr SourceOption kJsonOptions[] = {
    {.name = "columns",
     .kind = OptionKind::columns,
     .required = true,
     .of_column = kJsonColumn,
     .shorthand = "field"},
    kOnBadRecordOption,
};

// The declared paths as a tree: a node is a name in an object.
struct JsonPath {
  std::map<std::string, std::unique_ptr<JsonPath>, std::less<>> members;
  std::optional<size_t> column;  // whose value is here
};

struct JsonColumn {
  FieldType type;
  std::string field;
  Shape shape;  // of the arrays
};

// The elements of one column of one record, as they are met.
struct JsonTarget {
  std::span<std::byte> out;  // empty: not wanted
  int64_t offset = 0;        // of `out` in the row
  int64_t written = 0;       // elements
  bool found = false;
};

// Walks over one record.
class JsonRecord {
 public:
  JsonRecord(std::string_view text, const std::vector<JsonColumn>& columns,
             std::vector<JsonTarget>& targets)
      : text_(text), columns_(columns), targets_(targets) {}

  Status read(const JsonPath& root) {
    LEAT_ASSIGN_OR_RETURN(const JsonKind kind, text_.kind());
    if (kind != JsonKind::object)
      return invalid_argument(cat("expected an object, received ", json_kind_name(kind)));
    LEAT_RETURN_IF_ERROR(members(root, 1));
    return text_.end();
  }

 private:
  Status members(const JsonPath& path, int depth) {
    if (depth > kJsonDepth) return text_.wrong(cat("at most ", kJsonDepth, " nested values"));
    return text_.object([&](const std::string& name) {
      const auto found = path.members.find(name);
      return found == path.members.end() ? text_.skip(depth + 1) : value(*found->second, depth + 1);
    });
  }

  Status value(const JsonPath& path, int depth) {
    LEAT_ASSIGN_OR_RETURN(const JsonKind kind, text_.kind());
    // A path that goes on finds nothing in a value that is no object.
    if (!path.column) return kind == JsonKind::object ? members(path, depth) : text_.skip(depth);
    const size_t column = *path.column;
    JsonTarget& target = targets_[column];
    const auto fail = [&](const Status& status) {
      return invalid_argument(
          cat("field ", quoted_field(columns_[column].field), ": ", status.message()));
    };
    if (target.found) return fail(invalid_argument("expected it once, received it twice"));
    target.found = true;
    // A null is a missing value, of any shape.
    if (kind == JsonKind::null) {
      target.found = false;
      return text_.word().status();
    }
    const Status read = target.out.empty() ? text_.skip(depth) : elements(column, 0);
    return read.ok() ? read : fail(read);
  }

  // Reads the array of a dimension, or one element behind the last of them.
  Status elements(size_t index, int dimension) {
    const JsonColumn& column = columns_[index];
    if (dimension == column.shape.rank()) return element(index);
    LEAT_ASSIGN_OR_RETURN(const JsonKind kind, text_.kind());
    const int64_t expected = column.shape[dimension];
    if (kind != JsonKind::array) {
      return invalid_argument(
          cat("expected an array of ", expected, ", received ", json_kind_name(kind)));
    }
    int64_t count = 0;
    LEAT_RETURN_IF_ERROR(text_.array([&]() -> Status {
      if (++count > expected)
        return invalid_argument(cat("expected an array of ", expected, ", received more"));
      return elements(index, dimension + 1);
    }));
    if (count == expected) return {};
    return invalid_argument(cat("expected an array of ", expected, ", received ", count));
  }

  Status element(size_t index) {
    const FieldType& type = columns_[index].type;
    JsonTarget& target = targets_[index];
    const int64_t at = target.written++ * type.size() - target.offset;
    LEAT_ASSIGN_OR_RETURN(const JsonKind kind, text_.kind());
    // An element outside of the wanted part is checked, too.
    Bytes aside(static_cast<size_t>(type.size()));
    const bool inside = at >= 0 && at + type.size() <= static_cast<int64_t>(target.out.size());
    std::byte* to = inside ? target.out.data() + at : aside.data();
    LEAT_RETURN_IF_ERROR(store(type, kind, to));
    if (inside || !type.is_bytes()) return {};
    // A part of bytes begins or ends within the text.
    std::copy_n(aside.begin() + target.offset, target.out.size(), target.out.begin());
    return {};
  }

  Status store(const FieldType& type, JsonKind kind, std::byte* at) {
    const bool text = type.is_bytes() || type.is_category();
    if (kind == JsonKind::string && text) {
      LEAT_ASSIGN_OR_RETURN(const std::string value, text_.string());
      return type.store_text(value, at);
    }
    const bool number = kind == JsonKind::number || kind == JsonKind::boolean;
    if (number && !type.is_bytes()) {
      LEAT_ASSIGN_OR_RETURN(const std::string_view word, text_.word());
      return type.store_text(word, at);
    }
    return invalid_argument(
        cat("expected ", text ? "a string" : "a number", ", received ", json_kind_name(kind)));
  }

  JsonText text_;
  const std::vector<JsonColumn>& columns_;
  std::vector<JsonTarget>& targets_;
};

Result<JsonColumn> json_column(const std::string& name, const SourceOptions& options) {
  JsonColumn column;
  LEAT_ASSIGN_OR_RETURN(column.type, FieldType::make(options));
  LEAT_ASSIGN_OR_RETURN(column.shape, row_shape(options.integers("shape")));
  if (column.type.is_bytes() && column.shape.rank() > 0)
    return invalid_argument("shape: expected none for bytes");
  column.field = options.has("field") ? options.text("field") : name;
  return column;
}

class JsonSource final : public RecordSource {
 public:
  static Result<std::unique_ptr<Source>> open(const SourceSetup& setup) {
    auto source = std::make_unique<JsonSource>();
    for (const auto& [name, options] : setup.options.columns()) {
      LEAT_ASSIGN_OR_RETURN(JsonColumn column, json_column(name, options));
      source->info_.columns.push_back(
          {name, column.type.dtype(), column.type.is_bytes() ? column.type.shape() : column.shape});
      source->add_path(column.field);
      source->columns_.push_back(std::move(column));
    }
    RecordFiles::Options options;
    options.most_bytes = kLongestText;
    if (setup.options.text("on_bad_record") == "skip")
      options.keep = [&made = *source](std::span<const std::byte> record) {
        return made.check_record(record);
      };
    LEAT_ASSIGN_OR_RETURN(auto records,
                          RecordFiles::open(setup.files, setup.places, std::make_shared<LineRule>(),
                                            std::move(options)));
    source->take(std::move(records));
    return std::unique_ptr<Source>(std::move(source));
  }

  std::vector<std::string> class_names(size_t column) const override {
    return columns_[column].type.category_names();
  }

 private:
  void add_path(const std::string& field) {
    JsonPath* at = &root_;
    for (size_t begin = 0; begin <= field.size();) {
      const size_t dot = std::min(field.find('.', begin), field.size());
      auto& next = at->members[field.substr(begin, dot - begin)];
      if (!next) next = std::make_unique<JsonPath>();
      at = next.get();
      begin = dot + 1;
    }
    at->column = columns_.size();
  }

  Status check_record(std::span<const std::byte> record) const {
    std::vector<Bytes> rows;
    std::vector<RowPart> parts;
    for (const ColumnInfo& column : info_.columns)
      rows.emplace_back(static_cast<size_t>(column.row_bytes()));
    for (size_t c = 0; c < rows.size(); ++c) parts.push_back({c, 0, rows[c]});
    return store(record, parts);
  }

  Status store(std::span<const std::byte> record, std::span<const RowPart> parts) const override {
    // Two parts may be of one column: each round takes one part of every column.
    std::vector<RowPart> left(parts.begin(), parts.end());
    while (!left.empty()) {
      std::vector<JsonTarget> targets(columns_.size());
      std::vector<RowPart> later;
      for (const RowPart& part : left) {
        if (targets[part.column].out.empty()) {
          targets[part.column] = {part.out, part.offset};
        } else {
          later.push_back(part);
        }
      }
      LEAT_RETURN_IF_ERROR(JsonRecord(text_of(record), columns_, targets).read(root_));
      LEAT_RETURN_IF_ERROR(fill(targets));
      left = std::move(later);
    }
    return {};
  }

  // Values that the record lacks.
  Status fill(const std::vector<JsonTarget>& targets) const {
    for (size_t c = 0; c < targets.size(); ++c) {
      const JsonTarget& target = targets[c];
      if (target.out.empty() || target.found) continue;
      const FieldType& type = columns_[c].type;
      Bytes one(static_cast<size_t>(type.size()));
      const Status filled = type.store_missing(one.data());
      if (!filled.ok()) {
        return invalid_argument(
            cat("field ", quoted_field(columns_[c].field), ": ", filled.message()));
      }
      for (size_t i = 0; i < target.out.size(); ++i) target.out[i] = one[i % one.size()];
    }
    return {};
  }

  JsonPath root_;
  std::vector<JsonColumn> columns_;
};

class JsonFormat final : public SourceFormat {
 public:
  std::string_view name() const override { return "jsonl"; }
  FilesForm files_form() const override { return FilesForm::patterns; }
  std::span<const SourceOption> options() const override { return kJsonOptions; }

  Status check(const DatasetFiles&, const SourceOptions& options) const override {
    std::vector<std::string> fields;
    for (const auto& [name, column] : options.columns()) {
      const auto made = json_column(name, column);
      if (!made.ok())
        return invalid_argument(cat("column '", name, "': ", made.status().message()));
      // One value cannot be two columns, or a column and an object with others.
      for (const std::string& other : fields) {
        if (made->field != other && !made->field.starts_with(other + ".") &&
            !other.starts_with(made->field + "."))
          continue;
        return invalid_argument(cat("column '", name,
                                    "': field: expected one that no other column ",
                                    "reads, received ", quoted_field(made->field)));
      }
      fields.push_back(made->field);
    }
    return {};
  }

  Result<std::unique_ptr<Source>> open(const SourceSetup& setup) const override {
    return JsonSource::open(setup);
  }
};

}  // namespace

const SourceFormat& jsonl_source() {
  static const JsonFormat format;
  return format;
}

}  // namespace leat
