#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>

#include "devices/base/text.h"
#include "ops/data/dataset.h"
#include "ops/data/dataset_memory.h"
#include "ops/data/sharding.h"
#include "ops/data/source_formats.h"
#include "ops/formats/npy.h"
#include "tests/catch.h"
#include "tests/gzip.h"
#include "tests/ops/job_testing.h"
#include "tests/temporary_directory.h"

namespace leat {
namespace {

using testing::TestJob;
using Ints = std::vector<int64_t>;
using Texts = std::vector<std::string>;

// `count` records of float[2]: record i is {i, -i}, its label is i.
constexpr int64_t kCount = 103;

class DataFolder {
 public:
  explicit DataFolder(int64_t count = kCount) {
    Tensor features(DType::f32, {count, 2}), labels(DType::i64, {count});
    for (int64_t i = 0; i < count; ++i) {
      features.set(2 * i, static_cast<double>(i));
      features.set(2 * i + 1, static_cast<double>(-i));
      labels.set(i, static_cast<double>(i));
    }
    write("x.npy", features);
    write("y.npy", labels);
  }
  void write(const std::string& name, const Tensor& tensor) const {
    REQUIRE(write_npy(real_files(), directory / name, tensor).ok());
  }
  void write(const std::string& name, const std::vector<uint8_t>& bytes) const {
    REQUIRE(write_file_atomically(real_files(), directory / name, std::as_bytes(std::span(bytes)))
                .ok());
  }
  TemporaryDirectory directory;
};

Attrs reader(int64_t global_batch, Attrs more = {}) {
  Attrs attrs = {
      {"format", std::string("npy")},           {"files", Texts{"features=x.npy", "labels=y.npy"}},
      {"columns", Texts{"features", "labels"}}, {"types", Texts{"float[2]", "int64[]"}},
      {"global_batch", global_batch},           {"rows", global_batch}};
  for (auto& [name, value] : more) attrs[name] = std::move(value);
  return attrs;
}

// A graph that reads batches with one reader for each shard.
class Reading {
 public:
  Reading(const DataFolder& data, int64_t global_batch, const Attrs& more = {},
          int64_t shards = 1) {
    job.resources.set_data_root(data.directory.path());
    index = job.input("index", DType::i64, {});
    int64_t first = 0;
    for (int64_t s = 0; s < shards; ++s) {
      Attrs attrs = reader(global_batch, more);
      const int64_t rows = global_batch / shards + (s < global_batch % shards ? 1 : 0);
      attrs["rows"] = rows;
      const NodeId node = job.add_node("leat.ReadBatch", {index}, attrs, 3);
      job.graph.node(node).first_row = first;
      nodes.push_back(node);
      first += rows;
    }
  }
  Result<std::vector<Tensor>> try_read(int64_t i) {
    std::vector<ValueId> fetches;
    for (NodeId node : nodes) {
      for (ValueId output : job.graph.node(node).outputs) fetches.push_back(output);
    }
    return job.try_run({{index, Tensor::scalar(i)}}, fetches);
  }
  // Returns the labels of global batch i, -1 for rows without a record, and checks the features.
  Ints labels(int64_t i) {
    auto batch = try_read(i);
    INFO(batch.status());
    REQUIRE(batch.ok());
    Ints out;
    for (size_t s = 0; s < nodes.size(); ++s) {
      const Tensor &x = (*batch)[3 * s], &y = (*batch)[3 * s + 1], &weights = (*batch)[3 * s + 2];
      for (int64_t row = 0; row < y.elements(); ++row) {
        const bool real = weights.at(row) == 1;
        const double label = y.at(row);
        if (!real) CHECK((weights.at(row) == 0 && label == 0));
        if (x.at(2 * row) != label || x.at(2 * row + 1) != -label)
          FAIL("features and label disagree");
        out.push_back(real ? y.int_at(row) : -1);
      }
    }
    return out;
  }
  Ints sequence(int64_t batches) {
    Ints out;
    for (int64_t i = 0; i < batches; ++i) {
      for (int64_t label : labels(i)) out.push_back(label);
    }
    return out;
  }
  TestJob job;
  ValueId index;
  std::vector<NodeId> nodes;
};

Ints slice(const Ints& all, int64_t from, int64_t count) {
  return Ints(all.begin() + from, all.begin() + from + count);
}

TEST_CASE("every epoch reads every record once, in the same order for any number of shards") {
  const DataFolder data;
  constexpr int64_t kBatch = 16, kEpochs = 3;
  constexpr int64_t kBatches = (kEpochs * kCount + kBatch - 1) / kBatch;
  Ints first;
  for (const int64_t shards : {1, 2, 3, 5, 16}) {
    INFO(shards << " shards");
    Reading reading(data, kBatch, {{"seed", int64_t{7}}}, shards);
    const Ints all = reading.sequence(kBatches);
    if (first.empty()) first = all;
    CHECK(all == first);
    for (int64_t epoch = 0; epoch < kEpochs; ++epoch) {
      const Ints one = slice(all, epoch * kCount, kCount);
      CHECK(std::set<int64_t>(one.begin(), one.end()).size() == kCount);
      CHECK(*std::min_element(one.begin(), one.end()) == 0);
      CHECK(*std::max_element(one.begin(), one.end()) == kCount - 1);
    }
  }
  CHECK(slice(first, 0, kCount) != slice(first, kCount, kCount));
  CHECK(slice(first, kCount, kCount) != slice(first, 2 * kCount, kCount));
}

TEST_CASE("the order depends on the seed and on nothing else") {
  const DataFolder data;
  const auto order = [&](int64_t seed, int64_t batch) {
    return slice(Reading(data, batch, {{"seed", seed}}).sequence(kCount / batch + 1), 0, kCount);
  };
  CHECK(order(1, 10) == order(1, 10));
  CHECK(order(1, 10) == order(1, 33));  // the batch size only divides it
  CHECK(order(1, 10) != order(2, 10));
  CHECK(order(1, 10) != order(int64_t{1} << 32 | 1, 10));
  CHECK(order(-1, 10) != order(1, 10));
}

TEST_CASE("shards that do not share an order have all rows each, in orders of their own") {
  const DataFolder data;
  constexpr int64_t kShards = 4, kRows = 8;
  Reading reading(data, kShards * kRows, {{"seed", int64_t{7}}, {"sharding", std::string("off")}},
                  kShards);
  std::map<int64_t, Ints> of_shard;
  for (int64_t step = 0; step < 26; ++step) {  // two epochs of 103 rows, and a bit
    const Ints batch = reading.labels(step);
    for (int64_t s = 0; s < kShards; ++s) {
      for (const int64_t label : slice(batch, s * kRows, kRows)) of_shard[s].push_back(label);
    }
  }
  std::set<Ints> orders;
  for (const auto& [shard, labels] : of_shard) {
    for (int64_t epoch = 0; epoch < 2; ++epoch) {
      const Ints one = slice(labels, epoch * kCount, kCount);
      CHECK(std::set<int64_t>(one.begin(), one.end()).size() == kCount);
      orders.insert(one);
    }
  }
  CHECK(orders.size() == 2 * kShards);
}

TEST_CASE("a shard of files reads those, and begins again when it has had each row") {
  const DataFolder data;
  // Five files of 3, 0, 4, 5 and 1 rows: shard 0 has the files a, c and e, shard 1 has b and d.
  int64_t label = 0;
  const std::vector<std::pair<std::string, int64_t>> files = {
      {"a", 3}, {"b", 0}, {"c", 4}, {"d", 5}, {"e", 1}};
  for (const auto& [name, rows] : files) {
    std::string text = "label\n";
    for (int64_t i = 0; i < rows; ++i) text += cat(label++, "\n");
    data.write(name + ".csv", std::vector<uint8_t>(text.begin(), text.end()));
  }
  TestJob job;
  job.resources.set_data_root(data.directory.path());
  const ValueId index = job.input("index", DType::i64, {});
  const Attrs attrs = {{"format", std::string("csv")},
                       {"files", Texts{"a.csv", "b.csv", "c.csv", "d.csv", "e.csv"}},
                       {"columns", Texts{"label"}},
                       {"types", Texts{"int64[]"}},
                       {"options", Texts{"columns:label=", "columns:label:dtype=int64"}},
                       {"global_batch", int64_t{4}},
                       {"rows", int64_t{2}},
                       {"shuffle", int64_t{0}},
                       {"sharding", std::string("file")}};
  std::vector<ValueId> fetches;
  for (int64_t shard = 0; shard < 2; ++shard) {
    const NodeId node = job.add_node("leat.ReadBatch", {index}, attrs, 1);
    job.graph.node(node).first_row = 2 * shard;
    fetches.push_back(job.graph.node(node).outputs[0]);
  }
  Ints first, second;
  for (int64_t step = 0; step < 5; ++step) {
    const auto batch = job.try_run({{index, Tensor::scalar(step)}}, fetches);
    INFO(batch.status());
    REQUIRE(batch.ok());
    for (int64_t row = 0; row < 2; ++row) {
      first.push_back((*batch)[0].int_at(row));
      second.push_back((*batch)[1].int_at(row));
    }
  }
  CHECK(first == Ints{0, 1, 2, 3, 4, 5, 6, 12, 0, 1});
  CHECK(second == Ints{7, 8, 9, 10, 11, 7, 8, 9, 10, 11});
}

TEST_CASE("a data set that cannot be parted by its files is refused") {
  DatasetInfo info;
  info.count = 12;
  CHECK(check_sharding(info, Sharding::off, 4).ok());
  CHECK_THAT(check_sharding(info, Sharding::file, 2).message(),
             Catch::Contains("expected data or off with a format whose rows do not lie in files"));
  info.first_rows = {0, 0, 5};  // files of 0, 5 and 7 rows
  CHECK(check_sharding(info, Sharding::file, 2).ok());
  CHECK(epoch_rows(info, Sharding::data, 2) == 12);
  CHECK(epoch_rows(info, Sharding::file, 2) == 14);
  CHECK(epoch_rows(info, Sharding::off, 2) == 24);
  CHECK_THAT(check_sharding(info, Sharding::file, 3).message(),
             Catch::Contains("received none in those of shard 0"));
  CHECK_THAT(check_sharding(info, Sharding::file, 4).message(),
             Catch::Contains("expected at least a file for each of 4 shards, received 3 files"));
}

TEST_CASE("a batch is a function of its index, not of what was read before") {
  const DataFolder data;
  Reading forward(data, 8), backward(data, 8);
  std::vector<Ints> a, b;
  for (int64_t i = 0; i < 30; ++i) a.push_back(forward.labels(i));
  for (int64_t i = 29; i >= 0; --i) b.push_back(backward.labels(i));
  std::reverse(b.begin(), b.end());
  CHECK(a == b);
  CHECK(forward.labels(1'000'000'000'000) == backward.labels(1'000'000'000'000));
}

TEST_CASE("without shuffle records come in the order of the file, epoch after epoch") {
  const DataFolder data;
  const Ints all = Reading(data, 10, {{"shuffle", int64_t{0}}}).sequence(25);
  for (size_t p = 0; p < all.size(); ++p) CHECK(all[p] == static_cast<int64_t>(p) % kCount);
}

TEST_CASE("without wrap the last batch is filled with rows of weight 0") {
  const DataFolder data;
  for (const int64_t shuffle : {0, 1}) {
    for (const int64_t shards : {1, 3}) {
      Reading reading(data, 10, {{"wrap", int64_t{0}}, {"shuffle", shuffle}}, shards);
      Ints all = reading.sequence(12);
      for (size_t p = kCount; p < all.size(); ++p) CHECK(all[p] == -1);
      all.resize(kCount);
      std::sort(all.begin(), all.end());
      for (int64_t i = 0; i < kCount; ++i) CHECK(all[static_cast<size_t>(i)] == i);
    }
  }
}

TEST_CASE("tiles of any size in any order read the same batch") {
  const DataFolder data;
  Reading reading(data, 50);
  const auto whole = reading.try_read(3);  // the batch spans two epochs
  REQUIRE(whole.ok());
  for (const int64_t rows : {1, 3, 50}) {
    for (const bool reverse : {false, true}) {
      InterpretOptions options;
      options.resources = &reading.job.resources;
      options.device = &reading.job.resources.device();
      options.tile_rows = rows;
      options.reverse_tiles = reverse;
      const auto& outputs = reading.job.graph.node(reading.nodes[0]).outputs;
      const auto cut = interpret(reading.job.graph, {{reading.index, Tensor::scalar<int64_t>(3)}},
                                 outputs, {}, options);
      REQUIRE(cut.ok());
      for (size_t i = 0; i < 3; ++i) testing::check_identical((*cut)[i], (*whole)[i]);
    }
  }
}

TEST_CASE("weights, and labels, need not be read") {
  const DataFolder data;
  Reading reading(data, 5);
  for (int outputs = 1; outputs <= 2; ++outputs) {
    const NodeId node = reading.job.add_node("leat.ReadBatch", {reading.index}, reader(5), outputs);
    const auto batch = reading.job.run({{reading.index, Tensor::scalar<int64_t>(2)}},
                                       {reading.job.graph.node(node).outputs[0]});
    testing::check_identical(batch[0], (*reading.try_read(2))[0]);
  }
}

TEST_CASE("a job opens a data set once") {
  const DataFolder data;
  Reading reading(data, 5);
  const Ints before = reading.labels(0);
  std::filesystem::remove(data.directory / "x.npy");
  CHECK(reading.labels(0) == before);
  CHECK(Reading(data, 5).try_read(0).status().code() == Code::failed_precondition);
}

TEST_CASE("IDX files are read, plain") {
  const DataFolder data;
  data.write("images", {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 3, 1, 2, 3, 4, 5, 6});
  data.write("labels", {0, 0, 8, 1, 0, 0, 0, 2, 9, 8});
  TestJob job;
  job.resources.set_data_root(data.directory.path());
  const ValueId index = job.input("index", DType::i64, {});
  const NodeId node = job.add_node("leat.ReadBatch", {index},
                                   {{"format", std::string("idx")},
                                    {"files", Texts{"features=images", "labels=labels"}},
                                    {"columns", Texts{"features", "labels"}},
                                    {"types", Texts{"uint8[1,3]", "uint8[]"}},
                                    {"global_batch", int64_t{2}},
                                    {"rows", int64_t{2}},
                                    {"shuffle", int64_t{0}}},
                                   2);
  const auto& outputs = job.graph.node(node).outputs;
  const auto batch = job.run({{index, Tensor::scalar<int64_t>(0)}}, {outputs[0], outputs[1]});
  testing::check_identical(batch[0], Tensor::of<uint8_t>({2, 1, 3}, {1, 2, 3, 4, 5, 6}));
  testing::check_identical(batch[1], Tensor::of<uint8_t>({2}, {9, 8}));
  const auto info = inspect_dataset(
      real_files(), labelled_files("idx", "images", "labels", data.directory.path()));
  REQUIRE(info.ok());
  CHECK(info->count == 2);
  REQUIRE(info->columns.size() == 2);
  CHECK(info->columns[0] == ColumnInfo{"features", DType::u8, Shape{1, 3}});
  CHECK(info->columns[1] == ColumnInfo{"labels", DType::u8, Shape()});
}

TEST_CASE("inspecting a data set reads its headers only") {
  const DataFolder data;
  std::vector<uint8_t> images{0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 4, 5, 6};
  data.write("labels", {0, 0, 8, 1, 0, 0, 0, 2, 9, 8});
  const auto inspect = [&](const std::string& features) {
    return inspect_dataset(real_files(),
                           labelled_files("idx", features, "labels", data.directory.path()));
  };
  // The elements of a compressed file are not read, but the size of a plain file is checked.
  const std::string packed = gzipped(std::string(images.begin(), images.end()));
  const std::string cut = packed.substr(0, packed.size() - 8);
  data.write("packed", {cut.begin(), cut.end()});
  const auto info = inspect("packed");
  REQUIRE(info.ok());
  CHECK(info->count == 2);
  CHECK(info->columns[0].shape == Shape{3});
  CHECK_FALSE(
      Dataset::open(real_files(), labelled_files("idx", "packed", "labels", data.directory.path()))
          .ok());
  images.pop_back();
  data.write("short", images);
  const auto refused = inspect("short");
  REQUIRE(!refused.ok());
  CHECK(refused.status().message().find("expected 6 bytes") != std::string::npos);
  CHECK(inspect_dataset(real_files(),
                        labelled_files("xls", "packed", "labels", data.directory.path()))
            .status()
            .message() == cat("format: expected ", source_format_names(), ", received 'xls'"));
  CHECK(source_format_names().find("'idx', 'npy', 'npz', 'tokens'") == 0);
}

TEST_CASE("a label that is no class is found with its row") {
  const DataFolder data;
  data.write("labels.npy", Tensor::of<int32_t>({3, 2}, {0, 1, 2, 0, -1, 2}));
  DatasetFiles names;
  names.format = "npy";
  names.files = {"labels=labels.npy"};
  names.root = data.directory.path();
  const Status status = check_classes(real_files(), names, {"labels", 3, {}});
  CHECK(status.code() == Code::invalid_argument);
  CHECK(status.message() == "'labels.npy': label of row 2: expected in [0, 2], received -1");
  CHECK(check_classes(real_files(), names, {"labels", 2, {}})
            .message()
            .find("row 1: expected in [0, 1]") != std::string::npos);
  data.write("labels.npy", Tensor::of<int32_t>({3, 2}, {0, 1, 2, 0, 1, 2}));
  CHECK(check_classes(real_files(), names, {"labels", 3, {}}).ok());
}

TEST_CASE("labels are checked in pieces, in either order of the elements") {
  const DataFolder data;
  constexpr int64_t kRows = 100'000;
  Tensor labels(DType::u8, {kRows, 2});
  labels.set(2 * 90'001 + 1, 3);
  data.write("labels.npy", labels);
  DatasetFiles names;
  names.format = "npy";
  names.files = {"labels=labels.npy"};
  names.root = data.directory.path();
  CHECK(check_classes(real_files(), names, {"labels", 4, {}}).ok());
  CHECK(check_classes(real_files(), names, {"labels", 3, {}}).message() ==
        "'labels.npy': label of row 90001: expected in [0, 2], received 3");
  const auto c_order = read_file(real_files(), data.directory / "labels.npy", 1 << 20);
  REQUIRE(c_order.ok());
  // The same bytes in the other order: this is the last label but one of the second column.
  std::vector<uint8_t> fortran(c_order->size());
  std::memcpy(fortran.data(), c_order->data(), fortran.size());
  const std::string_view before = "False, ", after = "True,  ";
  const auto at = std::search(fortran.begin(), fortran.end(), before.begin(), before.end());
  REQUIRE(at != fortran.end());
  std::copy(after.begin(), after.end(), at);
  data.write("labels.npy", fortran);
  CHECK(check_classes(real_files(), names, {"labels", 3, {}}).message() ==
        "'labels.npy': label of row 80003: expected in [0, 2], received 3");
}

TEST_CASE("a data set is read if its memory is granted, which its headers tell") {
  const DataFolder data;
  std::vector<std::pair<std::string, uint64_t>> asked;
  Status answer = resource_exhausted("no room");
  Reading reading(data, 5);
  limit_dataset_memory(reading.job.resources, [&](const std::string& name, uint64_t bytes) {
    asked.emplace_back(name, bytes);
    return answer;
  });
  const Status refused = reading.try_read(0).status();
  CHECK(refused.code() == Code::resource_exhausted);
  CHECK(refused.message().find("no room") != std::string::npos);
  answer = {};
  CHECK(reading.labels(0).size() == 5);
  const std::pair<std::string, uint64_t> all{"x.npy", kCount * (2 * sizeof(float) + 8)};
  CHECK(asked == std::vector{all, all});
  CHECK(reading.labels(1).size() == 5);
  CHECK(asked.size() == 2);
}

TEST_CASE("a fingerprint tells files of one size apart, wherever they differ at an end") {
  const DataFolder data;
  std::vector<uint8_t> bytes((size_t{1} << 21) + 5, 7);
  const auto print = [&] {
    data.write("f", bytes);
    const auto text = fingerprint(real_files(), data.directory / "f");
    REQUIRE(text.ok());
    return *text;
  };
  const std::string same = print();
  CHECK(same.starts_with("2097157 bytes, crc32c "));
  CHECK(print() == same);
  bytes.back() = 8;
  CHECK(print() != same);
  bytes.back() = 7;
  bytes.front() = 8;
  CHECK(print() != same);
  bytes = {};
  CHECK(print() == "0 bytes, crc32c 00000000");
}

TEST_CASE("an index out of range fails the step") {
  const DataFolder data;
  Reading reading(data, 10);
  CHECK_FALSE(reading.labels(INT64_MAX / 10 - 1).empty());
  for (const int64_t index : {int64_t{-1}, INT64_MAX / 10, INT64_MAX}) {
    const auto result = reading.try_read(index);
    REQUIRE(!result.ok());
    CHECK(result.status().code() == Code::invalid_argument);
    CHECK(result.status().message().find(cat("received ", index)) != std::string::npos);
  }
}

TEST_CASE("data that does not fit the attributes is refused when the kernel is made") {
  const DataFolder data;
  data.write("three.npy", Tensor(DType::i64, {3}));
  data.write("scalar.npy", Tensor(DType::i64, {}));
  data.write("none.npy", Tensor(DType::i64, {0}));
  data.write("short", {0, 0, 8, 1, 0, 0, 0, 9, 1});
  const auto refused = [&](const Attrs& more) {
    const auto result = Reading(data, 4, more).try_read(0);
    REQUIRE(!result.ok());
    return result.status().to_string();
  };
  const auto starts = [](const std::string& text, std::string_view code) {
    return text.starts_with(code);
  };
  const auto has = [](const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
  };
  const auto types = [](const std::string& features, const std::string& labels) {
    return Attrs{{"types", Texts{features, labels}}};
  };
  const auto files = [](const std::string& features, const std::string& labels) {
    return Attrs{{"files", Texts{"features=" + features, "labels=" + labels}}};
  };
  auto text = refused(types("float[3]", "int64[]"));
  CHECK(starts(text, "failed_precondition"));
  CHECK(has(text, "features: expected float[3] as the attributes say, the files hold float[2]"));
  CHECK(has(refused(types("double[2]", "int64[]")), "expected double[2]"));
  CHECK(has(refused(types("float[2]", "int64[1]")), "labels: expected int64[1]"));
  CHECK(has(refused(types("float[2]", "int32[]")), "labels: expected int32[]"));
  text = refused(files("x.npy", "three.npy"));
  CHECK(starts(text, "invalid_argument"));
  CHECK(has(text, "expected 103 rows, as 'x.npy' has, received 3"));
  CHECK(has(refused(files("x.npy", "scalar.npy")),
            "expected an array of records, received a scalar"));
  CHECK(has(refused(files("none.npy", "none.npy")), "at least one record"));
  CHECK(has(refused({{"columns", Texts{"features", "label"}}}),
            "column 'label': expected one of features, labels (did you mean 'labels'?)"));
  text = refused(files("missing.npy", "y.npy"));
  CHECK(starts(text, "failed_precondition"));
  CHECK(has(text, "missing.npy"));
  CHECK(has(text, "while opening the data of leat.ReadBatch"));
  CHECK(starts(refused({{"format", std::string("idx")}}), "invalid_argument"));
  Attrs short_file = files("short", "y.npy");
  short_file["format"] = std::string("idx");
  CHECK(has(refused(short_file), "short"));
}

TEST_CASE("a graph names no path outside the data root") {
  const DataFolder data, elsewhere;
  const auto root = data.directory.path();
  std::filesystem::create_directory(root + "/sub");
  std::filesystem::create_symlink(elsewhere.directory / "x.npy", root + "/out.npy");
  std::filesystem::create_symlink(elsewhere.directory.path(), root + "/away");
  std::filesystem::create_symlink("../x.npy", root + "/sub/in.npy");
  for (const std::string& path :
       {std::string("../x.npy"), std::string("sub/../x.npy"), elsewhere.directory / "x.npy",
        root + "/x.npy", std::string("out.npy"), std::string("away/x.npy"), std::string()}) {
    INFO(path);
    CHECK(resolve_below(root, path).status().code() == Code::invalid_argument);
    CHECK(
        inspect_dataset(real_files(), labelled_files("npy", path, "y.npy", root)).status().code() ==
        Code::invalid_argument);
    CHECK(
        inspect_dataset(real_files(), labelled_files("npy", "x.npy", path, root)).status().code() ==
        Code::invalid_argument);
  }
  CHECK(inspect_dataset(real_files(), labelled_files("npy", "sub/in.npy", "./y.npy", root)).ok());
  CHECK(inspect_dataset(real_files(), labelled_files("npy", elsewhere.directory / "x.npy",
                                                     elsewhere.directory / "y.npy", ""))
            .ok());
  CHECK(resolve_below(root + "/nowhere", "x.npy").status().code() == Code::failed_precondition);
  std::filesystem::create_symlink("ring", root + "/ring");
  const Status ring = resolve_below(root, "ring/x.npy").status();
  CHECK(ring.code() == Code::failed_precondition);
  CHECK(ring.message().find("/ring/x.npy': Too many levels of symbolic links") !=
        std::string::npos);
  // A root whose name begins with another root's name is a different root.
  std::filesystem::create_directory(root + "x");
  CHECK(resolve_below(root, "../" + std::filesystem::path(root + "x").filename().string())
            .status()
            .code() == Code::invalid_argument);
  std::filesystem::create_symlink(root + "x", root + "/beside");
  CHECK(resolve_below(root, "beside").status().code() == Code::invalid_argument);
  std::filesystem::remove(root + "x");
}

TEST_CASE("a reader's attributes are checked at the gate") {
  const DataFolder data;
  const auto message = [&](const Attrs& more) {
    TestJob job;
    job.add_node("leat.ReadBatch", {job.input("index", DType::i64, {})}, reader(4, more), 3);
    const Status status = validate(job.graph);
    CHECK(status.code() == Code::invalid_argument);
    return status.message();
  };
  const auto has = [](const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
  };
  CHECK(has(message({{"format", std::string("xls")}}),
            cat("format: expected ", source_format_names(), ", received 'xls'")));
  CHECK(has(message({{"rows", int64_t{0}}}), "rows: expected 1 to 4"));
  CHECK(has(message({{"rows", int64_t{5}}}), "received 5"));
  CHECK(has(message({{"global_batch", int64_t{0}}}), "global_batch: expected >= 1"));
  for (const std::string type : {"f32[2]", "float", "float[", "float[1,1,1,1,1,1,1,1]", "float[-1]",
                                 "float[1,]", "float[1;2]", "float[x]", "[2]", ""}) {
    INFO(type);
    CHECK(has(message({{"types", Texts{type, "int64[]"}}}),
              "types: expected a type such as uint8[28,28] with at most 7 sizes >= 0, received '"));
  }
  CHECK(has(message({{"types", Texts{"float[2]"}}}), "2 columns and 1 types"));
  CHECK(has(message({{"columns", Texts{}}, {"types", Texts{}}}), "0 columns"));
  CHECK(has(message({{"columns", Texts{"a=features", "a=labels"}}}), "'a' is there twice"));
  CHECK(has(message({{"columns", Texts{"features[1]", "labels"}}}), "NAME=COLUMN[BEGIN:END]"));
  CHECK(has(message({{"files", Texts{"x.npy"}}}), "files: expected COLUMN=PATH"));
  CHECK(has(message({{"sharding", std::string("files")}}),
            "sharding: expected one of data, file, off, received 'files'"));
  CHECK(has(message({{"sharding", std::string("off")}, {"wrap", int64_t{0}}}),
            "sharding: off: expected wrap and shards of the same number of rows"));
  CHECK(has(message({{"format", std::string("tokens")}}), "a window and a stride of at least 1"));
  TestJob job;
  job.add_node("leat.ReadBatch", {job.input("index", DType::i64, {1})}, reader(4), 3);
  CHECK(has(validate(job.graph).message(), "index: expected a scalar"));
}

TEST_CASE("an instance's rows must lie in the global batch") {
  const DataFolder data;
  Reading reading(data, 10, {}, 2);
  reading.job.graph.node(reading.nodes[1]).first_row = 6;
  CHECK(reading.try_read(0).status().code() == Code::invalid_argument);
  reading.job.graph.node(reading.nodes[1]).first_row = -1;
  CHECK(reading.try_read(0).status().code() == Code::invalid_argument);
  reading.job.graph.node(reading.nodes[1]).first_row = 5;
  CHECK(reading.try_read(0).ok());
}

TEST_CASE("readers are neither folded nor merged") {
  const OpDef& op = *testing::test_catalogue().find("leat.ReadBatch");
  CHECK(op.stateful);
  CHECK(op.per_shard);
  CHECK_FALSE(op.pure());
}

}  // namespace
}  // namespace leat
