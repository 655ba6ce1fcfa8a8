// Reading ahead: the rule of the depth, the rows that are asked for, and the bytes of which each
// source tells its files.
#include "ops/data/read_ahead.h"

#include <condition_variable>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <set>

#include "devices/base/forwarding_files.h"
#include "devices/base/text.h"
#include "ops/data/sources/mixture.h"
#include "ops/formats/npy.h"
#include "ops/formats/safetensors.h"
#include "tests/catch.h"
#include "tests/ops/source_testing.h"
#include "tests/sample_files.h"

namespace leat {
namespace {

void calm_steps(ReadAheadDepth& depth, int64_t steps) {
  for (int64_t i = 0; i < steps; ++i) depth.step(false);
}

// A step that waits, after those that were on the way before.
void one_that_waits(ReadAheadDepth& depth) {
  calm_steps(depth, depth.depth());
  depth.step(true);
}

TEST_CASE("the depth of reading ahead stays 0 while no step waits") {
  ReadAheadDepth depth(64);
  calm_steps(depth, 10'000);
  CHECK(depth.depth() == 0);
}

TEST_CASE("the depth doubles while steps wait, up to its bound") {
  ReadAheadDepth depth(20);
  std::vector<int64_t> seen;
  for (int i = 0; i < 7; ++i) {
    one_that_waits(depth);
    seen.push_back(depth.depth());
  }
  CHECK(seen == std::vector<int64_t>{1, 2, 4, 8, 16, 20, 20});
  ReadAheadDepth none(0);
  for (int i = 0; i < 7; ++i) none.step(true);
  CHECK(none.depth() == 0);
}

TEST_CASE("steps that began before the depth grew do not let it grow again") {
  ReadAheadDepth depth(64);
  depth.step(true);
  CHECK(depth.depth() == 1);
  depth.step(true);  // on the way
  CHECK(depth.depth() == 1);
  depth.step(true);
  CHECK(depth.depth() == 2);
  for (int i = 0; i < 2; ++i) depth.step(true);
  CHECK(depth.depth() == 2);
  depth.step(true);
  CHECK(depth.depth() == 4);
}

TEST_CASE("many steps without a wait make the depth less, down to 0") {
  ReadAheadDepth depth(64);
  for (int i = 0; i < 4; ++i) one_that_waits(depth);
  REQUIRE(depth.depth() == 8);
  calm_steps(depth, 8);  // on the way
  std::vector<int64_t> seen;
  while (depth.depth() > 0) {
    calm_steps(depth, ReadAheadDepth::kCalmSteps - 1);
    const int64_t before = depth.depth();
    depth.step(false);
    CHECK(depth.depth() < before);
    seen.push_back(depth.depth());
  }
  CHECK(seen == std::vector<int64_t>{6, 4, 3, 2, 1, 0});
}

TEST_CASE("a descent that was too much is undone by one step, and comes later the next time") {
  ReadAheadDepth depth(64);
  for (int i = 0; i < 4; ++i) one_that_waits(depth);
  calm_steps(depth, 8 + ReadAheadDepth::kCalmSteps);
  REQUIRE(depth.depth() == 6);
  depth.step(true);
  CHECK(depth.depth() == 7);
  calm_steps(depth, 7 + 2 * ReadAheadDepth::kCalmSteps - 1);
  CHECK(depth.depth() == 7);
  depth.step(false);
  CHECK(depth.depth() == 5);
}

// The rows of batches that were asked for.
class Asked {
 public:
  ReadAhead::Ask ask() {
    return [this](int64_t batch, int64_t begin, int64_t end) {
      const std::lock_guard lock(mutex_);
      for (int64_t row = begin; row < end; ++row) rows_.emplace(batch, row);
      changed_.notify_all();
    };
  }
  // Returns when so many rows were asked for.
  std::multiset<std::pair<int64_t, int64_t>> await(size_t rows) {
    std::unique_lock lock(mutex_);
    REQUIRE(
        changed_.wait_for(lock, std::chrono::seconds(60), [&] { return rows_.size() >= rows; }));
    return rows_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::multiset<std::pair<int64_t, int64_t>> rows_;
};

TEST_CASE("the rows of the next steps are asked for once each, as far as the depth says") {
  constexpr int64_t kRows = 11;
  for (const int threads : {1, 4}) {
    Asked asked;
    ReadAhead ahead({64, kRows, threads}, asked.ask());
    ahead.begins(5);  // a job that goes on at step 5
    ahead.waited();
    ahead.begins(6);
    CHECK(ahead.depth() == 1);
    std::multiset<std::pair<int64_t, int64_t>> expected;
    const auto expect = [&](int64_t batch) {
      for (int64_t row = 0; row < kRows; ++row) expected.emplace(batch, row);
    };
    expect(7);
    CHECK(asked.await(expected.size()) == expected);
    ahead.begins(6);
    ahead.begins(5);  // a late tile
    ahead.waited();   // step 6 was on the way
    ahead.begins(7);
    expect(8);
    CHECK(asked.await(expected.size()) == expected);
    ahead.waited();
    ahead.begins(8);
    CHECK(ahead.depth() == 2);
    expect(9);
    expect(10);
    CHECK(asked.await(expected.size()) == expected);
    // It begins anew, with the depth that it has.
    ahead.begins(0);
    CHECK(ahead.depth() == 2);
    expect(1);
    expect(2);
    CHECK(asked.await(expected.size()) == expected);
  }
}

TEST_CASE("nothing is asked for while no step waits, or where the memory is too small") {
  for (const int64_t most : {0, 64}) {
    int64_t calls = 0;
    ReadAhead ahead({most, 4, 1}, [&](int64_t, int64_t, int64_t) { ++calls; });
    for (int64_t batch = 0; batch < 100; ++batch) {
      ahead.begins(batch);
      if (most == 0) ahead.waited();
    }
    ahead.begins(INT64_MAX / 4);
    CHECK(ahead.depth() == 0);
    CHECK(calls == 0);
  }
}

// Notes the bytes of its files that are read, and those of which it was told.
class WatchedFiles final : public ForwardingFiles {
 public:
  using Places = std::map<std::string, std::set<uint64_t>>;  // bytes by path
  WatchedFiles() : ForwardingFiles(real_files()) {}
  Result<std::unique_ptr<ReadableFile>> open(const std::string& path) override {
    LEAT_ASSIGN_OR_RETURN(auto file, files_.open(path));
    return std::unique_ptr<ReadableFile>(new File(*this, std::move(file)));
  }
  Places read, will_need, done_with;

 private:
  class File final : public ReadableFile {
   public:
    File(WatchedFiles& owner, std::unique_ptr<ReadableFile> file)
        : owner_(owner), file_(std::move(file)) {}
    const std::string& path() const override { return file_->path(); }
    uint64_t size() const override { return file_->size(); }
    Status read(uint64_t offset, std::span<std::byte> out) const override {
      note(owner_.read, offset, out.size());
      return file_->read(offset, out);
    }
    void advise(uint64_t offset, uint64_t size, ReadAdvice advice) const override {
      note(advice == ReadAdvice::will_need ? owner_.will_need : owner_.done_with, offset, size);
      file_->advise(offset, size, advice);
    }

   private:
    void note(Places& places, uint64_t offset, uint64_t size) const {
      std::set<uint64_t>& bytes = places[path()];
      for (uint64_t at = offset; at < std::min(offset + size, file_->size()); ++at)
        bytes.insert(at);
    }
    WatchedFiles& owner_;
    const std::unique_ptr<ReadableFile> file_;
  };
};

constexpr int64_t kRows = 12;

// The same few rows in files of the formats whose rows stay in files.
std::map<std::string, DatasetFiles> files_of_formats(const SourceFolder& folder) {
  Tensor x(DType::f32, Shape{kRows, 5});
  for (int64_t i = 0; i < x.elements(); ++i) x.set(i, static_cast<double>(i));
  folder.write("x.npy", text_of_bytes(must(format_npy(x))));
  folder.write("x.safetensors", text_of_bytes(must(format_safetensors({{{"x", x}}, {}}))));
  std::string csv = "x,y\n", jsonl, tokens;
  std::vector<std::pair<std::string, std::string>> samples;
  std::vector<std::string> records;
  for (int64_t row = 0; row < kRows; ++row) {
    const std::string image =
        png_of(8, 8, [&](uint32_t a, uint32_t b, int) { return static_cast<uint8_t>(a * b + 1); });
    csv += cat(row, ",", 2 * row, "\n");
    jsonl += cat("{\"x\": ", row, "}\n");
    tokens += std::string(6, static_cast<char>('a' + row));
    samples.emplace_back(cat(100 + row, ".png"), image);
    samples.emplace_back(cat(100 + row, ".cls"), cat(row % 3));
    records.push_back(example_of({feature_of("x", floats_of({static_cast<float>(row)}))}));
    std::filesystem::create_directories(folder.directory / cat("images/class-", row % 2));
    folder.write(cat("images/class-", row % 2, "/", 100 + row, ".png"), image);
  }
  folder.write("t.csv", csv);
  folder.write("t.jsonl", jsonl);
  folder.write("t.bin", tokens);
  folder.write("t.tar", tar_of(samples));
  folder.write("t.tfrecord", tfrecord_of(records));
  std::map<std::string, DatasetFiles> out{
      {"npy", folder.names("npy", {"x=x.npy"})},
      {"safetensors", folder.names("safetensors", {"x.safetensors"})},
      {"csv", folder.names("csv", {"t.csv"}, {"columns:x=", "columns:y="})},
      {"jsonl", folder.names("jsonl", {"t.jsonl"}, {"columns:x="})},
      {"tfrecord", folder.names("tfrecord", {"t.tfrecord"}, {"columns:x="})},
      {"webdataset",
       folder.names("webdataset", {"t.tar"},
                    {"columns:image=", "columns:image:ext=png", "columns:image:size=4",
                     "columns:labels=", "columns:labels:ext=cls", "columns:labels:dtype=int64"})},
      {"image_folder", folder.names("image_folder", {"images"}, {"size=4"})}};
  DatasetFiles mixture = folder.names("mixture", {});
  for (const char* name : {"npy", "safetensors"}) {
    DatasetFiles part = out.at(name);
    part.root.clear();
    add_mixture_part({name, 1, part}, mixture.options);
  }
  out["mixture"] = mixture;
  DatasetFiles tokens_names = folder.names("tokens", {"t.bin"});
  tokens_names.window = 8;
  tokens_names.stride = 6;
  tokens_names.element = DType::u8;
  out["tokens"] = tokens_names;
  tokens_names.options = {"separator=98"};
  out["tokens with documents"] = tokens_names;
  return out;
}

void read_all_columns(const Dataset& data, int64_t row) {
  std::vector<Bytes> bytes;
  std::vector<std::byte*> outs;
  for (const ColumnInfo& column : data.info().columns)
    bytes.emplace_back(static_cast<size_t>(column.row_bytes()));
  for (Bytes& each : bytes) outs.push_back(each.data());
  must(data.read_row(row, outs));
}

bool covers(const WatchedFiles::Places& told, const WatchedFiles::Places& read) {
  for (const auto& [path, bytes] : read) {
    const auto found = told.find(path);
    if (found == told.end() ||
        !std::includes(found->second.begin(), found->second.end(), bytes.begin(), bytes.end()))
      return false;
  }
  return true;
}

TEST_CASE("each source whose rows are in files has their bytes brought before, and no others") {
  const SourceFolder folder;
  for (const auto& [name, files] : files_of_formats(folder)) {
    INFO(name);
    WatchedFiles watched;
    const auto data = must(Dataset::open(watched, files, 1));
    CHECK(data->reads_files());
    for (int64_t row = data->info().count - 1; row >= 0; --row) {
      watched.read = watched.will_need = watched.done_with = {};
      data->advise(row, ReadAdvice::will_need);
      CHECK(watched.read.empty());
      const WatchedFiles::Places told = watched.will_need;
      read_all_columns(*data, row);
      CHECK(!watched.read.empty());
      // A reader of text reads a window of its file, from where the record begins.
      const bool in_windows = name == "csv" || name == "jsonl";
      for (auto& [path, bytes] : watched.read) {
        if (in_windows) bytes.erase(std::next(bytes.begin()), bytes.end());
      }
      // The sums of a record of TFRecord are beside it.
      if (name == "tfrecord") {
        CHECK(covers(watched.read, told));
      } else {
        CHECK(covers(told, watched.read));
      }
      if (!in_windows) CHECK(told.begin()->second.size() < 1000);
      data->advise(row, ReadAdvice::done_with);
      CHECK(watched.done_with == told);
    }
  }
}

TEST_CASE(
    "rows are dropped from memory after a read only if the files are larger than half of it") {
  const SourceFolder folder;
  for (const auto& [name, files] : files_of_formats(folder)) {
    if (name == "image_folder") continue;  // whose sizes are not known
    INFO(name);
    CHECK(must(Dataset::open(real_files(), files, 1, 100))->ahead().drops_rows);
    CHECK(!must(Dataset::open(real_files(), files, 1, uint64_t{1} << 30))->ahead().drops_rows);
  }
}

TEST_CASE("all readers of a data set share the memory of the rows that are read ahead") {
  const SourceFolder folder;
  const auto files = files_of_formats(folder);
  // An eighth of the memory, with a page for a row.
  const auto data = must(Dataset::open(real_files(), files.at("npy"), 1, uint64_t{8} * 4096 * 40));
  data->add_reader(4);
  CHECK(data->most_steps_ahead() == 10);
  data->add_reader(4);
  CHECK(data->most_steps_ahead() == 5);
  data->add_reader(100);
  CHECK(data->most_steps_ahead() == 0);
  data->remove_reader(100);
  data->remove_reader(4);
  CHECK(data->most_steps_ahead() == 10);
  data->remove_reader(3);
  CHECK(data->most_steps_ahead() == 40);
}

}  // namespace
}  // namespace leat
