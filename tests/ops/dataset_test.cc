// Columns, windows of tokens, and arrays that stay in their files.
#include "ops/data/dataset.h"

#include <cstring>

#include "devices/base/glob.h"
#include "devices/base/text.h"
#include "ops/formats/npy.h"
#include "ops/formats/npz.h"
#include "tests/catch.h"
#include "tests/memory_files.h"
#include "tests/must.h"
#include "tests/temporary_directory.h"

namespace leat {
namespace {

class Folder {
 public:
  void write(const std::string& name, const Tensor& values) const {
    must(write_npy(real_files(), directory / name, values));
  }
  template <typename T>
  void write(const std::string& name, const std::vector<T>& values) const {
    must(write_file_atomically(real_files(), directory / name, std::as_bytes(std::span(values))));
  }
  DatasetFiles arrays(std::vector<std::string> files, std::vector<std::string> columns = {}) const {
    DatasetFiles names;
    names.format = "npy";
    names.files = std::move(files);
    names.root = directory.path();
    names.columns = std::move(columns);
    return names;
  }
  DatasetFiles tokens(std::vector<std::string> files, int64_t window, int64_t stride,
                      std::vector<std::string> columns = {}) const {
    DatasetFiles names = arrays(std::move(files), std::move(columns));
    names.format = "tokens";
    names.window = window;
    names.stride = stride;
    names.element = DType::u16;
    return names;
  }
  TemporaryDirectory directory;
};

template <typename T>
std::vector<T> row_of(const Dataset& data, size_t column, int64_t row) {
  std::vector<T> out(static_cast<size_t>(data.info().columns[column].shape.elements()));
  must(data.read(column, row, std::as_writable_bytes(std::span(out))));
  // A row in memory has the same bytes.
  if (const std::byte* memory = data.in_memory(column, row))
    CHECK(std::memcmp(memory, out.data(), out.size() * sizeof(T)) == 0);
  return out;
}

using U16 = std::vector<uint16_t>;

TEST_CASE("a column is a whole column of a file, or a part of each of its rows") {
  const Folder folder;
  folder.write("a.npy", Tensor::of<int32_t>({2, 3, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}));
  folder.write("b.npy", Tensor::of<uint8_t>({2}, {20, 21}));
  const auto open = [&](std::vector<std::string> columns) {
    return must(Dataset::open(real_files(), folder.arrays({"a=a.npy", "b=b.npy"}, columns)));
  };
  const auto all = open({});
  CHECK(all->info().count == 2);
  REQUIRE(all->info().columns.size() == 2);
  CHECK(all->info().columns[0] == ColumnInfo{"a", DType::i32, Shape{3, 2}});
  CHECK(all->info().columns[1] == ColumnInfo{"b", DType::u8, Shape{}});
  CHECK(row_of<int32_t>(*all, 0, 1) == std::vector<int32_t>{7, 8, 9, 10, 11, 12});
  CHECK(row_of<uint8_t>(*all, 1, 1) == std::vector<uint8_t>{21});

  const auto parts = open({"x=a[:-1]", "y=a[1:]", "last=a[-1:]", "b"});
  REQUIRE(parts->info().columns.size() == 4);
  CHECK(parts->info().columns[0] == ColumnInfo{"x", DType::i32, Shape{2, 2}});
  CHECK(row_of<int32_t>(*parts, 0, 0) == std::vector<int32_t>{1, 2, 3, 4});
  CHECK(row_of<int32_t>(*parts, 1, 0) == std::vector<int32_t>{3, 4, 5, 6});
  CHECK(row_of<int32_t>(*parts, 2, 1) == std::vector<int32_t>{11, 12});
  CHECK(row_of<uint8_t>(*parts, 3, 0) == std::vector<uint8_t>{20});

  const auto refused = [&](std::vector<std::string> columns) {
    return Dataset::open(real_files(), folder.arrays({"a=a.npy", "b=b.npy"}, columns))
        .status()
        .message();
  };
  CHECK(refused({"x=c"}) == "column 'c': expected one of a, b (did you mean 'a'?)");
  CHECK(refused({"x=b[1:]"}) ==
        "column 'b': expected rows with a dimension to take a part of, its rows are scalars");
  CHECK(refused({"x=a[2:1]"}) ==
        "column 'x': expected a part of 0 to 3 along the first dimension of 'a', received [2, 1)");
  CHECK(refused({"x=a[:4]"}).find("received [0, 4)") != std::string::npos);
  for (const char* text : {"", "=a", "x=", "x=a[", "x=a[1]", "x=a[1:2", "x=a[b:]", "x=a[::2]",
                           "1x=a", "x y=a", "x=a[1:]b"}) {
    INFO(text);
    CHECK(refused({text}).find("a column: expected NAME=COLUMN") == 0);
  }
}

TEST_CASE("an array that stays in its file gives the same rows as one in memory") {
  const Folder folder;
  Tensor values(DType::f32, {50, 3});
  for (int64_t i = 0; i < 150; ++i) values.set(i, static_cast<double>(i) / 7);
  folder.write("x.npy", values);
  folder.write("y.npy", Tensor(DType::boolean, {50}));
  const DatasetFiles names = folder.arrays({"x=x.npy", "y=y.npy"}, {"x", "tail=x[1:]", "y"});
  const auto memory = must(Dataset::open(real_files(), names));
  const auto file = must(Dataset::open(real_files(), names, /*large_array=*/0));
  CHECK(memory->in_memory(0, 0) != nullptr);
  CHECK(file->in_memory(0, 0) == nullptr);
  for (int64_t row = 0; row < 50; ++row) {
    CHECK(row_of<float>(*memory, 0, row) == row_of<float>(*file, 0, row));
    CHECK(row_of<float>(*memory, 1, row) == row_of<float>(*file, 1, row));
    CHECK(row_of<uint8_t>(*memory, 2, row) == row_of<uint8_t>(*file, 2, row));
  }
  // A boolean of another value is an error of the row that has it.
  auto bytes = must(read_file(real_files(), folder.directory / "y.npy", 1 << 20));
  bytes.back() = std::byte{2};
  must(write_file_atomically(real_files(), folder.directory / "y.npy", bytes));
  const auto damaged = must(Dataset::open(real_files(), names, 0));
  std::byte value;
  CHECK(damaged->read(2, 48, {&value, 1}).ok());
  CHECK(damaged->read(2, 49, {&value, 1}).code() == Code::invalid_argument);
  // So is a file that was cut after it was opened.
  bytes.pop_back();
  std::filesystem::resize_file(folder.directory / "y.npy", bytes.size());
  CHECK_FALSE(damaged->read(2, 49, {&value, 1}).ok());
}

TEST_CASE("the arrays of an NPZ file are columns") {
  const Folder folder;
  const std::map<std::string, Tensor> arrays{{"x", Tensor::of<float>({3, 2}, {1, 2, 3, 4, 5, 6})},
                                             {"y", Tensor::of<int64_t>({3}, {7, 8, 9})},
                                             {"seed", Tensor::scalar<int64_t>(1)}};
  Bytes bytes;
  must(format_npz(arrays, [&](std::span<const std::byte> piece) {
    bytes.insert(bytes.end(), piece.begin(), piece.end());
    return Status();
  }));
  must(write_file_atomically(real_files(), folder.directory / "a.npz", bytes));
  DatasetFiles names = folder.arrays({"a.npz"});
  names.format = "npz";
  for (const uint64_t large : {uint64_t{1} << 40, uint64_t{0}}) {
    const auto data = must(Dataset::open(real_files(), names, large));
    REQUIRE(data->info().columns.size() == 2);  // a scalar is none
    CHECK(data->info().columns[0] == ColumnInfo{"x", DType::f32, Shape{2}});
    CHECK(row_of<float>(*data, 0, 2) == std::vector<float>{5, 6});
    CHECK(row_of<int64_t>(*data, 1, 1) == std::vector<int64_t>{8});
  }
  CHECK(check_classes(real_files(), names, {"y", 9, {}}).message() ==
        "'a.npz': label of row 2: expected in [0, 8], received 9");
  CHECK(must(report_dataset(real_files(), names, {})).prints.size() == 1);
  // Every cut and every changed byte is an error or another value, never a crash.
  for (size_t size = 0; size < bytes.size(); size += 7) {
    MemoryFiles cut({bytes.data(), size});
    CHECK_FALSE(Dataset::open(cut, names).ok());
  }
  for (size_t at = 0; at < bytes.size(); ++at) {
    Bytes changed = bytes;
    changed[at] ^= std::byte{0xff};
    MemoryFiles files(changed);
    (void)Dataset::open(files, names);
  }
}

TEST_CASE("windows of tokens begin a stride apart, and lie within one file") {
  const Folder folder;
  folder.write("t-1.bin", U16{0, 1, 2, 3, 4, 5, 6});
  folder.write("t-2.bin", U16{100, 101});
  folder.write("t-3.npy", Tensor::of<uint16_t>({5}, {200, 201, 202, 203, 204}));
  folder.write("u.bin", U16{7, 7, 7});
  const auto data = must(Dataset::open(real_files(), folder.tokens({"t-*"}, 3, 2)));
  CHECK(data->info().count == 3 + 0 + 2);
  REQUIRE(data->info().columns.size() == 1);
  CHECK(data->info().columns[0] == ColumnInfo{"window", DType::u16, Shape{3}});
  CHECK(row_of<uint16_t>(*data, 0, 0) == U16{0, 1, 2});
  CHECK(row_of<uint16_t>(*data, 0, 1) == U16{2, 3, 4});
  CHECK(row_of<uint16_t>(*data, 0, 2) == U16{4, 5, 6});
  CHECK(row_of<uint16_t>(*data, 0, 3) == U16{200, 201, 202});
  CHECK(row_of<uint16_t>(*data, 0, 4) == U16{202, 203, 204});
  const auto pairs = must(Dataset::open(
      real_files(), folder.tokens({"t-*"}, 3, 2, {"tokens=window[:-1]", "labels=window[1:]"})));
  CHECK(row_of<uint16_t>(*pairs, 0, 1) == U16{2, 3});
  CHECK(row_of<uint16_t>(*pairs, 1, 1) == U16{3, 4});

  const auto report = must(report_dataset(real_files(), folder.tokens({"t-*", "u.bin"}, 3, 3), {}));
  CHECK(report.files == std::vector<std::string>{"t-1.bin", "t-2.bin", "t-3.npy", "u.bin"});
  CHECK(report.prints.size() == 4);
  CHECK(report.info.count == 2 + 0 + 1 + 1);
}

TEST_CASE("a separator divides windows of tokens into documents") {
  using I32 = std::vector<int32_t>;
  const Folder folder;
  folder.write("t.bin", U16{5, 6, 9, 7, 9, 9, 8, 4, 3, 9, 1, 2});
  DatasetFiles names = folder.tokens({"t.bin"}, 6, 6);
  names.options = {"separator=9"};
  const auto data = must(Dataset::open(real_files(), names));
  REQUIRE(data->info().columns.size() == 4);
  CHECK(data->info().columns[1] == ColumnInfo{"segments", DType::i32, Shape{6}});
  CHECK(data->info().columns[2].name == "positions");
  CHECK(data->info().columns[3].name == "targets");
  CHECK(row_of<uint16_t>(*data, 0, 0) == U16{5, 6, 9, 7, 9, 9});
  CHECK(row_of<int32_t>(*data, 1, 0) == I32{0, 0, 0, 1, 1, 2});
  CHECK(row_of<int32_t>(*data, 2, 0) == I32{0, 1, 2, 0, 1, 0});
  CHECK(row_of<int32_t>(*data, 3, 0) == I32{6, 9, -100, 9, -100, -100});
  // A window begins with a document of its own, and ends without a target.
  CHECK(row_of<int32_t>(*data, 1, 1) == I32{0, 0, 0, 0, 1, 1});
  CHECK(row_of<int32_t>(*data, 3, 1) == I32{4, 3, 9, -100, 2, -100});
  names.columns = {"tokens=window[:-1]", "places=positions[1:-1]", "labels=targets[:-1]"};
  const auto parts = must(Dataset::open(real_files(), names));
  CHECK(row_of<uint16_t>(*parts, 0, 1) == U16{8, 4, 3, 9, 1});
  CHECK(row_of<int32_t>(*parts, 1, 1) == I32{1, 2, 3, 0});
  CHECK(check_classes(real_files(), names, {"labels", 10, -100}).ok());
  CHECK(check_classes(real_files(), names, {"labels", 10, {}}).message() ==
        "column 'labels': expected ignore_index: -100 in the loss, which is the target of a token "
        "at the end of its document");
  CHECK(check_classes(real_files(), names, {"labels", 8, -100}).message() ==
        "'t.bin': label of row 0: expected in [0, 7], received 9");
  names.options = {"separator=-1"};
  CHECK(!Dataset::open(real_files(), names).ok());
  names.options = {"separator=65536"};
  CHECK(Dataset::open(real_files(), names)
            .status()
            .message()
            .find("separator: expected a token of type uint16, from 0 to 65535, received 65536") !=
        std::string::npos);
}

TEST_CASE("tokens that cannot be read are refused with their file") {
  const Folder folder;
  folder.write("odd.bin", std::vector<uint8_t>{1, 2, 3});
  folder.write("short.bin", U16{1, 2});
  folder.write("wide.npy", Tensor(DType::i64, {9}));
  folder.write("square.npy", Tensor(DType::u16, {3, 3}));
  const auto refused = [&](const DatasetFiles& names) {
    return Dataset::open(real_files(), names).status();
  };
  const auto says = [&](const std::string& file, int64_t window, std::string_view part) {
    const Status status = refused(folder.tokens({file}, window, 1));
    INFO(status.message());
    CHECK(status.message().find(part) != std::string::npos);
  };
  says("odd.bin", 2,
       "odd.bin': expected a multiple of 2 bytes, the size of a token of type uint16");
  says("short.bin", 3, "'short.bin': expected at least one window of 3 tokens in a file");
  says("wide.npy", 2, "wide.npy': expected uint16 tokens");
  says("square.npy", 2, "received uint16[3,3]");
  says("none-*.bin", 2, "'none-*.bin': expected a file of such a name in '");
  says("*/none.bin", 2, "expected '*' and '?' in the last part of the path alone");
  says("../x-*.bin", 2, "below the data root");
  says("short.bin", 0, "a window and a stride of at least 1 token, received 0 and 1");
  CHECK(refused(folder.tokens({}, 2, 1)).message() ==
        "files: expected at least one file of tokens, received none");
  DatasetFiles floats = folder.tokens({"short.bin"}, 2, 1);
  floats.element = DType::f32;
  CHECK(refused(floats).message() ==
        "dtype: expected an integer type of the tokens, received 'float'");
}

TEST_CASE("a token that is no class is found, and one that is ignored is let through") {
  const Folder folder;
  folder.write("t.bin", U16{0, 1, 2, 3, 65535, 1, 0, 2});
  const DatasetFiles names = folder.tokens({"t.bin"}, 2, 2, {"labels=window"});
  CHECK(check_classes(real_files(), names, {"labels", 4, 65535}).ok());
  CHECK(check_classes(real_files(), names, {"labels", 4, {}}).message() ==
        "'t.bin': label of row 2: expected in [0, 3], received 65535");
  CHECK(check_classes(real_files(), names, {"labels", 3, 65535}).message() ==
        "'t.bin': label of row 1: expected in [0, 2], received 3");
}

TEST_CASE("a pattern matches whole names") {
  CHECK(matches_glob("train-*.bin", "train-1.bin"));
  CHECK(matches_glob("*", ""));
  CHECK(matches_glob("a?c*", "abc"));
  CHECK(matches_glob("*a*b*c", "xxaxxbxxc"));
  CHECK_FALSE(matches_glob("train-*.bin", "train-1.bin.gz"));
  CHECK_FALSE(matches_glob("a?c", "ac"));
  CHECK_FALSE(matches_glob("", "a"));
  CHECK(is_glob("a*"));
  CHECK_FALSE(is_glob("a.b"));
}

}  // namespace
}  // namespace leat
