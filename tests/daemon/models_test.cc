// Models of several kinds, each trained from a job file: language model, sequence to sequence,
// recommendation, segmentation, LSTM. [cluster] runs under ThreadSanitizer.
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "devices/base/text.h"
#include "ops/formats/npy.h"
#include "tests/catch.h"
#include "tests/daemon/branching_graph.h"
#include "tests/daemon/process_cluster.h"
#include "tests/daemon/training_testing.h"
#include "tests/must.h"
#include "tests/slowness.h"

namespace leat {
namespace {

using Set = std::vector<std::string>;

// Numbers that look random and are the same on every machine.
class Noise {
 public:
  int64_t below(int64_t n) {
    state_ = state_ * 6364136223846793005 + 1442695040888963407;
    return static_cast<int64_t>((state_ >> 33) % static_cast<uint64_t>(n));
  }

 private:
  uint64_t state_ = 7;
};

Tensor ints(const Shape& shape, int64_t below, DType dtype, Noise& noise) {
  Tensor out(dtype, shape);
  for (int64_t i = 0; i < out.elements(); ++i) out.set(i, static_cast<double>(noise.below(below)));
  return out;
}

void write(const SmallJob& small, const std::string& name, const Tensor& values) {
  must(write_npy(real_files(), small.path(name), values));
}

// The job on two workers of a cluster, of which one loses its runner in the middle.
void check_kill(const SmallJob& small, Job job, const std::string& expected) {
  if (kSlowness > 1) return;  // daemons are processes of their own
  ProcessCluster cluster(
      {.workers = 2, .data_path = small.path(), .master = {"--set", "chaos=true"}});
  job.data.root = "data";
  const std::string path = small.path("submitted.yaml");
  std::ofstream(path) << print_job(job);
  const auto view = nlohmann::json::parse(cluster.run_with_fault(path, "kill=runner:1@step=7"));
  CHECK(view["weights_sha256"] == expected);
  CHECK(view["history"].size() == 1);
}

// One loss and hash for any number of workers and threads, for a run in two parts, and though a
// runner is killed.
void check_reproducible(const SmallJob& small, const Set& set, double at_most) {
  const auto with = [&](const Set& more) {
    Set all = set;
    all.insert(all.end(), more.begin(), more.end());
    return small.job(all);
  };
  Silent watch;
  const TrainOutcome whole = small.train(with({}), "whole", watch);
  INFO("first loss " << watch.losses.front() << ", last loss " << watch.losses.back());
  CHECK(watch.losses.back() < at_most * watch.losses.front());
  for (const int workers : {2, 3, 4}) {
    if (kSlowness > 1 && workers != 3) continue;
    INFO(workers << " workers");
    const Job job = with({cat("num_workers=", workers)});
    CHECK(small.hash(job, cat("workers-", workers), workers % 4 + 1) == whole.weights_sha256);
  }
  // The second part begins at the first one's checkpoint, with another number of workers.
  Silent first, second;
  small.train(with({"steps=17"}), "parts", first);
  const TrainOutcome parts =
      small.train(with({"num_workers=2"}), "parts", second, 2, /*resume=*/true);
  CHECK(second.first == 17);
  CHECK(parts.weights_sha256 == whole.weights_sha256);
  check_kill(small, with({"num_workers=2"}), whole.weights_sha256);
}

// Attention to the tokens before, written with plain ops.
constexpr const char* kLanguageModel = R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
tiny_lm (int64[N,4] tokens) => (float[N,4,12] logits) {
  places = Constant <value = int64[4] {0, 1, 2, 3}> ()
  mask = Constant <value = float[4,4] {0, -1e9, -1e9, -1e9, 0, 0, -1e9, -1e9, 0, 0, 0, -1e9, 0, 0, 0, 0}> ()
  scale = Constant <value = float {0.35355339}> ()
  e = leat.Embedding <input_dim = 12, output_dim = 8> (tokens)
  p = leat.Embedding <input_dim = 4, output_dim = 8> (places)
  x = Add (e, p)
  q = leat.Dense <units = 8> (x)
  k = leat.Dense <units = 8> (x)
  v = leat.Dense <units = 8> (x)
  kt = Transpose <perm = [0, 2, 1]> (k)
  qk = MatMul (q, kt)
  scaled = Mul (qk, scale)
  scores = Add (scaled, mask)
  attention = Softmax <axis = -1> (scores)
  mixed = MatMul (attention, v)
  h = Add (x, mixed)
  n = leat.LayerNorm (h)
  logits = leat.Dense <units = 12> (n)
}
)";

// A text in which each token follows from the one before.
std::vector<uint16_t> counting_text(int64_t tokens) {
  std::vector<uint16_t> text;
  for (int64_t i = 0; i < tokens; ++i) text.push_back(static_cast<uint16_t>(i * 5 % 12));
  return text;
}

void write_text(const SmallJob& small, const std::string& name, const std::vector<uint16_t>& text) {
  must(write_file_atomically(real_files(), small.path(name), std::as_bytes(std::span(text))));
}

Set language_model(const std::string& more = "") {
  return {cat("data.train={format: tokens, files: 'text-*.bin', window: 5, stride: 1", more, "}"),
          "data.validation={format: tokens, files: [text-1.bin], window: 5}",
          "data.rescale=1",
          "optimizer={name: adam, learning_rate: 0.01}",
          "lr_scheduler={name: constant}",
          "global_batch_size=24",
          "metrics=[accuracy]"};
}

TEST_CASE("a language model trains on windows of tokens", "[cluster]") {
  const SmallJob small(kLanguageModel);
  write_text(small, "text-1.bin", counting_text(301));
  write_text(small, "text-2.bin", counting_text(222));
  check_reproducible(small, language_model(), 0.7);
  Silent watch;
  Set set = language_model();
  set.emplace_back("epochs=20");
  const TrainOutcome learned = small.train(small.job(set), "learned", watch, 2);
  CHECK(*learned.validation->accuracy > 0.95);
  CHECK(learned.validation->loss < 0.1);
}

TEST_CASE("a loss of probabilities is that of the logits before their Softmax") {
  const auto graph = [](const std::string& end) {
    return R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
net (float[N,1,8,8] x) => (float[N,10] y) {
  f = Flatten (x)
  h = leat.Dense <activation = "relu", units = 12> (f)
)" + end + "}\n";
  };
  const SmallJob logits(graph("  y = leat.Dense <units = 10> (h)\n")),
      probabilities(graph("  z = leat.Dense <units = 10> (h)\n  y = Softmax (z)\n"));
  const auto notes = [](const SmallJob& small, const Job& job) {
    return join(must(small.trainer(job, {small.path("notes")}))->notes(), "\n");
  };
  Silent expected, found;
  logits.train(logits.job(), "run", expected);
  const Job job = probabilities.job({"loss={name: cross_entropy, from_logits: false}"});
  CHECK(notes(probabilities, job).empty());
  probabilities.train(job, "run", found);
  REQUIRE(found.losses.size() == expected.losses.size());
  for (size_t i = 0; i < found.losses.size(); ++i)
    CHECK(std::abs(found.losses[i] - expected.losses[i]) < 1e-5);
  CHECK_THAT(
      notes(probabilities, probabilities.job()),
      Catch::Contains("'y' is the result of a Softmax") && Catch::Contains("from_logits: false"));
}

TEST_CASE("the loss of tokens is the mean over those that count", "[cluster]") {
  const SmallJob small(kLanguageModel);
  constexpr int64_t kRows = 48;
  Noise noise;
  const Tensor tokens = ints({kRows, 4}, 12, DType::i32, noise);
  Tensor labels = ints({kRows, 4}, 12, DType::i64, noise);
  write(small, "ids.npy", tokens);
  write(small, "targets.npy", labels);
  const auto job = [&](const std::string& loss, const Set& more = {}) {
    Set set{"data.train={format: npy, files: {tokens: ids.npy, labels: targets.npy}}",
            "data.validation={format: npy, files: {tokens: ids.npy, labels: targets.npy}}",
            "data.rescale=1",
            "steps=1",
            cat("loss=", loss),
            "metrics=[accuracy]"};
    set.insert(set.end(), more.begin(), more.end());
    return small.job(set);
  };
  Silent all;
  small.train(job("cross_entropy"), "all", all);
  // Twelve classes and weights near zero: each label costs about log 12, however many a row has.
  CHECK(std::abs(all.losses[0] - std::log(12.0)) < 0.5);

  // Half of the labels are ignored. Whatever stands in their place, nothing changes.
  for (int64_t i = 0; i < labels.elements(); i += 2) labels.set(i, -100);
  write(small, "targets.npy", labels);
  Silent some, other, none;
  const auto first = small.train(job("{name: cross_entropy, ignore_index: -100}"), "some", some);
  CHECK(std::abs(some.losses[0] - std::log(12.0)) < 0.5);
  CHECK(*some.last.accuracy <= 1);
  CHECK(*first.validation->accuracy <= 1);
  for (int64_t i = 0; i < labels.elements(); i += 2) labels.set(i, 99);
  write(small, "targets.npy", labels);
  const auto second = small.train(job("{name: cross_entropy, ignore_index: 99}"), "other", other);
  CHECK(first.weights_sha256 == second.weights_sha256);
  CHECK(first.validation->loss == second.validation->loss);
  CHECK(some.losses == other.losses);
  for (const int workers : {2, 4}) {
    CHECK(small.hash(job("{name: cross_entropy, ignore_index: 99}", {cat("num_workers=", workers)}),
                     cat("ignoring-", workers)) == first.weights_sha256);
  }
  // A batch without any label that counts has the loss 0 and leaves the weights alone.
  for (int64_t i = 0; i < labels.elements(); ++i) labels.set(i, 99);
  write(small, "targets.npy", labels);
  small.train(job("{name: cross_entropy, ignore_index: 99}"), "none", none);
  CHECK(none.losses[0] == 0);

  // A label that is neither a class nor ignored is found before the first step.
  const auto refused =
      small.trainer(job("{name: cross_entropy, ignore_index: -100}"), {small.path("refused")});
  CHECK(refused.status().message() ==
        "'targets.npy': label of row 0: expected in [0, 11], received 99");
}

// Two inputs: the mean of the source's embeddings is the state of the decoder.
constexpr const char* kSequenceToSequence = R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
tiny_seq2seq (int32[N,S] source, int64[N,T] target) => (float[N,T,10] logits) {
  one = Constant <value = int64[1] {1}> ()
  s = leat.Embedding <input_dim = 10, output_dim = 6> (source)
  state = ReduceMean <keepdims = 1> (s, one)
  t = leat.Embedding <input_dim = 10, output_dim = 6> (target)
  x = Add (t, state)
  h = leat.Dense <units = 16, activation = "relu"> (x)
  logits = leat.Dense <units = 10> (h)
}
)";

TEST_CASE("a model of two inputs reads a column for each", "[cluster]") {
  const SmallJob small(kSequenceToSequence);
  constexpr int64_t kRows = 96;
  Noise noise;
  const Tensor target = ints({kRows, 4}, 9, DType::u8, noise);
  Tensor labels(DType::i16, {kRows, 3});
  for (int64_t row = 0; row < kRows; ++row) {
    for (int64_t i = 0; i < 3; ++i) labels.set(row * 3 + i, target.at(row * 4 + i) + 1);
  }
  write(small, "source.npy", ints({kRows, 5}, 10, DType::i64, noise));
  write(small, "target.npy", target);
  write(small, "labels.npy", labels);
  const Set set{"model.inputs={target: shifted}",
                "data.train={format: npy, files: {source: source.npy, target: target.npy, labels: "
                "labels.npy}}",
                "data.validation=null",
                "data.columns={source: source, shifted: 'target[:-1]', labels: labels}",
                "data.rescale=1",
                "optimizer={name: adam, learning_rate: 0.02}",
                "lr_scheduler={name: constant}",
                "global_batch_size=12"};
  check_reproducible(small, set, 0.8);
}

// The features that the input `keep` chooses.
constexpr const char* kChosenFeatures = R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
chosen (float[N,F] features, bool[F] keep) => (float[N,3] logits) {
  kept = Compress <axis = 1> (features, keep)
  logits = leat.Dense <units = 3> (kept)
}
)";

TEST_CASE("a model whose sizes depend on an input is trained with that input fixed", "[cluster]") {
  const SmallJob small(kChosenFeatures);
  constexpr int64_t kRows = 96;
  Noise noise;
  const Tensor features = ints({kRows, 6}, 5, DType::f32, noise);
  Tensor labels(DType::i64, {kRows});
  for (int64_t row = 0; row < kRows; ++row) {
    const double sum = features.at(row * 6) - features.at(row * 6 + 2) + features.at(row * 6 + 5);
    labels.set(row, sum < 1 ? 0 : sum < 4 ? 1 : 2);
  }
  write(small, "features.npy", features);
  write(small, "labels.npy", labels);
  Set set{"data.train={format: npy, features: features.npy, labels: labels.npy}",
          "data.validation=null",
          "data.rescale=1",
          "optimizer={name: adam, learning_rate: 0.05}",
          "lr_scheduler={name: constant}",
          "global_batch_size=12"};
  const auto refused = small.trainer(small.job(set), {small.path("refused")});
  REQUIRE(!refused.ok());
  CHECK(refused.status().message().find("the size of its output depends on the value of input 0") !=
        std::string::npos);
  set.push_back("model.fixed={keep: [true, false, true, false, false, true]}");
  check_reproducible(small, set, 0.8);
}

// Dense and sparse features, and a loss of its own: the labels are an input of the graph.
constexpr const char* kRecommendation = R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
tiny_dlrm (float[N,3] dense, int64[N] user, int32[N,2] items, float[N] click) => (float[N] score, float[N] loss) {
  one = Constant <value = int64[1] {1}> ()
  d = leat.Dense <units = 4, activation = "relu"> (dense)
  u = leat.Embedding <input_dim = 50, output_dim = 4> (user)
  i = leat.Embedding <input_dim = 30, output_dim = 4> (items)
  pooled = ReduceSum <keepdims = 0> (i, one)
  du = Mul (d, u)
  up = Mul (u, pooled)
  all = Concat <axis = 1> (d, u, pooled, du, up)
  z = leat.Dense <units = 1> (all)
  score = Squeeze (z, one)
  up_to_zero = Softplus (score)
  hit = Mul (score, click)
  loss = Sub (up_to_zero, hit)
}
)";

TEST_CASE("an output of the graph is the loss of a model with several inputs", "[cluster]") {
  const SmallJob small(kRecommendation);
  constexpr int64_t kRows = 120;
  Noise noise;
  Tensor dense(DType::f32, {kRows, 3}), click(DType::u8, {kRows});
  for (int64_t i = 0; i < dense.elements(); ++i)
    dense.set(i, static_cast<double>(noise.below(100)) / 100);
  for (int64_t row = 0; row < kRows; ++row) click.set(row, dense.at(row * 3) > 0.5 ? 1 : 0);
  write(small, "dense.npy", dense);
  write(small, "click.npy", click);
  write(small, "user.npy", ints({kRows}, 50, DType::u16, noise));
  write(small, "items.npy", ints({kRows, 2}, 30, DType::i32, noise));
  const std::string data =
      "{format: npy, files: {dense: dense.npy, user: user.npy, items: items.npy, click: "
      "click.npy}}";
  const Set set{"loss={output: loss}",
                "metrics=[]",
                cat("data.train=", data),
                cat("data.validation=", data),
                "data.rescale=1",
                "optimizer={name: adam, learning_rate: 0.02}",
                "lr_scheduler={name: constant}"};
  check_reproducible(small, set, 0.99);
  // Under a strategy with servers the tables are on two of them.
  Set servers = set;
  servers.emplace_back("strategy={name: parameter_server, num_ps: 2}");
  servers.emplace_back("num_workers=3");
  const TrainOutcome spread = [&] {
    Silent watch;
    return small.train(small.job(servers), "servers", watch);
  }();
  Silent watch;
  const TrainOutcome one = small.train(small.job(set), "one", watch);
  CHECK(spread.weights_sha256 == one.weights_sha256);
  // The mean over all rows, the last ones of which do not fill a step.
  CHECK(std::isfinite(one.validation->loss));
}

// The mean over the batch is the model's own: a scalar.
constexpr const char* kMean = R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
own_mean (float[N,3] dense, float[N] click) => (float loss) {
  one = Constant <value = int64[1] {1}> ()
  z = leat.Dense <units = 1> (dense)
  score = Squeeze (z, one)
  difference = Sub (score, click)
  squares = Mul (difference, difference)
  loss = ReduceMean <keepdims = 0> (squares)
}
)";

TEST_CASE("a scalar loss of the graph is the mean over the shards", "[cluster]") {
  const SmallJob small(kMean);
  Noise noise;
  Tensor dense(DType::f32, {100, 3}), click(DType::f32, {100});
  for (int64_t i = 0; i < 300; ++i) dense.set(i, static_cast<double>(noise.below(100)) / 100);
  for (int64_t i = 0; i < 100; ++i) click.set(i, dense.at(3 * i) - dense.at(3 * i + 1));
  write(small, "dense.npy", dense);
  write(small, "click.npy", click);
  const std::string data = "{format: npy, files: {dense: dense.npy, click: click.npy}}";
  const Set set{"loss={output: loss}",         "metrics=[]",     cat("data.train=", data),
                cat("data.validation=", data), "data.rescale=1", "lr_scheduler={name: constant}"};
  check_reproducible(small, set, 0.9);
  // The same as the built-in loss, on the same weights.
  const SmallJob built_in(std::string(kMean).replace(std::string(kMean).find("=> (float loss)"), 15,
                                                     "=> (float[N] score)"));
  write(built_in, "dense.npy", dense);
  write(built_in, "click.npy", click);
  Silent own, other;
  small.train(small.job(set), "own", own);
  const Set mse{"loss=mse",
                "metrics=[]",
                "data.train={format: npy, files: {dense: dense.npy, labels: click.npy}}",
                "data.validation=null",
                "data.columns={dense: dense, labels: labels, click: labels}",
                "data.rescale=1",
                "lr_scheduler={name: constant}"};
  built_in.train(built_in.job(mse), "mse", other);
  REQUIRE(own.losses.size() == other.losses.size());
  for (size_t i = 0; i < own.losses.size(); ++i)
    CHECK(own.losses[i] == Approx(other.losses[i]).epsilon(1e-5));
}

// A class for each pixel, and a skip connection.
constexpr const char* kSegmentation = R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
tiny_unet (float[N,1,8,8] image) => (float[N,2,8,8] classes) {
  a = leat.Conv2D <filters = 4, kernel = 3, activation = "relu"> (image)
  p = MaxPool <kernel_shape = [2,2], strides = [2,2]> (a)
  b = leat.Conv2D <filters = 8, kernel = 3, activation = "relu"> (p)
  u = leat.Conv2DTranspose <filters = 4, kernel = 2, strides = 2> (b)
  joined = Concat <axis = 1> (a, u)
  classes = leat.Conv2D <filters = 2, kernel = 3> (joined)
}
)";

TEST_CASE("a segmentation model learns a class for each pixel", "[cluster]") {
  const SmallJob small(kSegmentation);
  const Tensor images = must(read_npy(real_files(), small.path("train-x.npy")));
  Tensor masks(DType::u8, {200, 8, 8});
  for (int64_t i = 0; i < masks.elements(); ++i) masks.set(i, images.at(i) > 140 ? 1 : 0);
  write(small, "masks.npy", masks);
  const std::string data = "{format: npy, features: train-x.npy, labels: masks.npy}";
  const Set set{cat("data.train=", data), cat("data.validation=", data),
                "optimizer={name: adam, learning_rate: 0.01}", "lr_scheduler={name: constant}"};
  check_reproducible(small, set, 0.7);
  Silent watch;
  const TrainOutcome outcome = small.train(small.job(set), "once", watch, 2);
  CHECK(*watch.last.accuracy > 0.8);
  CHECK(*watch.last.accuracy <= 1);
  CHECK(*outcome.validation->accuracy <= 1);
}

TEST_CASE("a model with a recurrence and a branch of its data trains", "[cluster]") {
  const SmallJob small(kBranchingGraph);
  const Set set{"optimizer={name: adam, learning_rate: 0.02}", "lr_scheduler={name: constant}",
                "shards=4"};
  check_reproducible(small, set, 0.8);
  Silent watch;
  const auto once = small.train(small.job(set), "once", watch, 2);
  CHECK(*watch.last.accuracy > 0.7);
  for (const char* more : {"strategy=parameter_server", "on_nan=skip"}) {
    Set other = set;
    other.insert(other.end(), {"num_workers=2", more});
    CHECK(small.hash(small.job(other), more) == once.weights_sha256);
  }
}

// The rows of an image, one after the other.
constexpr const char* kLstm = R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
tiny_lstm (float[N,1,8,8] image) => (float[N,4] logits) {
  w_variable = leat.Variable <name = "w", shape = [1,24,8]> ()
  w_first = RandomUniform <shape = [1,24,8], low = -0.4, high = 0.4> ()
  [init_w] = leat.Initialize (w_variable, w_first)
  w = leat.Read (w_variable)
  r_variable = leat.Variable <name = "r", shape = [1,24,6]> ()
  r_first = RandomUniform <shape = [1,24,6], low = -0.4, high = 0.4> ()
  [init_r] = leat.Initialize (r_variable, r_first)
  r = leat.Read (r_variable)
  b_variable = leat.Variable <name = "b", shape = [1,48]> ()
  b_first = RandomUniform <shape = [1,48], low = -0.4, high = 0.4> ()
  [init_b] = leat.Initialize (b_variable, b_first)
  b = leat.Read (b_variable)
  channel = Constant <value = int64[1] {1}> ()
  direction = Constant <value = int64[1] {0}> ()
  rows = Squeeze (image, channel)
  x = Transpose <perm = [1, 0, 2]> (rows)
  all, last = LSTM <hidden_size = 6> (x, w, r, b)
  h = Squeeze (last, direction)
  logits = leat.Dense <units = 4> (h)
}
)";

TEST_CASE("an LSTM learns from the rows of images", "[cluster]") {
  const SmallJob small(kLstm);
  check_reproducible(small,
                     {"optimizer={name: adam, learning_rate: 0.02}",
                      "lr_scheduler={name: constant}", "data.validation=null"},
                     0.9);
}

TEST_CASE("wrong columns are named before anything is trained", "[cluster]") {
  const SmallJob small(kSequenceToSequence);
  Noise noise;
  write(small, "a.npy", ints({24, 5}, 10, DType::i64, noise));
  write(small, "f.npy", Tensor(DType::f32, {24, 5}));
  write(small, "y.npy", ints({24, 5}, 10, DType::i64, noise));
  const auto message = [&](const std::string& files, const Set& more = {}) {
    Set set{cat("data.train={format: npy, files: ", files, "}"), "data.validation=null"};
    set.insert(set.end(), more.begin(), more.end());
    const auto trainer = small.trainer(small.job(set), {small.path("refused")});
    REQUIRE(!trainer.ok());
    return trainer.status().message();
  };
  CHECK(message("{source: a.npy, labels: y.npy}") ==
        "input 'target': expected a column 'target' in the data, which has source, labels; write "
        "model.inputs: {target: COLUMN}, or data.columns: {target: COLUMN}");
  CHECK(message("{source: a.npy, target: a.npy}") ==
        "loss: expected a column 'labels' in the data, which has source, target; write "
        "data.columns: {labels: COLUMN, ...}");
  CHECK(message("{source: a.npy, target: a.npy, labels: y.npy}", {"model.inputs={sauce: a}"}) ==
        "model.inputs: expected inputs of the graph, which are source, target, received 'sauce'");
  CHECK(message("{source: f.npy, target: a.npy, labels: y.npy}") ==
        "'f.npy': expected integers for the input 'source' of int32[N,S], received "
        "float[5]");
  CHECK(message("{source: a.npy, target: a.npy, labels: f.npy}").find("classes as integers") !=
        std::string::npos);
  CHECK(message("{source: a.npy, target: a.npy, labels: y.npy}", {"model.outputs=[logit]"}) ==
        "output 'logit': expected an output of the graph, which are logits (did you mean "
        "'logits'?)");
  CHECK(message("{source: a.npy, target: a.npy, labels: y.npy}",
                {"data.columns={source: source, target: 'target[9:]', labels: labels}"})
            .find("expected a part of 0 to 5 along the first dimension") != std::string::npos);
}

}  // namespace
}  // namespace leat
