// Each source reads data that are larger than its memory: a child process whose memory may grow by
// a quarter of the data reads all rows, out of their order, and with reading ahead. The exception
// is NPZ, whose arrays are read into memory that the job is asked for before (input_test.cc).
//
// Not with sanitizers, whose own memory has no such bound.
#if !defined(LEAT_SANITIZED)

#include <malloc.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <new>

#include "devices/base/text.h"
#include "ops/data/sources/mixture.h"
#include "ops/formats/npy.h"
#include "ops/formats/safetensors.h"
#include "tests/catch.h"
#include "tests/ops/source_testing.h"
#include "tests/sample_files.h"

namespace leat {
namespace {

constexpr int64_t kRows = 512, kNumbers = 16'384;           // of a row
constexpr uint64_t kData = uint64_t{kRows} * kNumbers * 4;  // 32 MiB
constexpr uint64_t kRoom = kData / 4;

// The bytes of private memory that the process has: what RLIMIT_DATA bounds.
uint64_t private_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmData:")) return std::stoull(line.substr(7)) * 1024;
  }
  return 0;
}

enum class Ending : int { read = 0, error = 1, no_memory = 3 };

// Runs `work` in a child whose private memory may grow by kRoom.
Ending in_little_memory(const std::function<Status()>& work) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    // The heap's free memory would come on top.
    ::malloc_trim(0);
    const rlim_t limit = private_memory() + kRoom;
    const rlimit bounds{limit, limit};
    if (::setrlimit(RLIMIT_DATA, &bounds) != 0) ::_exit(9);
    try {
      const Status status = work();
      if (!status.ok()) std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
      ::_exit(static_cast<int>(status.ok() ? Ending::read : Ending::error));
    } catch (const std::bad_alloc&) {
      ::_exit(static_cast<int>(Ending::no_memory));
    }
  }
  int state = 0;
  REQUIRE(::waitpid(child, &state, 0) == child);
  REQUIRE(WIFEXITED(state));
  return static_cast<Ending>(WEXITSTATUS(state));
}

// Reads each row once, out of order, as readers of a training do.
Status read_all_rows(const DatasetFiles& names) {
  LEAT_ASSIGN_OR_RETURN(const auto data, Dataset::open(real_files(), names, 1));
  std::vector<Bytes> bytes;
  std::vector<std::byte*> outs;
  for (const ColumnInfo& column : data->info().columns)
    bytes.emplace_back(static_cast<size_t>(column.row_bytes()));
  for (Bytes& each : bytes) outs.push_back(each.data());
  const int64_t rows = data->info().count;
  for (int64_t i = 0; i < rows; ++i) {
    data->advise((i * 7 + 24) % rows, ReadAdvice::will_need);
    LEAT_RETURN_IF_ERROR(data->read_row((i * 7 + 3) % rows, outs));
    data->advise((i * 7 + 3) % rows, ReadAdvice::done_with);
  }
  return {};
}

// Appends pieces to a file, so that this process does not keep all of it.
void write_pieces(const std::string& path, int64_t pieces,
                  const std::function<std::string(int64_t)>& piece) {
  std::ofstream out(path, std::ios::binary);
  for (int64_t i = 0; i < pieces; ++i) out << piece(i);
  REQUIRE(out.good());
}

std::string numbers_of(int64_t row) {
  std::string out(kNumbers * 4, '\0');
  for (int64_t i = 0; i < kNumbers; ++i) {
    const auto value = static_cast<float>((row * 31 + i) % 97);
    std::memcpy(out.data() + 4 * i, &value, 4);
  }
  return out;
}

// A line of text has 256 numbers, and there are 64 times as many of them as rows above.
constexpr int64_t kTextRows = kRows * 64, kTextNumbers = 256;
std::string text_of(int64_t row, const std::string& separator) {
  std::string out;
  for (int64_t i = 0; i < kTextNumbers; ++i)
    out += cat(i > 0 ? separator : std::string(), 100 + (row + i) % 800);
  return out;
}

void write_database_of(const std::string& path) {
  sqlite3* opened = nullptr;
  REQUIRE(sqlite3_open(path.c_str(), &opened) == SQLITE_OK);
  const std::unique_ptr<sqlite3, int (*)(sqlite3*)> database(opened, sqlite3_close);
  const auto run = [&](const std::string& sql) {
    REQUIRE(sqlite3_exec(opened, sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK);
  };
  run("PRAGMA synchronous=OFF; PRAGMA journal_mode=OFF; CREATE TABLE t(x TEXT); BEGIN;");
  for (int64_t row = 0; row < kRows; ++row) run("INSERT INTO t VALUES (printf('%065536d', 7));");
  run("COMMIT;");
}

// Data of kData bytes, or somewhat more, in each format whose rows stay in files.
class LargeData {
 public:
  LargeData() {
    Tensor one(DType::f32, Shape{1, kNumbers});
    const std::string header = header_of(text_of_bytes(must(format_npy(one))));
    write_pieces(path("x.npy"), kRows + 1,
                 [&](int64_t i) { return i == 0 ? header : numbers_of(i - 1); });
    write_pieces(path("x.idx"), kRows + 1, [&](int64_t i) {
      return i == 0 ? std::string("\0\0\x08\x02\0\0\x02\0\0\x01\0\0", 12) : numbers_of(i - 1);
    });
    write_pieces(path("t.bin"), kRows, numbers_of);
    const std::string json = cat(R"({"x":{"dtype":"F32","shape":[)", kRows, ",", kNumbers,
                                 R"(],"data_offsets":[0,)", kData, "]}}");
    const uint64_t size = json.size();
    write_pieces(path("x.safetensors"), kRows + 1, [&](int64_t i) {
      return i == 0 ? std::string(reinterpret_cast<const char*>(&size), 8) + json
                    : numbers_of(i - 1);
    });
    write_text();
    write_records();
    write_database_of(path("t.db"));
  }
  std::map<std::string, DatasetFiles> sources() const {
    const std::vector<std::string> text{"columns:x=", "columns:x:field=x",
                                        cat("columns:x:shape=", kTextNumbers)};
    std::map<std::string, DatasetFiles> out{
        {"npy", folder_.names("npy", {"x=x.npy"})},
        {"idx", folder_.names("idx", {"x=x.idx"})},
        {"safetensors", folder_.names("safetensors", {"x.safetensors"})},
        {"csv", folder_.names("csv", {"t.csv"}, {"columns:x=", "columns:x:from=c7"})},
        {"tsv", folder_.names("tsv", {"t.tsv"}, {"columns:x=", "columns:x:from=c7"})},
        {"jsonl", folder_.names("jsonl", {"t.jsonl"}, text)},
        {"tfrecord", folder_.names("tfrecord", {"t.tfrecord"},
                                   {"columns:x=", cat("columns:x:shape=", kNumbers)})},
        {"webdataset",
         folder_.names("webdataset", {"t.tar"},
                       {"columns:image=", "columns:image:ext=png", "columns:image:size=8"})},
        {"image_folder", folder_.names("image_folder", {"images"}, {"size=8"})},
        {"sqlite",
         folder_.names("sqlite", {"t.db"}, {"table=t", "columns:x=", "columns:x:bytes=65536"})},
        {"synthetic",
         folder_.names("synthetic", {},
                       {cat("rows=", kRows), "columns:x=", cat("columns:x:shape=", kNumbers)})}};
    DatasetFiles tokens = folder_.names("tokens", {"t.bin"});
    tokens.window = 2 * kNumbers;
    tokens.stride = 2 * kNumbers;
    tokens.element = DType::u16;
    out["tokens"] = tokens;
    tokens.options = {"separator=7"};
    out["tokens with documents"] = tokens;
    DatasetFiles mixture = folder_.names("mixture", {});
    for (const char* name : {"npy", "safetensors"}) {
      DatasetFiles part = out.at(name);
      part.root.clear();
      add_mixture_part({name, 1, part}, mixture.options);
    }
    out["mixture"] = mixture;
    return out;
  }
  std::string path(const std::string& name) const { return folder_.directory / name; }
  const SourceFolder& folder() const { return folder_; }

 private:
  // The header of an array of one row, made that of kRows rows of the same width.
  static std::string header_of(const std::string& npy) {
    std::string header = npy.substr(0, npy.size() - static_cast<size_t>(kNumbers) * 4);
    const std::string one = cat("(1, ", kNumbers), all = cat("(", kRows, ", ", kNumbers);
    const size_t at = header.find(one);
    REQUIRE(at != std::string::npos);
    header.replace(at, one.size(), all);
    const size_t spaces = header.rfind(' ');
    header.erase(spaces - (all.size() - one.size()) + 1, all.size() - one.size());
    return header;
  }
  void write_text() {
    const auto lines = [&](const char* name, const std::string& separator) {
      write_pieces(path(name), kTextRows + 1, [&](int64_t i) {
        if (i > 0) return text_of(i - 1, separator) + "\n";
        std::string head;
        for (int64_t c = 0; c < kTextNumbers; ++c)
          head += cat(c > 0 ? separator : std::string(), "c", c);
        return head + "\n";
      });
    };
    lines("t.csv", ",");
    lines("t.tsv", "\t");
    write_pieces(path("t.jsonl"), kTextRows,
                 [&](int64_t i) { return cat("{\"x\": [", text_of(i, ","), "]}\n"); });
  }
  void write_records() {
    const std::string image = png_of(147, 147, [](uint32_t x, uint32_t y, int c) {
      return static_cast<uint8_t>(x * 3 + y * 5 + static_cast<uint32_t>(c));
    });
    write_pieces(path("t.tfrecord"), kRows, [&](int64_t i) {
      std::vector<float> numbers(kNumbers, static_cast<float>(i));
      return tfrecord_of({example_of({feature_of("x", floats_of(numbers))})});
    });
    write_pieces(path("t.tar"), kRows + 1, [&](int64_t i) {
      if (i == kRows) return std::string(1024, '\0');
      const std::string one = tar_of({{cat(1000 + i, ".png"), image}});
      return one.substr(0, one.size() - 1024);
    });
    std::filesystem::create_directories(path("images/one"));
    for (int64_t i = 0; i < kRows; ++i) {
      std::ofstream(path(cat("images/one/", 1000 + i, ".png")), std::ios::binary) << image;
    }
  }

  SourceFolder folder_;
};

TEST_CASE("each source reads data larger than its memory, and keeps no more than it may") {
  // A process that keeps all of the data runs out of memory.
  CHECK(in_little_memory([] {
          const Bytes all(kData, std::byte{1});
          return all.back() == std::byte{1} ? Status() : internal_error("memory lost its bytes");
        }) == Ending::no_memory);
  const LargeData data;
  for (const auto& [name, names] : data.sources()) {
    INFO(name);
    CHECK(in_little_memory([&, &files = names] { return read_all_rows(files); }) == Ending::read);
  }
}

}  // namespace
}  // namespace leat

#endif
