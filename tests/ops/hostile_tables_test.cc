// Tables that a stranger made: SQLite and safetensors files with random changes, and with sizes
// beyond all bounds. Each is read whole, or refused with one message that names the file.
#include <sqlite3.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "devices/base/text.h"
#include "devices/base/utf8.h"
#include "ops/data/guess.h"
#include "ops/formats/safetensors.h"
#include "tests/ops/source_testing.h"
#include "tests/sample_files.h"

namespace leat {
namespace {

// Reads the data set whole. Empty: every row is good.
std::string whole_error(const DatasetFiles& names) {
  const auto data = Dataset::open(real_files(), names);
  if (!data.ok()) return data.status().message();
  std::vector<Bytes> rows;
  std::vector<std::byte*> outs;
  for (const ColumnInfo& column : (*data)->info().columns)
    rows.emplace_back(static_cast<size_t>(column.row_bytes()));
  for (Bytes& row : rows) outs.push_back(row.data());
  for (int64_t row = 0; row < (*data)->info().count; ++row) {
    const Status read = (*data)->read_row(row, outs);
    if (!read.ok()) return read.message();
  }
  return "";
}

// Changes some bytes in a part of the file, or cuts it.
std::string changed(std::string bytes, std::mt19937& random) {
  if (random() % 8 == 0) return bytes.substr(0, random() % bytes.size());
  const size_t page = random() % 3 == 0 ? std::min<size_t>(100, bytes.size()) : bytes.size();
  for (size_t i = 0, count = 1 + random() % 6; i < count; ++i) {
    const size_t at = random() % page;
    const char values[] = {'\0', '\x7f', '\x80', '\xff', static_cast<char>(random() % 256)};
    bytes[at] = values[random() % 5];
  }
  return bytes;
}

void check_changes(const SourceFolder& folder, const DatasetFiles& names, const std::string& file,
                   const std::string& good, int least_refused) {
  constexpr int kChanges = 3000;
  std::mt19937 random(20'261'127);
  int refused = 0;
  for (int i = 0; i < kChanges; ++i) {
    // Not written atomically: a sync for each change would take a minute.
    std::ofstream(folder.directory / file, std::ios::binary) << changed(good, random);
    const std::string error = whole_error(names);
    if (error.empty()) continue;
    ++refused;
    if (is_utf8(error) && error.find(file) != std::string::npos) continue;
    FAIL("change " << i << ": expected the file in '" << printable(error) << "'");
  }
  CHECK(refused >= least_refused);
}

TEST_CASE("a database with changed bytes is read, or refused by its name") {
  const SourceFolder folder;
  sqlite3* database = nullptr;
  REQUIRE(sqlite3_open((folder.directory / "good.db").c_str(), &database) == SQLITE_OK);
  std::string sql = "PRAGMA page_size=512; CREATE TABLE t(a INTEGER, b REAL, c TEXT); BEGIN;";
  for (int i = 0; i < 200; ++i)
    sql += cat("INSERT INTO t VALUES(", i, ", ", i, ".5, 'text ", i, "');");
  REQUIRE(sqlite3_exec(database, (sql + "COMMIT;").c_str(), nullptr, nullptr, nullptr) ==
          SQLITE_OK);
  sqlite3_close(database);
  const std::string good =
      text_of_bytes(must(read_file(real_files(), folder.directory / "good.db", 1 << 20)));
  const DatasetFiles names =
      folder.names("sqlite", {"bad.db"},
                   {"table=t", "columns:a=", "columns:b=", "columns:c=", "columns:c:bytes=8"});
  folder.write("bad.db", good);
  REQUIRE(whole_error(names).empty());
  check_changes(folder, names, "bad.db", good, 300);
}

TEST_CASE("a database whose schema is code runs none of it") {
  const SourceFolder folder;
  sqlite3* database = nullptr;
  REQUIRE(sqlite3_open((folder.directory / "code.db").c_str(), &database) == SQLITE_OK);
  // A view in place of the table, and a column that is computed by a function with effects.
  REQUIRE(sqlite3_exec(database,
                       "CREATE TABLE real(a); INSERT INTO real VALUES(1);"
                       "CREATE VIEW t AS SELECT load_extension('/tmp/evil') AS a;"
                       "CREATE TABLE g(a, b AS (a + 1)); INSERT INTO g(a) VALUES(1);",
                       nullptr, nullptr, nullptr) == SQLITE_OK);
  sqlite3_close(database);
  CHECK(whole_error(folder.names("sqlite", {"code.db"}, {"table=t"}))
            .find("expected a table of 'code.db'") != std::string::npos);
  CHECK(whole_error(folder.names("sqlite", {"code.db"}, {"table=real"})).empty());
}

TEST_CASE("a safetensors file with changed bytes is read, or refused by its name") {
  const SourceFolder folder;
  Tensor flags(DType::boolean, Shape{40}), x(DType::f32, Shape{40, 3}), y(DType::i64, Shape{40});
  const Bytes bytes = must(format_safetensors({{{"flags", flags}, {"x", x}, {"y", y}}, {}}));
  const std::string good = text_of_bytes(bytes);
  const DatasetFiles names = folder.names("safetensors", {"bad.safetensors"});
  folder.write("bad.safetensors", good);
  REQUIRE(whole_error(names).empty());
  check_changes(folder, names, "bad.safetensors", good, 300);
}

TEST_CASE("files with changed bytes give a guess that can be opened, or one error") {
  const SourceFolder folder;
  const std::string image = png_of(3, 2, [](uint32_t, uint32_t, int) { return uint8_t{7}; });
  const std::vector<std::pair<std::string, std::string>> files = {
      {"a.csv", "age,name,ok\n1,\"a, b\",true\n2.5,c,false\n,d,true\n"},
      {"a.jsonl",
       "{\"x\": [[1, 2], [3, 4]], \"s\": \"t\", \"o\": {\"k\": true}}\n{\"x\": [[1, "
       "2], [3, 4]], \"s\": null, \"o\": {\"k\": false}}\n"},
      {"a.tar", tar_of({{"1.png", image}, {"1.cls", "3"}, {"2.png", image}, {"2.cls", "1"}})},
      {"a.tfrecord",
       tfrecord_of(
           {example_of({feature_of("i", texts_of({image})), feature_of("n", integers_of({1}))}),
            example_of({feature_of("i", texts_of({image})), feature_of("n", integers_of({2}))})})},
  };
  std::mt19937 random(11);
  for (const auto& [file, good] : files) {
    int opened = 0;
    for (int i = 0; i < 1000; ++i) {
      std::ofstream(folder.directory / file, std::ios::binary) << changed(good, random);
      const auto guess = guess_dataset(real_files(), folder.directory / file, 100);
      const std::string error = guess.ok() ? whole_error(guess->names) : guess.status().message();
      if (guess.ok()) ++opened;
      if (is_utf8(error)) continue;
      FAIL(file << ", change " << i << ": no UTF-8: " << printable(error));
    }
    INFO(file);
    CHECK(opened > 0);
  }
}

TEST_CASE("safetensors of sizes beyond all bounds are refused before memory is taken") {
  const SourceFolder folder;
  const auto error_of = [&](const std::string& header, uint64_t size) {
    std::string text(reinterpret_cast<const char*>(&size), sizeof size);
    folder.write("big.safetensors", text + header + std::string(64, '\0'));
    return whole_error(folder.names("safetensors", {"big.safetensors"}));
  };
  for (const char* shape : {"[4611686018427387904]", "[4611686018427387904,4]",
                            "[9999999999999999999]", "[-1]", "[1048576,1048576,1048576]"}) {
    const std::string header =
        cat(R"({"x":{"dtype":"F32","shape":)", shape, R"(,"data_offsets":[0,64]}})");
    INFO(shape);
    CHECK(error_of(header, header.size()).find("big.safetensors") != std::string::npos);
  }
  const std::string offsets =
      R"({"x":{"dtype":"F32","shape":[16],"data_offsets":[18446744073709551552,18446744073709551615]}})";
  CHECK(!error_of(offsets, offsets.size()).empty());
  for (const uint64_t size : {uint64_t{1} << 62, UINT64_MAX, uint64_t{99'999'999}})
    CHECK(error_of("{}", size).find("expected a header of") != std::string::npos);
}

TEST_CASE("a pipe, a folder and a link out of the root are no tables") {
  const SourceFolder folder;
  for (const char* name : {"pipe.db", "pipe.safetensors"})
    REQUIRE(::mkfifo((folder.directory / name).c_str(), 0600) == 0);
  std::filesystem::create_directory(folder.directory / "dir.db");
  std::filesystem::create_symlink("/etc/passwd", folder.directory / "link.db");
  CHECK(whole_error(folder.names("sqlite", {"pipe.db"}, {"table=t"})).find("pipe.db") !=
        std::string::npos);
  CHECK(whole_error(folder.names("safetensors", {"pipe.safetensors"})).find("pipe.safetensors") !=
        std::string::npos);
  CHECK(whole_error(folder.names("sqlite", {"dir.db"}, {"table=t"})).find("dir.db") !=
        std::string::npos);
  CHECK(whole_error(folder.names("sqlite", {"link.db"}, {"table=t"}))
            .find("links lead to '/etc/passwd'") != std::string::npos);
}

}  // namespace
}  // namespace leat
