// Descriptions of data sets that their files themselves give.
#include "ops/data/guess.h"

#include <sqlite3.h>

#include <filesystem>

#include "devices/base/text.h"
#include "tests/ops/source_testing.h"
#include "tests/sample_files.h"

namespace leat {
namespace {

using Texts = std::vector<std::string>;

GuessedData guess_of(const SourceFolder& folder, const std::string& name, int64_t most = 100) {
  return must(guess_dataset(real_files(), folder.directory / name, most));
}

std::string guess_error(const SourceFolder& folder, const std::string& name) {
  return guess_dataset(real_files(), folder.directory / name, 100).status().message();
}

// The columns as "age int64[]".
Texts columns_of(const GuessedData& guess) {
  Texts out;
  const auto data = must(Dataset::open(real_files(), guess.names));
  for (const ColumnInfo& column : data->info().columns)
    out.push_back(cat(column.name, " ", column.dtype, column.shape));
  return out;
}

TEST_CASE("the fields of a CSV file are integers, numbers, booleans or texts") {
  const SourceFolder folder;
  folder.write("people.csv",
               "age,Height (m),a b,a_b,smokes,gap\n"
               "39,1.75,Ann,x,true,4\n"
               "50,2,\"Bo,b\",yy,false,\n");
  const GuessedData guess = guess_of(folder, "people.csv");
  CHECK(columns_of(guess) == Texts{"age int64[]", "Height__m_ double[]", "a_b uint8[4]",
                                   "a_b_2 uint8[2]", "smokes bool[]", "gap int64[]"});
}

TEST_CASE("a CSV file whose first record has numbers alone has no header") {
  const SourceFolder folder;
  folder.write("t.tsv", "a\tb\n1\t2.5\n");
  CHECK(columns_of(guess_of(folder, "t.tsv")) == Texts{"a int64[]", "b double[]"});
  folder.write("numbers.csv", "1,2\n3,4\n");
  const GuessedData numbers = guess_of(folder, "numbers.csv");
  CHECK(columns_of(numbers) == Texts{"field_0 int64[]", "field_1 int64[]"});
  CHECK(must(Dataset::open(real_files(), numbers.names))->info().count == 2);
  REQUIRE(numbers.notes.size() == 1);
  CHECK(numbers.notes[0].find("without a header") != std::string::npos);
  folder.write("empty.csv", "");
  CHECK(guess_error(folder, "empty.csv").find("expected at least one record") != std::string::npos);
}

TEST_CASE("values that are missing are noted, and the guess reads so many records only") {
  const SourceFolder folder;
  folder.write("gaps.csv", "a,b\n1,\n2,3\nx,4\n");
  const GuessedData two = guess_of(folder, "gaps.csv", 2);
  CHECK(columns_of(two) == Texts{"a int64[]", "b int64[]"});
  REQUIRE(two.notes.size() == 1);
  CHECK(two.notes[0] == "the field 'b' has no value in 1 of the records, 0 takes its place");
  CHECK(columns_of(guess_of(folder, "gaps.csv", 3)) == Texts{"a uint8[1]", "b int64[]"});
}

TEST_CASE("the values of JSON lines are columns by their paths") {
  const SourceFolder folder;
  folder.write("a.jsonl",
               R"({"id": 1, "at": {"x": [[1, 2], [3, 4]], "ok": true}, "name": "é", "odd": [1]})"
               "\n"
               R"({"id": 2, "at": {"x": [[1, 2.5], [3, 4]], "ok": false}, "odd": [1, 2], "d.t": 1})"
               "\n"
               R"({"id": 3, "at": {"x": [[0, 0], [0, 0]], "ok": true}, "mixed": 1, "l": ["a"]})"
               "\n"
               R"({"id": 4, "at": {"x": [[0, 0], [0, 0]], "ok": true}, "mixed": "1"})"
               "\n");
  const GuessedData guess = guess_of(folder, "a.jsonl");
  CHECK(columns_of(guess) ==
        Texts{"id int64[]", "at.x double[2,2]", "at.ok bool[]", "name uint8[2]"});
  Texts expected{"the field 'odd' is left out: its lists have different sizes",
                 "the field 'd.t' is left out: its name has a dot",
                 "the field 'mixed' is left out: it has values of different kinds",
                 "the field 'l' is left out: it has lists of texts"};
  CHECK(guess.notes == expected);
  const auto data = must(Dataset::open(real_files(), guess.names));
  CHECK(row_values<double>(*data, 1, 1) == std::vector<double>{1, 2.5, 3, 4});
  folder.write("bad.jsonl", "[1]\nnonsense\n");
  CHECK(guess_error(folder, "bad.jsonl").find("expected a record with a field") !=
        std::string::npos);
  folder.write("both.jsonl", "{\"a\": 1, \"b\": 2}\n{\"a\": {\"c\": 1}, \"b\": 2}\n");
  CHECK(columns_of(guess_of(folder, "both.jsonl")) == Texts{"b int64[]"});
}

TEST_CASE("the only table of an SQLite file is a data set, and of several one must be named") {
  const SourceFolder folder;
  const auto run = [&](const std::string& sql) {
    sqlite3* database = nullptr;
    REQUIRE(sqlite3_open((folder.directory / "t.db").c_str(), &database) == SQLITE_OK);
    REQUIRE(sqlite3_exec(database, sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK);
    sqlite3_close(database);
  };
  run("CREATE TABLE t(n INTEGER, x REAL, s TEXT, b BLOB, o BLOB);"
      "INSERT INTO t VALUES(1, 1.5, 'ab', x'010203', x'01'), (2, NULL, 'c', x'040506', x'');");
  const GuessedData guess = guess_of(folder, "t.db");
  CHECK(columns_of(guess) == Texts{"n int64[]", "x double[]", "s uint8[2]", "b uint8[3]"});
  CHECK(guess.notes.size() == 2);
  run("CREATE TABLE u(a);");
  CHECK(guess_error(folder, "t.db").find("expected one table, found t, u") != std::string::npos);
  folder.write("no.db", std::string(2000, 'x'));
  CHECK(guess_error(folder, "no.db").find("not a database") != std::string::npos);
}

TEST_CASE("samples of shards, records and folders are columns, and images have the first size") {
  const SourceFolder folder;
  const std::string image =
      png_of(5, 4, [](uint32_t x, uint32_t, int) { return static_cast<uint8_t>(x); });
  std::filesystem::create_directories(folder.directory / "train/cat");
  folder.write("train/cat/1.png", image);
  CHECK(columns_of(guess_of(folder, "train")) == Texts{"image uint8[3,4,5]", "labels int64[]"});
  folder.write("a.tar", tar_of({{"1.png", image},
                                {"1.cls", "3\n"},
                                {"1.txt", "ab"},
                                {"1.json", "{}"},
                                {"2.png", image},
                                {"2.cls", "4"},
                                {"2.txt", "abcd"},
                                {"2.json", "{}"}}));
  const GuessedData shard = guess_of(folder, "a.tar");
  CHECK(columns_of(shard) == Texts{"labels int64[]", "image uint8[3,4,5]", "txt uint8[4]"});
  CHECK(shard.notes ==
        Texts{"the extension 'json' is left out: a job file names the fields of JSON"});
  folder.write(
      "a.tfrecord",
      tfrecord_of(
          {example_of({feature_of("i", texts_of({image})), feature_of("n", integers_of({1})),
                       feature_of("x", floats_of({1, 2})), feature_of("v", floats_of({1}))}),
           example_of({feature_of("i", texts_of({image})), feature_of("n", integers_of({2})),
                       feature_of("x", floats_of({3, 4})), feature_of("v", floats_of({1, 2}))})}));
  const GuessedData records = guess_of(folder, "a.tfrecord");
  CHECK(columns_of(records) == Texts{"i uint8[3,4,5]", "n int64[]", "x float[2]"});
  CHECK(records.notes == Texts{"the feature 'v' is left out: its lists have different sizes"});
}

TEST_CASE("labels of shards that are no integers are numbers") {
  const SourceFolder folder;
  folder.write("half.tar", tar_of({{"1.cls", "0.5\n"}, {"2.cls", "1"}}));
  CHECK(columns_of(guess_of(folder, "half.tar")) == Texts{"labels double[]"});
  folder.write("whole.tar", tar_of({{"1.cls", "5\n"}, {"2.cls", "1"}}));
  CHECK(columns_of(guess_of(folder, "whole.tar")) == Texts{"labels int64[]"});
}

TEST_CASE("a name that tells no format is refused, and Parquet names the script") {
  const SourceFolder folder;
  folder.write("a.bin", "x");
  folder.write("a.parquet", "PAR1");
  CHECK(guess_error(folder, "a.bin").find("expected a name that tells the format, .npy") !=
        std::string::npos);
  CHECK(guess_error(folder, "a.parquet").find("deploy/convert-parquet") != std::string::npos);
  CHECK(guess_error(folder, "").find("expected a folder for each class, with images") !=
        std::string::npos);
}

}  // namespace
}  // namespace leat
