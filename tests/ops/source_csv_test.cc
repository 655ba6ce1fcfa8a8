// Comma-separated values: fields, quotes, types, and files that are damaged.
#include <sys/stat.h>

#include "devices/base/text.h"
#include "ops/data/sources/text_lines.h"
#include "tests/ops/source_testing.h"

namespace leat {
namespace {

using Options = std::vector<std::string>;
using Floats = std::vector<float>;

const Options kIris{"columns:features=",
                    "columns:features:from=length",
                    "columns:features:from=width",
                    "columns:labels=",
                    "columns:labels:from=species",
                    "columns:labels:categories=setosa",
                    "columns:labels:categories=red, white",
                    "columns:id=",
                    "columns:id:dtype=int32"};

TEST_CASE("a table of comma-separated values has vectors, categories and numbers") {
  const SourceFolder folder;
  // A mark of UTF-8, both ends of lines, quotes, an empty line and no newline at the end.
  folder.write("a.csv",
               "\xef\xbb\xbfid,length,width,\"species\"\r\n"
               "1,0.5,1e2,setosa\r\n"
               "\n"
               "2,\"-3\", 4 ,\"red, white\"\n"
               "3,+1,.25,setosa");
  folder.write("b.csv", "id,length,width,species\n4,7,8,\"red, white\"\n");
  folder.write("empty.csv", "id,length,width,species\n");
  const DatasetFiles names = folder.names("csv", {"?.csv", "empty.csv", "b.csv"}, kIris);
  const auto data = must(Dataset::open(real_files(), names));
  CHECK(data->info().count == 5);
  CHECK(data->info().columns[0] == ColumnInfo{"features", DType::f32, Shape{2}});
  CHECK(data->info().columns[1] == ColumnInfo{"labels", DType::i64, Shape{}});
  CHECK(data->info().columns[2] == ColumnInfo{"id", DType::i32, Shape{}});
  check_any_order(*data);
  CHECK(row_values<float>(*data, 0, 0) == Floats{0.5f, 100});
  CHECK(row_values<float>(*data, 0, 1) == Floats{-3, 4});
  CHECK(row_values<float>(*data, 0, 2) == Floats{1, 0.25f});
  CHECK(row_values<float>(*data, 0, 4) == Floats{7, 8});
  CHECK(row_values<int64_t>(*data, 1, 1)[0] == 1);
  CHECK(row_values<int64_t>(*data, 1, 2)[0] == 0);
  for (int32_t row = 0; row < 5; ++row)
    CHECK(row_values<int32_t>(*data, 2, row)[0] == std::min(row + 1, 4));
  // A part of a vector, and two views of one column.
  DatasetFiles part = names;
  part.columns = {"w=features[1:]", "l=features[:1]"};
  const auto parts = must(Dataset::open(real_files(), part));
  CHECK(row_values<float>(*parts, 0, 1) == Floats{4});
  CHECK(row_values<float>(*parts, 1, 1) == Floats{-3});
  check_any_order(*parts);
  // The report has one fingerprint for each file that the patterns found.
  const auto report = must(report_dataset(real_files(), names, {"labels", 2, {}}));
  CHECK(report.files == std::vector<std::string>{"a.csv", "b.csv", "empty.csv", "b.csv"});
  CHECK(report.prints.size() == 4);
  CHECK(report.classes == std::vector<std::string>{"setosa", "red, white"});
  CHECK(check_classes(real_files(), names, {"labels", 1, {}}).message() ==
        "'a.csv': record 2: label: expected in [0, 0], received 1");
}

TEST_CASE("the classes of a table are those of its labels") {
  const SourceFolder folder;
  folder.write("t.csv", "x,labels,z\na,c,e\n");
  DatasetFiles names = folder.names(
      "csv", {"t.csv"},
      {"columns:x=", "columns:x:categories=a", "columns:labels=", "columns:labels:categories=b",
       "columns:labels:categories=c", "columns:z=", "columns:z:categories=e"});
  CHECK(must(report_dataset(real_files(), names, {})).classes ==
        std::vector<std::string>{"b", "c"});
  names.options.erase(names.options.begin() + 2, names.options.begin() + 5);
  CHECK(must(report_dataset(real_files(), names, {})).classes == std::vector<std::string>{"a"});
}

TEST_CASE("a table without declared columns has a column of numbers for each field") {
  const SourceFolder folder;
  folder.write("t.tsv", "a\tb\n1\t2\n3\t4\n");
  const auto data = must(Dataset::open(real_files(), folder.names("tsv", {"t.tsv"})));
  CHECK(data->info().columns[1] == ColumnInfo{"b", DType::f32, Shape{}});
  CHECK(row_values<float>(*data, 1, 1) == Floats{4});
  folder.write("n.txt", "1;2;yes\n3;;no\n");
  const auto named = must(Dataset::open(
      real_files(), folder.names("csv", {"n.txt"},
                                 {"delimiter=;", "header=false", "names=a", "names=b", "names=c",
                                  "columns:b=", "columns:b:fill=-1",
                                  "columns:c=", "columns:c:bytes=4", "missing=", "missing=?"})));
  CHECK(named->info().columns[1] == ColumnInfo{"c", DType::u8, Shape{4}});
  CHECK(row_values<float>(*named, 0, 0) == Floats{2});
  CHECK(row_values<float>(*named, 0, 1) == Floats{-1});
  CHECK(row_values<uint8_t>(*named, 1, 0) == std::vector<uint8_t>{'y', 'e', 's', 0});
  CHECK(row_values<uint8_t>(*named, 1, 1) == std::vector<uint8_t>{'n', 'o', 0, 0});
}

TEST_CASE("quotes hold delimiters, newlines and quotes") {
  const auto fields = [](std::string_view record) {
    CsvFields parsed;
    const Status status = parsed.parse(record, ',');
    if (!status.ok()) return std::vector<std::string>{status.message()};
    return std::vector<std::string>(parsed.fields().begin(), parsed.fields().end());
  };
  using Texts = std::vector<std::string>;
  CHECK(fields("") == Texts{""});
  CHECK(fields(",") == Texts{"", ""});
  CHECK(fields("a,\"b,\"\"c\"\"\n\",d") == Texts{"a", "b,\"c\"\n", "d"});
  CHECK(fields("\"\",\"x\"") == Texts{"", "x"});
  CHECK(fields("5\" pipe,b") == Texts{"5\" pipe", "b"});
  CHECK(fields("\"a\"b") == Texts{"field 1: expected ',' behind the closing quote, received 'b'"});
  CHECK(fields("x,\"a") == Texts{"field 2: expected a closing quote, received none"});

  const SourceFolder folder;
  folder.write("q.csv", "v,note\n1,\"two\nlines\"\n2,5\" x\n3,\"\"\"\n\"\n");
  const auto data = must(Dataset::open(
      real_files(),
      folder.names("csv", {"q.csv"}, {"columns:v=", "columns:note=", "columns:note:bytes=10"})));
  REQUIRE(data->info().count == 3);
  check_any_order(*data);
  CHECK(row_values<float>(*data, 0, 2) == Floats{3});
  CHECK(row_values<uint8_t>(*data, 1, 2)[1] == '\n');
}

TEST_CASE("a bad record of comma-separated values fails with its file and number") {
  const SourceFolder folder;
  folder.write("a.csv", "x,y\n1,2\n3,four\n5\n6,7,8\n9,\n\"1\"2,3\n1e999,0\n1,nan\n");
  const DatasetFiles names =
      folder.names("csv", {"a.csv"}, {"columns:x=", "columns:y=", "columns:y:dtype=int8"});
  const auto data = must(Dataset::open(real_files(), names));
  REQUIRE(data->info().count == 8);
  CHECK(row_error(*data, 1, 0) == "");
  CHECK(row_error(*data, 1, 1) ==
        "'a.csv': record 2: field 'y': expected a value of type int8, received 'four'");
  CHECK(row_error(*data, 1, 2) == "'a.csv': record 3: expected 2 fields, received 1");
  CHECK(row_error(*data, 1, 3) == "'a.csv': record 4: expected 2 fields, received 3");
  CHECK(row_error(*data, 1, 4) ==
        "'a.csv': record 5: field 'y': expected a value, received none; fill: NUMBER takes its "
        "place");
  CHECK(row_error(*data, 0, 5) ==
        "'a.csv': record 6: field 1: expected ',' behind the closing quote, received '2,3'");
  CHECK(row_error(*data, 0, 6).find("received '1e999'") != std::string::npos);
  CHECK(row_error(*data, 1, 7).find("received 'nan'") != std::string::npos);

  // With skip, the same rows are left out for everyone, and counted.
  DatasetFiles skip = names;
  skip.options.push_back("on_bad_record=skip");
  const auto report = must(report_dataset(real_files(), skip, {}));
  CHECK(report.info.count == 1);
  REQUIRE(report.notes.size() == 1);
  CHECK(report.notes[0] ==
        "left out 7 bad records of the data, first 'a.csv': record 2: field 'y': expected a value "
        "of type int8, received 'four'");
  folder.write("b.csv", "x,y\nno,1\n1,1\nno,1\n2,2\n3,3\nno,3\n");
  skip.files = {"b.csv"};
  const auto good = must(Dataset::open(real_files(), skip));
  REQUIRE(good->info().count == 3);
  for (int row = 0; row < 3; ++row)
    CHECK(row_values<float>(*good, 0, row) == Floats{static_cast<float>(row + 1)});
  folder.write("c.csv", "x,y\nno,1\n");
  skip.files = {"c.csv"};
  CHECK(refusal(skip).find("'c.csv': expected at least one good record, received none") == 0);
}

TEST_CASE("files that are no table of the declared columns are refused") {
  const SourceFolder folder;
  const auto refused = [&](std::string_view text, Options options = {}) {
    folder.write("t.csv", text);
    return refusal(folder.names("csv", {"t.csv"}, options));
  };
  CHECK(refused("").find("'t.csv': header: expected the names of the fields, received none") == 0);
  CHECK(refused("a,b\n") == "'t.csv': expected at least one record, received none");
  CHECK(refused("a,a\n1,2\n") == "header: the field 'a' is there twice");
  CHECK(refused("a,b c\n1,2\n").find("columns: expected their names and fields") == 0);
  CHECK(refused("a,b\n1,2\n", {"columns:c=", "columns:c:from=bb"}) ==
        "column 'c': expected a field of the header, 'a, b', received 'bb' (did you mean 'b'?)");
  CHECK(refused("\xff\xfe"
                "a\n")
            .find("expected text in UTF-8, received UTF-16") != std::string::npos);
  CHECK(refused("a,b\n1,\"2\n3,4\n") ==
        "'t.csv': record 1: expected a closing quote in the record at byte 4, received the end of "
        "the file");
  CHECK(refused("a\n1\n", {"delimiter=ab"}).find("delimiter: expected one character") == 0);
  CHECK(refused("a\n1\n", {"header=false"}).find("names: expected the names") == 0);
  CHECK(refused("a\n1\n", {"names=a"}).find("names: expected none beside a header") == 0);
  CHECK(refused("a\n1\n", {"columns:a=", "columns:a:categories=x", "columns:a:bytes=2"}) ==
        "column 'a': expected categories or bytes, received both");
  CHECK(refused("a\n1\n", {"columns:a=", "columns:a:categories=x", "columns:a:categories=x"}) ==
        "column 'a': categories: 'x' is there twice");
  CHECK(refused("a\n1\n", {"columns:a=", "columns:a:dtype=uint8", "columns:a:fill=-1"}) ==
        "column 'a': fill: expected a value of type uint8, received -1");
  folder.write("u.csv", "a,b\n1,2\n");
  folder.write("v.csv", "b,a\n1,2\n");
  CHECK(refusal(folder.names("csv", {"u.csv", "v.csv"})) ==
        "'v.csv': expected the header 'a, b' as in the first file, received 'b, a'");
  // A line of more than 16 MiB.
  CHECK(refused("a\n" + std::string(17 << 20, '1') + "\n")
            .find("'t.csv': record 1: expected at most 16777216 bytes in a record") == 0);
  CHECK(refused("a\n\"" + std::string(17 << 20, '\n'))
            .find("'t.csv': record 1: expected at most 16777216 bytes in a record") == 0);
  // Neither a pipe, a folder nor a link out of the root is opened.
  REQUIRE(::mkfifo((folder.directory / "pipe").c_str(), 0600) == 0);
  CHECK(refusal(folder.names("csv", {"pipe"})).find("expected a regular file") !=
        std::string::npos);
  std::filesystem::create_symlink("/etc/passwd", folder.directory / "link");
  CHECK(refusal(folder.names("csv", {"link"})).find("links lead to") != std::string::npos);
  CHECK(refusal(folder.names("csv", {"missing.csv"})).find("missing.csv") != std::string::npos);
}

TEST_CASE("a table that changes while it is read gives an error and no other row") {
  const SourceFolder folder;
  std::string text = "a\n";
  for (int i = 0; i < 1000; ++i) text += cat(i, "\n");
  folder.write("t.csv", text);
  const auto data = must(Dataset::open(real_files(), folder.names("csv", {"t.csv"})));
  CHECK(row_values<float>(*data, 0, 999) == Floats{999});
  std::filesystem::resize_file(folder.directory / "t.csv", 100);
  CHECK(row_error(*data, 0, 999).find("'t.csv': record 1000") == 0);
}

TEST_CASE("an index with few places finds the same records") {
  const SourceFolder folder;
  std::string all;
  for (int i = 0; i < 300; ++i) all += cat("line ", i, std::string(i % 7, '.'), "\n");
  folder.write("x", all.substr(0, all.find("line 100")));
  folder.write("y", "\n\n");
  folder.write("z", all.substr(all.find("line 100")));
  std::vector<SourceFile> places;
  for (const char* name : {"x", "y", "z"}) places.push_back({"", name, folder.directory / name});
  for (const size_t most : {1000, 300, 299, 64, 7, 2}) {
    INFO(most);
    RecordFiles::Options options;
    options.most_places = most;
    const auto records = must(
        RecordFiles::open(real_files(), places, std::make_shared<LineRule>(), std::move(options)));
    REQUIRE(records->rows() == 300);
    CHECK(records->memory() <= 8 * (most + 6));
    for (int64_t i = 0; i < 300; ++i) {
      const int64_t row = i * 77 % 300;
      Bytes bytes;
      must(records->read(row, bytes));
      CHECK(text_of(bytes) == cat("line ", row, std::string(static_cast<size_t>(row % 7), '.')));
      CHECK(must(records->find(row)).file == (row < 100 ? 0u : 2u));
    }
    CHECK(records->name(100) == "'z': record 1");
  }
}

TEST_CASE("more files than may be open are read in any order") {
  const SourceFolder folder;
  std::vector<SourceFile> places;
  for (int i = 0; i < 20; ++i) {
    folder.write(cat("f", i), cat("row ", i, "\n"));
    places.push_back({"", cat("f", i), folder.directory / cat("f", i)});
  }
  const FilePool pool(real_files(), places, 3);
  for (int i = 0; i < 100; ++i) {
    const auto file = static_cast<size_t>(i * 7 % 20);
    Bytes bytes(5);
    must(must(pool.get(file))->read(0, bytes));
    CHECK(text_of(bytes).substr(0, 5) == cat("row ", file).substr(0, 5));
  }
  // A file that has grown since it was first open.
  folder.write("f0", "another row\n");
  CHECK(pool.get(0).status().message() == "'f0': expected 6 bytes as before, it has 12");
}

}  // namespace
}  // namespace leat
