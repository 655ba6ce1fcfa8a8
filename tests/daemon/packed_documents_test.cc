// Documents that are packed into one window: the loss of each is that of the document alone.
#include <fstream>
#include <iterator>

#include "daemon/spec/load_graph.h"
#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/daemon/training_testing.h"
#include "tests/must.h"
#include "tests/small_models.h"

namespace leat {
namespace {

// A transformer of one block that reads 16 tokens of 12 kinds; 0 ends a document.
constexpr const char* kPackedModel = R"(<ir_version: 10, opset_import: ["" : 23, "leat" : 1]>
packed (int64[N,16] tokens, int32[N,16] segments, int32[N,16] positions) => (float[N,16,12] logits) {
  of_queries = Constant <value = int64[2] {1, 3}> ()
  of_keys = Constant <value = int64[2] {1, 2}> ()
  queries = Unsqueeze (segments, of_queries)
  keys = Unsqueeze (segments, of_keys)
  same = Equal (queries, keys)
  a = leat.Embedding <input_dim = 12, output_dim = 8, kernel_initializer = "normal"> (tokens)
  b = leat.Embedding <input_dim = 16, output_dim = 8, kernel_initializer = "normal"> (positions)
  x = Add (a, b)
  q = leat.Dense <units = 8> (x)
  k = leat.Dense <units = 8> (x)
  v = leat.Dense <units = 8> (x)
  t = Attention <is_causal = 1, q_num_heads = 2, kv_num_heads = 2> (q, k, v, same)
  y = Add (x, t)
  logits = leat.Dense <units = 12> (y)
}
)";

using TokenList = std::vector<uint8_t>;

// Files of windows, of 17 tokens each.
class PackedJob {
 public:
  PackedJob() : small(kPackedModel) {}

  void write(const std::string& name, TokenList tokens) const {
    std::ofstream out(small.path(name), std::ios::binary);
    out.write(reinterpret_cast<const char*>(tokens.data()),
              static_cast<std::streamsize>(tokens.size()));
  }
  // A document and then separators, each of which is a document without a target.
  void write_alone(const std::string& name, TokenList document) const {
    document.push_back(0);
    document.resize(17, 0);
    write(name, document);
  }
  Job job(const std::vector<std::string>& set) const {
    const auto source = [](const std::string& file) {
      return cat("{format: tokens, files: ", file, ", dtype: uint8, window: 17, separator: 0}");
    };
    std::vector<std::string> all{cat("data.train=", source("train.bin")),
                                 cat("data.validation={both: ", source("both.bin"), ", one: ",
                                     source("one.bin"), ", two: ", source("two.bin"), "}"),
                                 "data.rescale=1",
                                 "loss={name: cross_entropy, ignore_index: -100}",
                                 "metrics=[]",
                                 "optimizer={name: sgd, learning_rate: 1e-30}",
                                 "global_batch_size=3",
                                 "shards=3",
                                 "steps=1"};
    all.insert(all.end(), set.begin(), set.end());
    return small.job(all);
  }

  SmallJob small;
};

double number(const std::string& row, const std::string& name) {
  const size_t at = row.find(cat("\"", name, "\": "));
  REQUIRE(at != std::string::npos);
  return std::stod(row.substr(at + name.size() + 4));
}

std::string validation_row(const SmallJob& small, const std::string& run) {
  std::ifstream in(small.path(run + "/metrics.jsonl"));
  std::string found;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("{\"validation\"")) found = line;
  }
  return found;
}

TEST_CASE("a packed document has the loss of the document alone") {
  const PackedJob packed;
  const TokenList one{3, 7, 1, 4, 9, 2}, two{5, 5, 8, 11, 6, 10, 1, 3};
  TokenList both = one;
  both.push_back(0);
  both.insert(both.end(), two.begin(), two.end());
  both.push_back(0);
  both.resize(17, 0);
  packed.write("both.bin", both);
  packed.write_alone("one.bin", one);
  packed.write_alone("two.bin", two);
  TokenList train;
  for (int i = 0; i < 17 * 6; ++i) train.push_back(static_cast<uint8_t>(i * i % 12));
  packed.write("train.bin", train);
  Silent watch;
  packed.small.train(packed.job({"num_workers=3"}), "run", watch);
  const std::string row = validation_row(packed.small, "run");
  // The mean of all tokens that have a target: 6 of the first document and 8 of the second.
  const double first = number(row, "one_loss"), second = number(row, "two_loss");
  CHECK(std::abs(first - second) > 1e-3);
  CHECK(number(row, "val_loss") == Approx((6 * first + 8 * second) / 14).epsilon(1e-5));
  // Weights that train are the same on any workers.
  const std::string trains = "optimizer={name: adam, learning_rate: 0.01}";
  const std::string expected = packed.small.hash(packed.job({trains, "steps=9"}), "trained");
  CHECK(packed.small.hash(packed.job({trains, "steps=9", "num_workers=3"}), "three", 2) ==
        expected);
}

TEST_CASE("a mixture of packed documents has their columns, too") {
  const PackedJob packed;
  packed.write_alone("one.bin", {1, 2, 3});
  packed.write_alone("two.bin", {4, 5});
  const std::string source = "format: tokens, dtype: uint8, window: 17, separator: 0, files: ";
  const Job job = packed.job({cat("data.train={format: mixture, sources: {a: {", source,
                                  "one.bin}, b: {", source, "two.bin}}}"),
                              "data.validation=null"});
  CHECK(job.data.columns == std::vector<std::string>{"tokens=window[:-1]", "segments=segments[:-1]",
                                                     "positions=positions[:-1]",
                                                     "labels=targets[:-1]"});
  CHECK(must(parse_job(print_job(job), packed.small.path("job.yaml"))) == job);
  Silent watch;
  packed.small.train(job, "run", watch);
  CHECK(watch.losses.size() == 1);
}

TEST_CASE("the shipped model of packed documents trains on any workers") {
  const PackedJob packed;
  TokenList text;
  for (int i = 0; i < 65 * 8; ++i)
    text.push_back(static_cast<uint8_t>(i % 23 == 0 ? 10 : i % 7 + 97));
  packed.write("text.bin", text);
  const std::vector<std::string> set{
      "data.train={format: tokens, files: text.bin, dtype: uint8, window: 65, separator: 10}",
      "data.validation=null",
      cat("model={graph: ", LEAT_SOURCE_DIR, "/configs/graphs/char_gpt_packed.onnxtxt}"),
      "optimizer={name: adamw, learning_rate: 0.003}",
      "global_batch_size=4",
      "shards=2",
      "steps=4"};
  Silent one, two;
  const TrainOutcome expected = packed.small.train(packed.job(set), "one", one);
  REQUIRE(one.losses.size() == 4);
  CHECK(one.losses.back() < one.losses.front());
  std::vector<std::string> more = set;
  more.emplace_back("num_workers=2");
  CHECK(packed.small.train(packed.job(more), "two", two, 2).weights_sha256 ==
        expected.weights_sha256);
}

TEST_CASE("targets at the ends of documents need a loss that ignores them") {
  const PackedJob packed;
  packed.write_alone("train.bin", {1, 2, 3});
  const Job job = packed.job({"data.validation=null", "loss=cross_entropy"});
  const auto refused = packed.small.trainer(job, {packed.small.path("refused"), false, 1});
  CHECK_THAT(std::string(refused.status().message()), Catch::Contains("ignore_index: -100"));
}

}  // namespace
}  // namespace leat
