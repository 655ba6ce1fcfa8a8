// Data that a stranger made: SQLite and safetensors files with random changes, and with sizes
// beyond all bounds; pipes and links in place of files; files that change while they are read. Each
// is read whole, or refused with one message that names the file.
#include <sqlite3.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "devices/base/forwarding_files.h"
#include "devices/base/text.h"
#include "devices/base/utf8.h"
#include "ops/data/guess.h"
#include "ops/formats/npy.h"
#include "ops/formats/npz.h"
#include "ops/formats/safetensors.h"
#include "tests/ops/source_testing.h"
#include "tests/sample_files.h"

namespace leat {
namespace {

// Takes the place of a file. To cut a file down and fill it again, or to write it atomically, waits
// for the disk: thousands of changes would take a minute.
void replace_file(const std::string& path, const std::string& content) {
  std::filesystem::remove(path);
  std::ofstream(path, std::ios::binary) << content;
}

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
    replace_file(folder.directory / file, changed(good, random));
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
      replace_file(folder.directory / file, changed(good, random));
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

// A data set of one file, of a format whose files may be replaced or change.
struct OneFile {
  std::string file, content;
  DatasetFiles names;
  bool has_checks;  // changed bytes are noticed
};

std::vector<OneFile> shards_and_arrays(const SourceFolder& folder) {
  std::vector<std::pair<std::string, std::string>> members;
  std::vector<std::string> records;
  std::vector<uint16_t> tokens;
  for (int row = 0; row < 12; ++row) {
    const std::string image = png_of(5, 4, [&](uint32_t x, uint32_t y, int c) {
      return static_cast<uint8_t>(x * 20 + y * 9 + static_cast<uint32_t>(c * 60 + row));
    });
    members.emplace_back(cat(100 + row, ".png"), image);
    members.emplace_back(cat(100 + row, ".cls"), std::to_string(row));
    records.push_back(example_of(
        {feature_of("image", texts_of({image})), feature_of("labels", integers_of({row}))}));
    for (int i = 0; i < 4; ++i) tokens.push_back(static_cast<uint16_t>(row * 4 + i));
  }
  const Tensor array = Tensor::of<uint16_t>({48}, tokens);
  Bytes npz;
  must(format_npz({{"x", array}}, [&](std::span<const std::byte> bytes) {
    npz.insert(npz.end(), bytes.begin(), bytes.end());
    return Status();
  }));
  const std::string size = "columns:image:size=4", labels = "columns:labels:dtype=int64";
  DatasetFiles windows = folder.names("tokens", {});
  windows.window = windows.stride = 4;
  windows.element = DType::u16;
  const std::string npy = text_of_bytes(must(format_npy(array)));
  const std::string raw = npy.substr(npy.size() - 2 * tokens.size());
  return {
      {"a.tar", tar_of(members),
       folder.names("webdataset", {},
                    {"columns:image=", "columns:image:ext=png", size,
                     "columns:labels=", "columns:labels:ext=cls", labels}),
       true},
      {"a.tfrecord", tfrecord_of(records),
       folder.names("tfrecord", {}, {"columns:image=", size, "columns:labels=", labels}), true},
      {"a.bin", raw, windows, false},
      {"a.npy", npy, windows, false},
      {"a.npz", text_of_bytes(npz), folder.names("npz", {}), false},
  };
}

TEST_CASE("a pipe, a folder and links that lead nowhere are no shards, tokens or arrays") {
  const SourceFolder folder;
  const auto path = [&](const std::string& name) { return folder.directory / name; };
  for (OneFile& each : shards_and_arrays(folder)) {
    folder.write(each.file, each.content);
    each.names.files = {each.file};
    CHECK(whole_error(each.names) == "");
    REQUIRE(::mkfifo(path("pipe-" + each.file).c_str(), 0600) == 0);
    std::filesystem::create_directory(path("folder-" + each.file));
    std::filesystem::create_symlink("none", path("nowhere-" + each.file));
    std::filesystem::create_symlink("ring-" + each.file, path("ring-" + each.file));
    std::filesystem::create_symlink("/etc/passwd", path("outside-" + each.file));
    for (const char* kind : {"pipe-", "folder-", "nowhere-", "ring-", "outside-"}) {
      const std::string name = kind + each.file;
      each.names.files = {name};
      CHECK_THAT(whole_error(each.names), Catch::Contains(name));
      if (each.names.format == "npz") continue;  // which takes no patterns
      // Behind a good file.
      each.names.files = {each.file, cat(kind, "*", each.file)};
      CHECK_THAT(whole_error(each.names), Catch::Contains(name));
    }
  }
}

// Files of which one changes on the disk before it is read for the `at`th time.
class ChangingFiles final : public ForwardingFiles {
 public:
  using Change = std::function<void(const std::string& path)>;
  ChangingFiles(int at, Change change)
      : ForwardingFiles(real_files()), at_(at), change_(std::move(change)) {}
  Result<std::unique_ptr<ReadableFile>> open(const std::string& path) override {
    LEAT_ASSIGN_OR_RETURN(auto file, files_.open(path));
    return std::unique_ptr<ReadableFile>(new File(*this, std::move(file)));
  }
  bool has_changed() const { return reads_ >= at_; }

 private:
  class File final : public ReadableFile {
   public:
    File(ChangingFiles& all, std::unique_ptr<ReadableFile> file)
        : all_(all), file_(std::move(file)) {}
    const std::string& path() const override { return file_->path(); }
    uint64_t size() const override { return file_->size(); }
    Status read(uint64_t offset, std::span<std::byte> out) const override {
      if (++all_.reads_ == all_.at_) all_.change_(path());
      return file_->read(offset, out);
    }

   private:
    ChangingFiles& all_;
    const std::unique_ptr<ReadableFile> file_;
  };

  const int at_;
  const Change change_;
  int reads_ = 0;
};

void cut_half(const std::string& path) {
  std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
}
void clear_half(const std::string& path) {
  const auto size = std::filesystem::file_size(path);
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(static_cast<std::streamoff>(size / 2));
  file << std::string(size - size / 2, '\0');
}

// The bytes of all rows until the first that cannot be read, whose error follows.
struct RowsRead {
  std::vector<Bytes> rows;
  std::string error;
  bool is_row = false;  // the error is that of a row
};

RowsRead read_rows(Files& files, const DatasetFiles& names) {
  const auto data = Dataset::open(files, names);
  if (!data.ok()) return {{}, data.status().message()};
  RowsRead out;
  for (int64_t row = 0; row < (*data)->info().count; ++row) {
    for (size_t c = 0; c < (*data)->info().columns.size(); ++c) {
      Bytes bytes(static_cast<size_t>((*data)->info().columns[c].row_bytes()));
      const Status read = (*data)->read(c, row, bytes);
      if (!read.ok()) return {std::move(out.rows), read.message(), true};
      out.rows.push_back(std::move(bytes));
    }
  }
  return out;
}

// Changes the data before each of their reads, one after the other: all rows are as they were, or
// there is an error with a name in it. Returns how many errors there were.
int errors_of_changes(const DatasetFiles& names, const ChangingFiles::Change& change,
                      const std::function<void()>& restore, const std::string& name,
                      const std::string& of_row, bool has_checks) {
  restore();
  const std::vector<Bytes> truth = read_rows(real_files(), names).rows;
  int errors = 0;
  for (int at = 1;; ++at) {
    restore();
    ChangingFiles files(at, change);
    const RowsRead found = read_rows(files, names);
    if (!files.has_changed()) return errors;
    INFO("read " << at << ": " << found.error);
    if (found.error.empty()) {
      CHECK(found.rows.size() == truth.size());
      if (has_checks) CHECK(found.rows == truth);
      continue;
    }
    ++errors;
    CHECK(is_utf8(found.error));
    CHECK_THAT(found.error, Catch::Contains(name));
    if (found.is_row) CHECK_THAT(found.error, Catch::Contains(of_row));
    if (has_checks) CHECK(std::equal(found.rows.begin(), found.rows.end(), truth.begin()));
  }
}

TEST_CASE("a file that changes while it is read gives its rows, or one error that names it") {
  const SourceFolder folder;
  for (OneFile& each : shards_and_arrays(folder)) {
    INFO(each.file);
    each.names.files = {each.file};
    const auto restore = [&] { replace_file(folder.directory / each.file, each.content); };
    const std::string of_row = each.has_checks ? cat("'", each.file, "': record ") : each.file;
    CHECK(errors_of_changes(each.names, cut_half, restore, each.file, of_row, each.has_checks) > 0);
    const int cleared =
        errors_of_changes(each.names, clear_half, restore, each.file, of_row, each.has_checks);
    if (each.has_checks) CHECK(cleared > 0);
  }
}

TEST_CASE("an image that changes or goes while the folder is read is one error that names it") {
  const SourceFolder folder;
  const std::string image = png_of(5, 4, [](uint32_t x, uint32_t y, int c) {
    return static_cast<uint8_t>(x * 20 + y * 9 + static_cast<uint32_t>(c * 60));
  });
  const std::vector<std::string> images = {"train/a/1.png", "train/a/2.png", "train/b/1.png"};
  for (const char* name : {"train/a", "train/b"})
    std::filesystem::create_directories(folder.directory / name);
  const auto restore = [&] {
    for (const std::string& name : images) replace_file(folder.directory / name, image);
  };
  const DatasetFiles names = folder.names("image_folder", {"train"}, {"size=4"});
  for (const auto& change : {cut_half, clear_half})
    CHECK(errors_of_changes(names, change, restore, ".png", "'train/", true) > 0);
  // Another thing takes the place of an image that was listed.
  const std::string path = folder.directory / images[1];
  const std::vector<std::function<void()>> things = {
      [&] {},
      [&] { REQUIRE(::mkfifo(path.c_str(), 0600) == 0); },
      [&] { std::filesystem::create_directory(path); },
      [&] { std::filesystem::create_symlink("none", path); },
      [&] { std::filesystem::create_symlink("2.png", path); },
      [&] { std::filesystem::create_symlink("/etc/passwd", path); }};
  for (const auto& put : things) {
    restore();
    const auto data = must(Dataset::open(real_files(), names));
    std::filesystem::remove(path);
    put();
    CHECK(row_error(*data, 0, 0) == "");
    CHECK(row_error(*data, 0, 1).find("'train/a/2.png': ") == 0);
    CHECK(row_error(*data, 0, 2) == "");
  }
}

}  // namespace
}  // namespace leat
