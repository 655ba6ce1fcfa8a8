#include "daemon/jobs/sqlite.h"

#include <sqlite3.h>

#include "devices/base/text.h"

namespace leat {
namespace {

// The low byte is the primary code; the rest says more, and only the message uses it.
Code code_of(int sqlite_code) {
  switch (sqlite_code & 0xff) {
    case SQLITE_FULL:
    case SQLITE_NOMEM:
      return Code::resource_exhausted;
    case SQLITE_TOOBIG:
      return Code::invalid_argument;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
    case SQLITE_AUTH:
    case SQLITE_CONSTRAINT:
      return Code::failed_precondition;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_IOERR:
    case SQLITE_PROTOCOL:
      return Code::unavailable;
    default:
      return Code::internal;
  }
}

// `database` may be null: there was no memory for it.
Status error_of(sqlite3* database, const std::string& path, int code) {
  // sqlite3_errmsg() speaks of the last call on the handle. Another code has only the general text.
  const bool same = database != nullptr && sqlite3_extended_errcode(database) == code;
  const char* words = same ? sqlite3_errmsg(database) : sqlite3_errstr(code);
  return Status(code_of(code), cat("'", path, "': ", words));
}

}  // namespace

SqliteStatement::SqliteStatement(sqlite3_stmt* statement, std::string path)
    : statement_(statement), path_(std::move(path)) {}

void SqliteStatement::Finalize::operator()(sqlite3_stmt* statement) const {
  sqlite3_finalize(statement);
}

void SqliteDatabase::Close::operator()(sqlite3* database) const { sqlite3_close(database); }

// bind() can be chained because it returns no status: step() reports the first error instead.
void SqliteStatement::note(int code) {
  if (code != SQLITE_OK && bad_ == 0) bad_ = code;
}

SqliteStatement& SqliteStatement::bind(int parameter, int64_t value) {
  note(sqlite3_bind_int64(statement_.get(), parameter, value));
  return *this;
}

// An empty view may have no data, which SQLite would take for NULL.
SqliteStatement& SqliteStatement::bind(int parameter, std::string_view text) {
  const char* data = text.empty() ? "" : text.data();
  note(sqlite3_bind_text64(statement_.get(), parameter, data, text.size(), SQLITE_STATIC,
                           SQLITE_UTF8));
  return *this;
}

SqliteStatement& SqliteStatement::bind_blob(int parameter, std::string_view bytes) {
  const char* data = bytes.empty() ? "" : bytes.data();
  note(sqlite3_bind_blob64(statement_.get(), parameter, data, bytes.size(), SQLITE_STATIC));
  return *this;
}

SqliteStatement& SqliteStatement::bind_null(int parameter) {
  note(sqlite3_bind_null(statement_.get(), parameter));
  return *this;
}

Result<bool> SqliteStatement::step() {
  const int code = bad_ != 0 ? bad_ : sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  // The reset also makes the statement ready for the next values of bind().
  // The message is of the last call: it is taken before the reset.
  const Status status =
      code == SQLITE_DONE ? Status() : error_of(sqlite3_db_handle(statement_.get()), path_, code);
  sqlite3_reset(statement_.get());
  bad_ = 0;
  if (!status.ok()) return status;
  return false;
}

Status SqliteStatement::run() {
  LEAT_ASSIGN_OR_RETURN(const bool row, step());
  return row ? internal_error("a statement of the journal gives rows, expected none") : Status();
}

int64_t SqliteStatement::integer(int column) const {
  return sqlite3_column_int64(statement_.get(), column);
}

std::string_view SqliteStatement::bytes(int column) const {
  const void* data = sqlite3_column_blob(statement_.get(), column);
  // The order of the two calls matters: sqlite3_column_blob() may convert the value, and the size
  // is that of the converted one.
  const int size = sqlite3_column_bytes(statement_.get(), column);
  if (data == nullptr) return {};
  return {static_cast<const char*>(data), static_cast<size_t>(size)};
}

bool SqliteStatement::is_null(int column) const {
  return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL;
}

Result<std::unique_ptr<SqliteDatabase>> SqliteDatabase::open(const std::string& path, bool create) {
  sqlite3* raw = nullptr;
  // No mutex: one thread at a time uses the database. Extended codes, because error() compares them
  // with that of the last call.
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE |
                    (create ? SQLITE_OPEN_CREATE : 0);
  const int code = sqlite3_open_v2(path.c_str(), &raw, flags, nullptr);
  // SQLite gives a handle even when it fails, for the message; the owner must close it.
  std::unique_ptr<SqliteDatabase> database(new SqliteDatabase(path, raw));
  if (code != SQLITE_OK) return error_of(raw, path, code);
  // The file may be damaged or made by an enemy: SQL from its schema cannot change the file behind
  // SQLite's back, nor call functions with side effects.
  sqlite3_db_config(raw, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(raw, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  return database;
}

Status SqliteDatabase::run(const char* sql) {
  const int code = sqlite3_exec(database_.get(), sql, nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? Status() : error_of(database_.get(), path_, code);
}

Result<SqliteStatement> SqliteDatabase::prepare(std::string_view sql) {
  sqlite3_stmt* raw = nullptr;
  const int code =
      sqlite3_prepare_v2(database_.get(), sql.data(), static_cast<int>(sql.size()), &raw, nullptr);
  if (code != SQLITE_OK) return error_of(database_.get(), path_, code);
  return SqliteStatement(raw, path_);
}

Result<std::string> SqliteDatabase::ask(std::string_view sql) {
  LEAT_ASSIGN_OR_RETURN(SqliteStatement statement, prepare(sql));
  LEAT_ASSIGN_OR_RETURN(const bool row, statement.step());
  return row ? std::string(statement.bytes(0)) : std::string();
}

void SqliteDatabase::set_checkpoint_on_close(bool on) {
  sqlite3_db_config(database_.get(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, on ? 0 : 1, nullptr);
}

bool SqliteDatabase::in_transaction() const { return sqlite3_get_autocommit(database_.get()) == 0; }

}  // namespace leat
