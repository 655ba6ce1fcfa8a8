#include "ops/data/sources/sql_connection.h"

#include <sqlite3.h>

#include "devices/base/ascii_text.h"
#include "devices/base/text.h"
#include "ops/data/stores/store_files.h"

namespace leat {
namespace {

// A path as the URI of a database that does not change.
std::string uri_of(const std::string& path) {
  return cat("file:", url_encoded(path, "/"), "?immutable=1");
}

}  // namespace

std::string sql_name(std::string_view name) {
  std::string out = "\"";
  for (const char c : name) out.append(c == '"' ? 2 : 1, c);
  return out + "\"";
}

Result<std::unique_ptr<SqlConnection>> SqlConnection::open(const SourceFile& place) {
  if (is_store_path(place.path)) {
    return unimplemented(
        cat("'", place.name, "': expected a database on a disk: SQLite reads no stores"));
  }
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

SqlConnection::~SqlConnection() {
  sqlite3_finalize(statement_);
  sqlite3_close(database_);
}

Result<std::vector<std::string>> SqlConnection::tables() {
  LEAT_RETURN_IF_ERROR(
      prepare("SELECT name FROM sqlite_master WHERE type='table' AND rootpage>0 ORDER BY name"));
  std::vector<std::string> out;
  for (;;) {
    LEAT_ASSIGN_OR_RETURN(const bool more, step());
    if (!more) return out;
    out.emplace_back(text(0));
  }
}

Status SqlConnection::prepare(const std::string& text) {
  sqlite3_finalize(statement_);
  statement_ = nullptr;
  const int code = sqlite3_prepare_v2(database_, text.c_str(), static_cast<int>(text.size()),
                                      &statement_, nullptr);
  return code == SQLITE_OK ? Status() : error("prepare a statement");
}

void SqlConnection::bind(int parameter, int64_t value) {
  sqlite3_bind_int64(statement_, parameter, value);
}

void SqlConnection::bind(int parameter, const std::string& text) {
  sqlite3_bind_text(statement_, parameter, text.data(), static_cast<int>(text.size()),
                    SQLITE_TRANSIENT);
}

void SqlConnection::reset() { sqlite3_reset(statement_); }

std::vector<std::string> SqlConnection::fields() const {
  std::vector<std::string> out;
  for (int i = 0; i < sqlite3_column_count(statement_); ++i) {
    const char* name = sqlite3_column_name(statement_, i);
    out.emplace_back(name ? name : "");
  }
  return out;
}

SqlKind SqlConnection::kind(int field) const {
  switch (sqlite3_column_type(statement_, field)) {
    case SQLITE_INTEGER:
      return SqlKind::integer;
    case SQLITE_FLOAT:
      return SqlKind::number;
    case SQLITE_NULL:
      return SqlKind::null;
    case SQLITE_BLOB:
      return SqlKind::blob;
    default:
      return SqlKind::text;
  }
}

int64_t SqlConnection::integer(int field) const { return sqlite3_column_int64(statement_, field); }

double SqlConnection::number(int field) const { return sqlite3_column_double(statement_, field); }

std::string_view SqlConnection::bytes(int field) const {
  const auto* data = static_cast<const char*>(sqlite3_column_blob(statement_, field));
  const int size = sqlite3_column_bytes(statement_, field);
  return data ? std::string_view(data, static_cast<size_t>(size)) : std::string_view();
}

Result<bool> SqlConnection::step() {
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  return code == SQLITE_DONE ? Result<bool>(false) : error("read it");
}

std::string_view SqlConnection::text(int field) const {
  const auto* data = reinterpret_cast<const char*>(sqlite3_column_text(statement_, field));
  const int size = sqlite3_column_bytes(statement_, field);
  return data ? std::string_view(data, static_cast<size_t>(size)) : std::string_view();
}

Status SqlConnection::error(std::string_view what) const {
  return failed_precondition(cat("'", name_, "': cannot ", what, ": ",
                                 database_ ? sqlite3_errmsg(database_) : "no memory"));
}

}  // namespace leat
