// A connection to an SQLite database that does not change. The source of tables and the guess of
// their columns share it. Private to ops/data.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ops/data/source.h"

struct sqlite3;
struct sqlite3_stmt;

namespace leat {

enum class SqlKind : uint8_t { null, integer, number, text, blob };

// "name" as SQL, with quotes.
std::string sql_name(std::string_view name);

// A connection to the database, with one statement. The file is opened read-only and as one that
// does not change, so it takes no locks and needs no journal beside it. Errors are
// failed_precondition, with the file. Threads: one at a time.
class SqlConnection {
 public:
  static Result<std::unique_ptr<SqlConnection>> open(const SourceFile& place);
  ~SqlConnection();
  SqlConnection(const SqlConnection&) = delete;
  SqlConnection& operator=(const SqlConnection&) = delete;

  // The names of the tables, in their order.
  Result<std::vector<std::string>> tables();
  // The statement replaces the one before.
  Status prepare(const std::string& text);
  void bind(int parameter, int64_t value);
  void bind(int parameter, const std::string& text);
  // Goes to the next row. False behind the last one.
  Result<bool> step();
  void reset();
  // The fields of the statement, and the values of the current row, as SQLite converts them. Views
  // live until the next step or conversion of the value.
  std::vector<std::string> fields() const;
  SqlKind kind(int field) const;
  int64_t integer(int field) const;
  double number(int field) const;
  std::string_view text(int field) const;
  // The bytes of a text or a blob, without a conversion.
  std::string_view bytes(int field) const;

 private:
  explicit SqlConnection(std::string name) : name_(std::move(name)) {}
  Status error(std::string_view what) const;

  const std::string name_;
  sqlite3* database_ = nullptr;
  sqlite3_stmt* statement_ = nullptr;
};

}  // namespace leat
