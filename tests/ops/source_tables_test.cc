// Columns of safetensors files and of SQLite tables.
#include <sqlite3.h>
#include <sys/stat.h>

#include <thread>

#include "devices/base/text.h"
#include "ops/formats/safetensors.h"
#include "tests/ops/source_testing.h"

namespace leat {
namespace {

using Floats = std::vector<float>;

TEST_CASE("tensors of safetensors files are columns") {
  const SourceFolder folder;
  const auto write = [&](const std::string& name, std::map<std::string, Tensor> tensors) {
    must(write_safetensors(real_files(), folder.directory / name, {std::move(tensors), {}}));
  };
  write("a.safetensors", {{"x", Tensor::of<float>({2, 2}, {1, 2, 3, 4})},
                          {"y", Tensor::of<int64_t>({2}, {5, 6})},
                          {"scale", Tensor::scalar<float>(1)}});
  write("b.safetensors",
        {{"x", Tensor::of<float>({1, 2}, {7, 8})}, {"y", Tensor::of<int64_t>({1}, {9})}});
  const auto data =
      must(Dataset::open(real_files(), folder.names("safetensors", {"*.safetensors"})));
  REQUIRE(data->info().count == 3);
  CHECK(data->info().columns[0] == ColumnInfo{"x", DType::f32, Shape{2}});
  CHECK(row_values<float>(*data, 0, 1) == Floats{3, 4});
  CHECK(row_values<float>(*data, 0, 2) == Floats{7, 8});
  CHECK(row_values<int64_t>(*data, 1, 2)[0] == 9);
  check_any_order(*data);

  write("c.safetensors", {{"x", Tensor::of<float>({1, 3}, {7, 8, 9})}});
  CHECK(refusal(folder.names("safetensors", {"a.safetensors", "c.safetensors"})) ==
        "'c.safetensors': expected the columns of 'a.safetensors', received others");
  write("d.safetensors",
        {{"x", Tensor::of<float>({2}, {7, 8})}, {"y", Tensor::of<float>({1}, {9})}});
  CHECK(refusal(folder.names("safetensors", {"d.safetensors"})) ==
        "'d.safetensors': expected 2 rows in 'y', as 'x' has, received 1");
  write("e.safetensors", {{"s", Tensor::scalar<float>(1)}});
  CHECK(refusal(folder.names("safetensors", {"e.safetensors"})) ==
        "'e.safetensors': expected tensors with rows, found none");
  folder.write("f.safetensors", "\xff\xff\xff\xff\xff\xff\xff\x7f{}");
  CHECK(refusal(folder.names("safetensors", {"f.safetensors"})).find("f.safetensors") !=
        std::string::npos);
  std::filesystem::resize_file(folder.directory / "b.safetensors", 20);
  CHECK_FALSE(row_error(*data, 0, 2).empty());
}

// Makes a database by SQL.
void make_database(const std::string& path, const std::string& sql) {
  sqlite3* database = nullptr;
  REQUIRE(sqlite3_open(path.c_str(), &database) == SQLITE_OK);
  const int code = sqlite3_exec(database, sql.c_str(), nullptr, nullptr, nullptr);
  INFO(sqlite3_errmsg(database));
  REQUIRE(code == SQLITE_OK);
  sqlite3_close(database);
}

TEST_CASE("the rows of an SQLite table are read in any order") {
  const SourceFolder folder;
  make_database(folder.directory / "a b?.db",
                "CREATE TABLE \"my \"\"flowers\"(rowid TEXT, a REAL, b INTEGER, kind TEXT, v BLOB);"
                "INSERT INTO \"my \"\"flowers\" VALUES('r', 0.5, 2, 'rose', x'0100feff');"
                "INSERT INTO \"my \"\"flowers\" VALUES('s', -1, 3, 'tulip', x'02000300');"
                "INSERT INTO \"my \"\"flowers\" VALUES('t', 7, NULL, 'rose', x'00000000');"
                "DELETE FROM \"my \"\"flowers\" WHERE kind='tulip';"
                "INSERT INTO \"my \"\"flowers\"(_rowid_,a,b,kind,v) VALUES(-5, 1, 1, 'tulip', "
                "x'05000600');"
                "INSERT INTO \"my \"\"flowers\"(_rowid_,a,b,kind,v) VALUES(900, 'x', 1, 'daisy', "
                "x'05');");
  const DatasetFiles names =
      folder.names("sqlite", {"a b?.db"},
                   {"table=my \"flowers", "columns:x=", "columns:x:from=a", "columns:x:from=b",
                    "columns:x:fill=0.25", "columns:labels=", "columns:labels:from=kind",
                    "columns:labels:categories=rose", "columns:labels:categories=tulip",
                    "columns:v=", "columns:v:shape=2", "columns:v:dtype=int16",
                    "columns:name=", "columns:name:from=kind", "columns:name:bytes=3"});
  const auto data = must(Dataset::open(real_files(), names));
  REQUIRE(data->info().count == 4);
  CHECK(data->info().columns[0] == ColumnInfo{"x", DType::f32, Shape{2}});
  CHECK(data->info().columns[2] == ColumnInfo{"v", DType::i16, Shape{2}});
  CHECK(data->class_names(1) == std::vector<std::string>{"rose", "tulip"});
  CHECK(row_values<float>(*data, 0, 0) == Floats{1, 1});
  CHECK(row_values<float>(*data, 0, 1) == Floats{0.5f, 2});
  CHECK(row_values<float>(*data, 0, 2) == Floats{7, 0.25f});
  CHECK(row_values<int64_t>(*data, 1, 0)[0] == 1);
  CHECK(row_values<int16_t>(*data, 2, 1) == std::vector<int16_t>{1, -2});
  CHECK(row_values<uint8_t>(*data, 3, 2) == std::vector<uint8_t>{'r', 'o', 's'});
  CHECK(row_error(*data, 0, 3) ==
        "'a b?.db': row 4: column 'x': expected a value of type float32, received 'x'");
  CHECK(row_error(*data, 1, 3).find("expected one of its 2 categories, received 'daisy'") !=
        std::string::npos);
  CHECK(row_error(*data, 2, 3) ==
        "'a b?.db': row 4: column 'v': expected a blob of 4 bytes, int16[2], received one of 1");
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        float x[2];
        if (!data->read(0, i % 3, std::as_writable_bytes(std::span(x))).ok()) std::abort();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_CASE("databases that are none, or lack the table, are refused") {
  const SourceFolder folder;
  std::string sql =
      "CREATE TABLE t(a REAL, b REAL); CREATE TABLE none(a); CREATE VIEW w AS SELECT "
      "1 AS a; CREATE TABLE k(a PRIMARY KEY) WITHOUT ROWID; BEGIN;";
  for (int i = 0; i < 500; ++i) sql += cat("INSERT INTO t VALUES(", i, ",", 2 * i, ");");
  make_database(folder.directory / "t.db", sql + "COMMIT;");
  const auto refused = [&](const std::string& file, std::vector<std::string> options) {
    return refusal(folder.names("sqlite", {file}, options));
  };
  CHECK(refused("t.db", {"table=t"}) == "");
  CHECK(refused("t.db", {"table=w"}).find("table: expected a table of 't.db', 'k, none, t'") == 0);
  CHECK(refused("t.db", {"table=none"}) ==
        "'t.db': expected at least one row in 'none', received none");
  CHECK(refused("t.db", {"table=k"}).find("'t.db': cannot prepare a statement") == 0);
  CHECK(refused("t.db", {"table=t", "columns:other="}) ==
        "'t.db': column 'other': expected a column of the table, 'a, b', received 'other'");
  CHECK(refused("t.db", {}) == "table: missing, expected a value");
  folder.write("text.db", "this is no database, however long the text may be; ");
  CHECK(refused("text.db", {"table=t"}) ==
        "'text.db': cannot prepare a statement: file is not a database");
  REQUIRE(::mkfifo((folder.directory / "pipe").c_str(), 0600) == 0);
  CHECK(refused("pipe", {"table=t"}).find("expected a regular file") != std::string::npos);
  // Damage in its middle, and a file that was cut, are errors of the rows there.
  auto bytes = must(read_file(real_files(), folder.directory / "t.db", 1 << 20));
  const auto whole =
      must(Dataset::open(real_files(), folder.names("sqlite", {"t.db"}, {"table=t"})));
  CHECK(row_values<float>(*whole, 1, 499) == Floats{998});
  check_any_order(*whole);
  for (size_t at = 4096; at < bytes.size(); at += 512) bytes[at] = std::byte{0xff};
  must(write_file_atomically(real_files(), folder.directory / "bad.db", bytes));
  CHECK(refused("bad.db", {"table=t"}).find("'bad.db'") == 0);
  std::filesystem::resize_file(folder.directory / "t.db", 8192);
  const auto cut = Dataset::open(real_files(), folder.names("sqlite", {"t.db"}, {"table=t"}));
  CHECK_FALSE(cut.ok());
}

}  // namespace
}  // namespace leat
