// The rows of a table of an SQLite database, in the order of their rowids. The file is opened
// read-only and as one that nobody changes, so it takes no locks and needs no journal beside it.
#include <sqlite3.h>

#include <algorithm>
#include <cstring>
#include <mutex>

#include "devices/base/text.h"
#include "ops/data/source_formats.h"
#include "ops/data/sources/field_values.h"
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

// "name" as SQL, with quotes.
std::string identifier(std::string_view name) {
  std::string out = "\"";
  for (const char c : name) out.append(c == '"' ? 2 : 1, c);
  return out + "\"";
}

// A path as the URI of a database that does not change. Everything but letters, digits and a few
// signs is written as %XX.
std::string uri_of(const std::string& path) {
  constexpr std::string_view kHex = "0123456789ABCDEF", kPlain = "/-_.";
  std::string out = "file:";
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       kPlain.find(c) != std::string_view::npos;
    if (plain) {
      out.push_back(c);
    } else {
      out.append({'%', kHex[byte >> 4], kHex[byte & 15]});
    }
  }
  return out + "?immutable=1";
}

// A connection to the database with the statement that reads rows. Threads: one at a time.
class SqlConnection {
 public:
  static Result<std::unique_ptr<SqlConnection>> open(const SourceFile& place) {
    auto out = std::unique_ptr<SqlConnection>(new SqlConnection(place.name));
    constexpr int kFlags = SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX;
    const int code = sqlite3_open_v2(uri_of(place.path).c_str(), &out->database_, kFlags, nullptr);
    if (code != SQLITE_OK) return out->error("open it");
    // The file may be hostile: its schema runs no functions, and no value is large.
    sqlite3_db_config(out->database_, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
    sqlite3_db_config(out->database_, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
    sqlite3_limit(out->database_, SQLITE_LIMIT_LENGTH, 64 << 20);
    LEAT_RETURN_IF_ERROR(out->prepare("PRAGMA cell_size_check=ON"));
    LEAT_RETURN_IF_ERROR(out->step().status());
    return out;
  }
  ~SqlConnection() {
    sqlite3_finalize(statement_);
    sqlite3_close(database_);
  }
  SqlConnection(const SqlConnection&) = delete;
  SqlConnection& operator=(const SqlConnection&) = delete;

  // The statement replaces the one before.
  Status prepare(const std::string& text) {
    sqlite3_finalize(statement_);
    statement_ = nullptr;
    const int code = sqlite3_prepare_v2(database_, text.c_str(), static_cast<int>(text.size()),
                                        &statement_, nullptr);
    return code == SQLITE_OK ? Status() : error("prepare a statement");
  }
  void bind(int parameter, int64_t value) { sqlite3_bind_int64(statement_, parameter, value); }
  void bind(int parameter, const std::string& text) {
    sqlite3_bind_text(statement_, parameter, text.data(), static_cast<int>(text.size()),
                      SQLITE_TRANSIENT);
  }
  // Goes to the next row. False behind the last one.
  Result<bool> step() {
    const int code = sqlite3_step(statement_);
    if (code == SQLITE_ROW) return true;
    return code == SQLITE_DONE ? Result<bool>(false) : error("read it");
  }
  void reset() { sqlite3_reset(statement_); }
  sqlite3_stmt* statement() const { return statement_; }
  int64_t integer(int field) const { return sqlite3_column_int64(statement_, field); }
  std::string_view text(int field) const {
    const auto* data = reinterpret_cast<const char*>(sqlite3_column_text(statement_, field));
    const int size = sqlite3_column_bytes(statement_, field);
    return data ? std::string_view(data, static_cast<size_t>(size)) : std::string_view();
  }

 private:
  explicit SqlConnection(std::string name) : name_(std::move(name)) {}
  Status error(std::string_view what) const {
    return failed_precondition(cat("'", name_, "': cannot ", what, ": ",
                                   database_ ? sqlite3_errmsg(database_) : "no memory"));
  }

  const std::string name_;
  sqlite3* database_ = nullptr;
  sqlite3_stmt* statement_ = nullptr;
};

// Writes the field of the current row at `at`, as an element of the type.
Status store_field(sqlite3_stmt* row, int field, const FieldType& type, std::byte* at) {
  switch (sqlite3_column_type(row, field)) {
    case SQLITE_INTEGER:
      return type.store_integer_value(sqlite3_column_int64(row, field), at);
    case SQLITE_FLOAT:
      return type.store_number_value(sqlite3_column_double(row, field), at);
    case SQLITE_NULL:
      return type.store_missing(at);
    default:
      break;
  }
  const auto* bytes = static_cast<const char*>(sqlite3_column_blob(row, field));
  const auto size = static_cast<size_t>(sqlite3_column_bytes(row, field));
  return type.store_text(bytes ? std::string_view(bytes, size) : "", at);
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
    LEAT_RETURN_IF_ERROR(connection.prepare(
        "SELECT name FROM sqlite_master WHERE type='table' AND rootpage>0 ORDER BY name"));
    std::vector<std::string> tables;
    for (;;) {
      LEAT_ASSIGN_OR_RETURN(const bool more, connection.step());
      if (!more) break;
      tables.emplace_back(connection.text(0));
    }
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
          return invalid_argument(cat("column '", name, "': expected a column of the table, ",
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
        return invalid_argument(cat("columns: expected their names, since ",
                                    quoted_field(fields_[i]), " is no name of a column"));
      info_.columns.push_back({fields_[i], DType::f32, Shape{}});
      columns_.push_back({FieldType(), {fields_[i]}, {static_cast<int>(i) + 1}, {}});
    }
    return {};
  }

  // Walks over the rowids. The index has every one of them or, of very many, every 2^k-th.
  Status index(SqlConnection& connection, const std::string& table) {
    const std::string from = cat(" FROM ", identifier(table), " ");
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
    for (const std::string& each : fields_) fields.push_back(identifier(each));
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
      const Status stored = store_part(connection.statement(), part);
      if (!stored.ok())
        return Status(stored.code(),
                      cat("column '", info_.columns[part.column].name, "': ", stored.message()));
    }
    return {};
  }

  Status store_part(sqlite3_stmt* row, const RowPart& part) const {
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

  static Status store_blob(sqlite3_stmt* row, int field, const ColumnInfo& info,
                           const RowPart& part) {
    const bool blob = sqlite3_column_type(row, field) == SQLITE_BLOB;
    const auto size = blob ? sqlite3_column_bytes(row, field) : 0;
    if (!blob || size != info.row_bytes()) {
      return invalid_argument(cat("expected a blob of ", info.row_bytes(), " bytes, ", info.dtype,
                                  info.shape, ", received ",
                                  blob ? cat("one of ", size) : std::string("another value")));
    }
    const auto* bytes = static_cast<const std::byte*>(sqlite3_column_blob(row, field));
    std::memcpy(part.out.data(), bytes + part.offset, part.out.size());
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
