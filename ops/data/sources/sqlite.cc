// The rows of a table of an SQLite database, in the order of their rowids. The file is opened
// read-only and as one that does not change, so it takes no locks and needs no journal beside it.
#include <sqlite3.h>

#include <algorithm>
#include <cstring>
#include <mutex>

#include "devices/base/text.h"
#include "ops/data/source_formats.h"
#include "ops/data/sources/field_values.h"
#include "ops/data/sources/sql_connection.h"
#include "ops/formats/elements.h"

namespace leat {
namespace {

constexpr SourceOption kSqliteColumn[] = {
    {.name = "from", .kind = OptionKind::texts},
    {.name = "shape", .kind = OptionKind::integers, .min = 1},
    kDtypeOption,
    kCategoriesOption,
    kFillOption,
    kBytesOption,
};
constexpr SourceOption kSqliteOptions[] = {
    {.name = "table", .kind = OptionKind::text, .required = true},
    {.name = "columns",
     .kind = OptionKind::columns,
     .of_column = kSqliteColumn,
     .shorthand = "from"},
};

struct SqlColumn {
  FieldType type;
  std::vector<std::string> names;  // of the table's columns
  std::vector<int> fields;         // their positions in the statement
  std::optional<Shape> blob;       // of elements, if the column is a blob of them
};

// Writes the field of the current row at `at`, as an element of the type.
Status store_field(const SqlConnection& row, int field, const FieldType& type, std::byte* at) {
  switch (row.kind(field)) {
    case SqlKind::integer:
      return type.store_integer_value(row.integer(field), at);
    case SqlKind::number:
      return type.store_number_value(row.number(field), at);
    case SqlKind::null:
      return type.store_missing(at);
    case SqlKind::text:
    case SqlKind::blob:
      break;
  }
  return type.store_text(row.bytes(field), at);
}

class SqliteSource final : public Source {
 public:
  static Result<std::unique_ptr<Source>> open(const SourceSetup& setup) {
    auto source = std::make_unique<SqliteSource>();
    source->place_ = setup.places[0];
    // SQLite opens the file itself, after this has seen that it is a regular one.
    LEAT_RETURN_IF_ERROR(setup.files.open(source->place_.path).status());
    LEAT_ASSIGN_OR_RETURN(auto connection, SqlConnection::open(source->place_));
    const std::string table = setup.options.text("table");
    LEAT_RETURN_IF_ERROR(source->find_table(*connection, table));
    LEAT_RETURN_IF_ERROR(source->make_columns(setup.options));
    LEAT_RETURN_IF_ERROR(source->index(*connection, table));
    return std::unique_ptr<Source>(std::move(source));
  }

  uint64_t memory(const std::vector<bool>&) const override { return 8 * places_.size(); }
  std::vector<std::string> class_names(size_t column) const override {
    return columns_[column].type.category_names();
  }
  std::string row_name(int64_t row) const override {
    return cat("'", place_.name, "': row ", row + 1);
  }

  Status read(int64_t row, std::span<const RowPart> parts) const override {
    LEAT_ASSIGN_OR_RETURN(auto connection, borrow());
    const Status status = read_with(*connection, row, parts);
    connection->reset();
    if (!status.ok()) return Status(status.code(), cat(row_name(row), ": ", status.message()));
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(connection));
    return {};
  }

 private:
  // Learns the columns of the table, and a name for its rowid that none of them has.
  Status find_table(SqlConnection& connection, const std::string& table) {
    LEAT_ASSIGN_OR_RETURN(const std::vector<std::string> tables, connection.tables());
    if (std::find(tables.begin(), tables.end(), table) == tables.end()) {
      return invalid_argument(cat("table: expected a table of '", place_.name, "', ",
                                  quoted_field(join(tables, ", ")), ", received '", table, "'",
                                  did_you_mean(table, tables)));
    }
    LEAT_RETURN_IF_ERROR(connection.prepare("SELECT name FROM pragma_table_info(?1)"));
    connection.bind(1, table);
    for (;;) {
      LEAT_ASSIGN_OR_RETURN(const bool more, connection.step());
      if (!more) break;
      fields_.emplace_back(connection.text(0));
    }
    for (const char* each : {"rowid", "_rowid_", "oid"}) {
      const auto same = [&](const std::string& field) {
        return sqlite3_stricmp(field.c_str(), each) == 0;
      };
      if (std::none_of(fields_.begin(), fields_.end(), same)) rowid_ = each;
    }
    if (!rowid_.empty()) return {};
    return invalid_argument(
        cat("table: expected one whose rowid has a name, received '", table, "'"));
  }

  Status make_columns(const SourceOptions& options) {
    for (const auto& [name, column] : options.columns()) {
      SqlColumn made;
      LEAT_ASSIGN_OR_RETURN(made.type, FieldType::make(column));
      made.names = column.texts("from");
      if (made.names.empty()) made.names = {name};
      for (const std::string& from : made.names) {
        const auto found = std::find(fields_.begin(), fields_.end(), from);
        if (found == fields_.end()) {
          return invalid_argument(cat("'", place_.name, "': column '", name,
                                      "': expected a column of the table, ",
                                      quoted_field(join(fields_, ", ")), ", received '", from, "'",
                                      did_you_mean(from, fields_)));
        }
        // The rowid is field 0 of the statement.
        made.fields.push_back(static_cast<int>(found - fields_.begin()) + 1);
      }
      const auto width = static_cast<int64_t>(made.fields.size());
      Shape shape = width > 1 ? Shape{width} : made.type.shape();
      if (column.has("shape")) {
        LEAT_ASSIGN_OR_RETURN(shape, row_shape(column.integers("shape")));
        made.blob = shape;
      }
      info_.columns.push_back({name, made.type.dtype(), shape});
      columns_.push_back(std::move(made));
    }
    if (!columns_.empty()) return {};
    // Without columns, every one of the table is one, of numbers.
    for (size_t i = 0; i < fields_.size(); ++i) {
      if (!is_column_name(fields_[i]))
        return invalid_argument(cat("'", place_.name, "': columns: expected their names, since ",
                                    quoted_field(fields_[i]), " is no name of a column"));
      info_.columns.push_back({fields_[i], DType::f32, Shape{}});
      columns_.push_back({FieldType(), {fields_[i]}, {static_cast<int>(i) + 1}, {}});
    }
    return {};
  }

  // Walks over the rowids. The index has every one of them or, of very many, every 2^k-th.
  Status index(SqlConnection& connection, const std::string& table) {
    const std::string from = cat(" FROM ", sql_name(table), " ");
    LEAT_RETURN_IF_ERROR(connection.prepare(cat("SELECT ", rowid_, from, "ORDER BY ", rowid_)));
    std::optional<int64_t> last;
    for (;; ++info_.count) {
      LEAT_ASSIGN_OR_RETURN(const bool more, connection.step());
      if (!more) break;
      const int64_t rowid = connection.integer(0);
      // A damaged file may lead in circles.
      if (last && rowid <= *last) {
        return invalid_argument(cat(row_name(info_.count), ": expected a rowid above ", *last,
                                    ", received ", rowid, ": the file is damaged"));
      }
      last = rowid;
      add_place(rowid);
    }
    if (info_.count == 0)
      return invalid_argument(
          cat("'", place_.name, "': expected at least one row in '", table, "', received none"));
    std::vector<std::string> fields{rowid_};
    for (const std::string& each : fields_) fields.push_back(sql_name(each));
    statement_ =
        cat("SELECT ", join(fields, ", "), from, "WHERE ", rowid_, ">=?1 ORDER BY ", rowid_);
    return {};
  }

  void add_place(int64_t rowid) {
    constexpr size_t kMostPlaces = size_t{1} << 22;
    const auto in_index = [&] { return (info_.count & ((int64_t{1} << shift_) - 1)) == 0; };
    if (!in_index()) return;
    if (places_.size() == kMostPlaces) {
      for (size_t i = 0; 2 * i < places_.size(); ++i) places_[i] = places_[2 * i];
      places_.resize((places_.size() + 1) / 2);
      ++shift_;
      if (!in_index()) return;
    }
    places_.push_back(rowid);
  }

  // A connection that no other thread uses.
  Result<std::unique_ptr<SqlConnection>> borrow() const {
    {
      const std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        auto out = std::move(idle_.back());
        idle_.pop_back();
        return out;
      }
    }
    LEAT_ASSIGN_OR_RETURN(auto out, SqlConnection::open(place_));
    LEAT_RETURN_IF_ERROR(out->prepare(statement_));
    return out;
  }

  Status read_with(SqlConnection& connection, int64_t row, std::span<const RowPart> parts) const {
    const auto place = static_cast<size_t>(row >> shift_);
    connection.bind(1, places_[place]);
    for (int64_t left = row - (static_cast<int64_t>(place) << shift_); left >= 0; --left) {
      LEAT_ASSIGN_OR_RETURN(const bool more, connection.step());
      const bool same = shift_ > 0 || (more && connection.integer(0) == places_[place]);
      if (!more || !same)
        return failed_precondition("expected a row as before, the file has changed");
    }
    for (const RowPart& part : parts) {
      const Status stored = store_part(connection, part);
      if (!stored.ok())
        return Status(stored.code(),
                      cat("column '", info_.columns[part.column].name, "': ", stored.message()));
    }
    return {};
  }

  Status store_part(const SqlConnection& row, const RowPart& part) const {
    const SqlColumn& column = columns_[part.column];
    const ColumnInfo& info = info_.columns[part.column];
    if (column.blob) return store_blob(row, column.fields[0], info, part);
    if (column.type.is_bytes()) {
      Bytes whole(static_cast<size_t>(column.type.size()));
      LEAT_RETURN_IF_ERROR(store_field(row, column.fields[0], column.type, whole.data()));
      std::copy_n(whole.begin() + part.offset, part.out.size(), part.out.begin());
      return {};
    }
    const auto size = static_cast<size_t>(column.type.size());
    const auto begin = static_cast<size_t>(part.offset) / size;
    for (size_t i = 0; i < part.out.size() / size; ++i) {
      LEAT_RETURN_IF_ERROR(
          store_field(row, column.fields[begin + i], column.type, part.out.data() + i * size));
    }
    return {};
  }

  static Status store_blob(const SqlConnection& row, int field, const ColumnInfo& info,
                           const RowPart& part) {
    const bool blob = row.kind(field) == SqlKind::blob;
    const std::string_view bytes = blob ? row.bytes(field) : "";
    if (!blob || static_cast<int64_t>(bytes.size()) != info.row_bytes()) {
      return invalid_argument(
          cat("expected a blob of ", info.row_bytes(), " bytes, ", info.dtype, info.shape,
              ", received ", blob ? cat("one of ", bytes.size()) : std::string("another value")));
    }
    std::memcpy(part.out.data(), bytes.data() + part.offset, part.out.size());
    return check_booleans(info.dtype, part.out, "the blob", static_cast<uint64_t>(part.offset));
  }

  SourceFile place_;
  std::string rowid_;                // the name of the rowid in SQL
  std::vector<std::string> fields_;  // the columns of the table
  std::vector<SqlColumn> columns_;
  std::string statement_;
  std::vector<int64_t> places_;  // the rowids of rows 0, 2^shift, 2 * 2^shift ...
  int shift_ = 0;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<SqlConnection>> idle_;
};

class SqliteFormat final : public SourceFormat {
 public:
  std::string_view name() const override { return "sqlite"; }
  FilesForm files_form() const override { return FilesForm::one; }
  std::span<const SourceOption> options() const override { return kSqliteOptions; }

  Status check(const DatasetFiles&, const SourceOptions& options) const override {
    for (const auto& [name, column] : options.columns()) {
      const Status fits = check_column(column);
      if (!fits.ok()) return invalid_argument(cat("column '", name, "': ", fits.message()));
    }
    return {};
  }

  Result<std::unique_ptr<Source>> open(const SourceSetup& setup) const override {
    return SqliteSource::open(setup);
  }

 private:
  static Status check_column(const SourceOptions& column) {
    LEAT_ASSIGN_OR_RETURN(const FieldType type, FieldType::make(column));
    const bool many = column.texts("from").size() > 1;
    if (type.is_bytes() && many) return invalid_argument("from: expected one column for bytes");
    if (!column.has("shape")) return {};
    LEAT_RETURN_IF_ERROR(row_shape(column.integers("shape")).status());
    if (!many && !type.is_bytes() && !type.is_category() && !column.has("fill")) return {};
    return invalid_argument(
        "shape: expected one column of blobs, without categories, fill and bytes");
  }
};

}  // namespace

const SourceFormat& sqlite_source() {
  static const SqliteFormat format;
  return format;
}

}  // namespace leat
