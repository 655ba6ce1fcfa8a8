// `leat predict` on rows from every source, written as npy, CSV and JSON lines.
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "devices/base/text.h"
#include "ops/formats/npy.h"
#include "tests/catch.h"
#include "tests/daemon/image_files.h"
#include "tests/daemon/leat_process.h"
#include "tests/daemon/table_files.h"
#include "tests/daemon/training_testing.h"
#include "tests/must.h"

namespace leat {
namespace {

using Json = nlohmann::json;

constexpr int64_t kPredicted = 60, kScores = 4;

// The numbers of a file of predictions, row by row, as the file's text has them.
std::vector<std::string> scores_of_csv(const std::string& path) {
  std::vector<std::string> out;
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  for (int64_t row = 0; std::getline(in, line); ++row) {
    std::istringstream fields(line);
    std::string field;
    std::getline(fields, field, ',');
    CHECK(field == std::to_string(row));
    while (std::getline(fields, field, ',')) out.push_back(field);
  }
  return out;
}

std::vector<float> scores_of_lines(const std::string& path) {
  std::vector<float> out;
  std::ifstream in(path);
  int64_t row = 0;
  for (std::string line; std::getline(in, line); ++row) {
    const Json json = Json::parse(line);
    CHECK(json.at("row") == row);
    for (const Json& score : json.at("scores")) out.push_back(score.get<float>());
  }
  return out;
}

// A trained run in a folder, and predictions of it.
class SourceRun {
 public:
  explicit SourceRun(const char* graph) : small(graph) {}
  void train(const std::vector<std::string>& set) {
    Silent watch;
    small.train(small.job(set), "run", watch);
  }
  // The predictions of the rows of a source: the three forms have the same numbers.
  Tensor predict(const std::string& source) const {
    for (const char* form : {"npy", "csv", "jsonl"}) {
      const Finished done =
          run_leat(small.path(), {"predict", "run", "--data", source, "-o", cat("out.", form)});
      INFO(source << "\n" << done.out << done.err);
      REQUIRE(done.exit_code == 0);
    }
    const Tensor scores = must(read_npy(real_files(), small.path("out.npy")));
    const auto texts = scores_of_csv(small.path("out.csv"));
    const auto numbers = scores_of_lines(small.path("out.jsonl"));
    REQUIRE(static_cast<int64_t>(texts.size()) == scores.elements());
    REQUIRE(static_cast<int64_t>(numbers.size()) == scores.elements());
    bool equal = true;
    for (int64_t i = 0; i < scores.elements(); ++i) {
      const auto score = static_cast<float>(scores.at(i));
      equal = equal && std::stof(texts[static_cast<size_t>(i)]) == score &&
              numbers[static_cast<size_t>(i)] == score;
    }
    CHECK(equal);
    for (const char* form : {"npy", "csv", "jsonl"})
      std::filesystem::remove(small.path(cat("out.", form)));
    return scores;
  }

  SmallJob small;
};

TEST_CASE("the rows of a table have the same predictions from every source") {
  SourceRun run(kTableModel);
  write_table_files(run.small.path("all"), 0, kPredicted);
  write_table_files(run.small.path("part-1"), 0, 23);
  write_table_files(run.small.path("part-2"), 23, kPredicted);
  run.train(table_settings(table_source("csv"), {"steps=20"}));
  const Tensor expected = run.predict("{format: npy, files: {features: all-x.npy}}");
  REQUIRE(expected.shape() == Shape{kPredicted, kScores});
  for (const std::string& format : table_formats()) {
    INFO(format);
    CHECK(run.predict(table_source(format)).identical(expected));
  }
  // Three of four rows are of the first source: 30 of it, and 10 of the other.
  write_table_files(run.small.path("part-1"), 0, 30);
  write_table_files(run.small.path("part-2"), 0, 0);
  write_table_files(run.small.path("all"), 30, 40);
  const Tensor mixed = run.predict(cat("{format: mixture, sources: {many: {weight: 3, ",
                                       table_source("csv").substr(1), ", few: {weight: 1, ",
                                       table_source("sqlite").substr(1), "}}"));
  REQUIRE(mixed.shape() == Shape{40, kScores});
  std::multiset<double> first, of_mixture;
  for (int64_t row = 0; row < 40; ++row) {
    first.insert(expected.at(row * kScores));
    of_mixture.insert(mixed.at(row * kScores));
  }
  CHECK(of_mixture == first);
}

TEST_CASE("synthetic rows have predictions, the same ones each time") {
  SourceRun run(kTableModel);
  write_table_files(run.small.path("part-1"), 0, 23);
  write_table_files(run.small.path("part-2"), 23, kPredicted);
  run.train(table_settings(table_source("csv"), {"steps=20"}));
  const std::string source =
      "{format: synthetic, rows: 50, columns: {features: {shape: 3, distribution: normal}}}";
  const Tensor scores = run.predict(source);
  CHECK(scores.shape() == Shape{50, kScores});
  CHECK(run.predict(source).identical(scores));
  CHECK(scores.at(0) != scores.at(kScores));
}

TEST_CASE("the same images have the same predictions from a folder, tar shards and TFRecord") {
  SourceRun run(R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
images (float[N,3,6,6] image) => (float[N,4] logits) {
  c = leat.Conv2D <filters = 4, kernel = 3, activation = "relu"> (image)
  f = Flatten (c)
  logits = leat.Dense <units = 4> (f)
}
)");
  write_image_files(run.small.path(), kPredicted, kScores);
  const std::string train = image_source("image_folder");
  run.train({cat("data.train=", train), cat("data.validation=", train), "steps=20",
             "optimizer={name: adam, learning_rate: 0.01}", "lr_scheduler={name: constant}"});
  const std::string center = "size: 6, crop: center";
  const Tensor expected = run.predict(cat("{format: image_folder, files: train, ", center, "}"));
  REQUIRE(expected.shape() == Shape{kPredicted, kScores});
  CHECK(run.predict(cat("{format: webdataset, files: 'shard-*.tar', columns: {image: {ext: png, ",
                        center, "}}}"))
            .identical(expected));
  CHECK(run.predict(
               cat("{format: tfrecord, files: train.tfrecord, columns: {image: {", center, "}}}"))
            .identical(expected));
}

TEST_CASE("windows of tokens have predictions, those of the same windows as arrays") {
  SourceRun run(R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
windows (int64[N,3] tokens) => (float[N,12] logits) {
  e = leat.Embedding <input_dim = 12, output_dim = 8> (tokens)
  f = Flatten (e)
  logits = leat.Dense <units = 12> (f)
}
)");
  std::vector<uint16_t> text;
  Tensor windows(DType::i64, Shape{kPredicted, 3}), labels(DType::i64, Shape{kPredicted});
  for (int64_t row = 0; row < kPredicted; ++row) {
    for (int64_t i = 0; i < 4; ++i) {
      const int64_t token = i < 3 ? (row * 5 + i) % 12 : row % 4;
      text.push_back(static_cast<uint16_t>(token));
      if (i < 3) windows.set(3 * row + i, static_cast<double>(token));
    }
    labels.set(row, static_cast<double>(row % 4));
  }
  std::ofstream(run.small.path("text.bin"), std::ios::binary)
      .write(reinterpret_cast<const char*>(text.data()),
             static_cast<std::streamsize>(2 * text.size()));
  must(write_npy(real_files(), run.small.path("w.npy"), windows));
  must(write_npy(real_files(), run.small.path("l.npy"), labels));
  const std::string train = "{format: tokens, files: text.bin, window: 4}";
  run.train({cat("data.train=", train), cat("data.validation=", train), "data.rescale=1",
             "data.columns={tokens: 'window[:3]', labels: 'window[3:]'}", "steps=20",
             "optimizer={name: adam, learning_rate: 0.01}", "lr_scheduler={name: constant}"});
  const Tensor scores = run.predict(train);
  REQUIRE(scores.shape() == Shape{kPredicted, 12});
  const Finished done = run_leat(
      run.small.path(), {"predict", "run", "--input", "tokens=w.npy", "-o", "of-arrays.npy"});
  INFO(done.err);
  REQUIRE(done.exit_code == 0);
  CHECK(must(read_npy(real_files(), run.small.path("of-arrays.npy"))).identical(scores));
}

}  // namespace
}  // namespace leat
