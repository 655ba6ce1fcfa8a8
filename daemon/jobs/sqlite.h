// SQLite as values and errors: as much of it as the journal needs.
//
// Threads: one at a time, a statement as its database.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "devices/base/status.h"

struct sqlite3;
struct sqlite3_stmt;

namespace leat {

// A prepared statement. Parameters count from 1, columns from 0. Values that were passed to bind()
// must live until step() has returned false or an error. SqliteDatabase::prepare() makes it; it
// ends before its database. Errors are those of the database.
class SqliteStatement {
 public:
  // Owns `statement`. `path` is the file of its database, for errors.
  SqliteStatement(sqlite3_stmt* statement, std::string path);

  SqliteStatement& bind(int parameter, int64_t value);
  SqliteStatement& bind(int parameter, std::string_view text);
  SqliteStatement& bind_blob(int parameter, std::string_view bytes);
  SqliteStatement& bind_null(int parameter);

  // Returns true if there is a row; false at the end, when the statement may be bound again.
  Result<bool> step();
  // Runs a statement that returns no rows.
  Status run();

  int64_t integer(int column) const;
  // The bytes of a text or a blob; valid until the next step().
  std::string_view bytes(int column) const;
  bool is_null(int column) const;

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  void note(int code);

  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
  std::string path_;
  int bad_ = 0;  // the first error of a bind()
};

// Errors name the file. resource_exhausted: no room, on the disk or in the file's limit;
// invalid_argument: a row has more bytes than SQLite takes (1 GB), whatever room there is;
// failed_precondition: the file is damaged, foreign or forbidden; unavailable: the disk fails, or
// another process has the file locked.
class SqliteDatabase {
 public:
  // The file must be there already unless `create`.
  static Result<std::unique_ptr<SqliteDatabase>> open(const std::string& path, bool create);

  // Runs statements whose results do not matter, separated by ';'.
  Status run(const char* sql);
  Result<SqliteStatement> prepare(std::string_view sql);
  // Returns the first column of the first row, as text. For pragmas.
  Result<std::string> ask(std::string_view sql);
  // Sets whether the destructor moves the write-ahead log into the file. Default: it does.
  void set_checkpoint_on_close(bool on);
  bool in_transaction() const;

 private:
  struct Close {
    void operator()(sqlite3* database) const;
  };
  SqliteDatabase(std::string path, sqlite3* database)
      : path_(std::move(path)), database_(database) {}

  std::string path_;
  std::unique_ptr<sqlite3, Close> database_;
};

}  // namespace leat
