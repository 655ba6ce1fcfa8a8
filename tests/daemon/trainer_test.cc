// Whole trainings on a local cluster, on a small data set made here. [cluster] runs under
// ThreadSanitizer.
#include "daemon/trainer.h"

#include <filesystem>
#include <fstream>
#include <map>

#include "daemon/predictor.h"
#include "devices/base/text.h"
#include "ops/catalogue.h"
#include "ops/formats/npy.h"
#include "ops/formats/safetensors.h"
#include "tests/catch.h"
#include "tests/temporary_directory.h"

namespace leat {
namespace {

constexpr const char* kCnn = R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
tiny_cnn (float[N,1,8,8] image) => (float[N,4] logits) {
  c1 = leat.Conv2D <filters = 16, kernel = 3, activation = "relu"> (image)
  p1 = MaxPool <kernel_shape = [2,2], strides = [2,2]> (c1)
  f = Flatten (p1)
  d = leat.Dropout <rate = 0.25> (f)
  logits = leat.Dense <units = 4> (d)
}
)";

constexpr const char* kBatchNorm = R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
tiny_bn (float[N,1,8,8] image) => (float[N,4] logits) {
  c1 = leat.Conv2D <filters = 4, kernel = 3, use_bias = 0> (image)
  b1 = leat.BatchNorm (c1)
  a1 = Relu (b1)
  f = Flatten (a1)
  logits = leat.Dense <units = 4> (f)
}
)";

class Silent final : public TrainObserver {
 public:
  void started(int64_t first_step, int64_t) override { first = first_step; }
  void epoch_begun(int64_t, int64_t, int64_t, int64_t) override {}
  void stepped(int64_t, double loss, std::optional<double>) override { losses.push_back(loss); }
  void epoch_ended(int64_t, int64_t, double, std::optional<double>,
                   const std::optional<Evaluation>&, double) override {
    ++epochs;
  }
  void checkpointed(int64_t step, const std::string&) override { checkpoints.push_back(step); }
  void warned(const std::string& message) override { warnings.push_back(message); }
  int64_t first = -1;
  int epochs = 0;
  std::vector<double> losses;
  std::vector<int64_t> checkpoints;
  std::vector<std::string> warnings;
};

// A data set of 4 classes that a small network can learn: bright quadrants.
class SmallJob {
 public:
  explicit SmallJob(const char* graph) {
    std::ofstream(path("model.onnxtxt")) << graph;
    write("train", 200);
    write("val", 50);
  }
  std::string path(const std::string& name) const { return directory_.path() + "/" + name; }

  Job job(const std::vector<std::string>& set = {}) const {
    const std::string text =
        cat("version: 1\nname: small\nmodel: {graph: model.onnxtxt}\ndata:\n  root: ",
            directory_.path(),
            "\n  train: {format: npy, features: train-x.npy, labels: train-y.npy}\n"
            "  validation: {format: npy, features: val-x.npy, labels: val-y.npy}\n  rescale: "
            "0.00392156862745098\n"
            "loss: cross_entropy\nmetrics: [accuracy]\noptimizer: {name: sgd, learning_rate: 0.05, "
            "momentum: 0.9}\n"
            "lr_scheduler: {name: cosine, warmup_steps: 3}\nglobal_batch_size: 24\nsteps: "
            "30\nseed: 7\nshards: 4\n"
            "strategy: mirrored\nnum_workers: 1\ncheckpoint: {every_steps: 10, keep: 2}\n");
    JobOverrides overrides;
    overrides.set = set;
    auto job = parse_job(text, path("job.yaml"), overrides);
    INFO((job.ok() ? "" : job.status().to_string()));
    REQUIRE(job.ok());
    return *job;
  }

  TrainOutcome train(
      const Job& job, const std::string& folder, Silent& watch, int threads = 1,
      bool resume = false, const std::function<bool()>& stop = [] { return false; }) const {
    static const Catalogue catalogue = standard_catalogue();
    auto trainer = Trainer::create(catalogue, real_files(), job, {path(folder), resume, threads});
    INFO((trainer.ok() ? "" : trainer.status().to_string()));
    REQUIRE(trainer.ok());
    auto outcome = (*trainer)->run(watch, stop);
    INFO((outcome.ok() ? "" : outcome.status().to_string()));
    REQUIRE(outcome.ok());
    return *outcome;
  }
  std::string hash(const Job& job, const std::string& folder, int threads = 1) const {
    Silent watch;
    return train(job, folder, watch, threads).weights_sha256;
  }

 private:
  void write(const std::string& name, int64_t count) {
    Tensor x(DType::u8, Shape{count, 1, 8, 8}), y(DType::u8, Shape{count});
    uint32_t noise = 12345;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t label = i % 4;
      y.set(i, static_cast<double>(label));
      for (int64_t p = 0; p < 64; ++p) {
        noise = noise * 1664525 + 1013904223;
        const bool bright = (p / 8 < 4) == (label / 2 == 0) && (p % 8 < 4) == (label % 2 == 0);
        x.set(i * 64 + p, (noise >> 26) + (bright ? 150 : 20));
      }
    }
    REQUIRE(write_npy(real_files(), path(name + "-x.npy"), x).ok());
    REQUIRE(write_npy(real_files(), path(name + "-y.npy"), y).ok());
  }
  TemporaryDirectory directory_;
};

}  // namespace

TEST_CASE("weights before an op of steps get gradients of zero and stay as they are") {
  const auto graph = [](const char* op) {
    return cat(
        "<ir_version: 10, opset_import: [\"\" : 20, \"leat\" : 1]>\n"
        "net (float[N,1,8,8] x) => (float[N,4] y) {\n  f = Flatten (x)\n"
        "  h = leat.Dense <units = 5> (f)\n  g = ",
        op, " (h)\n  y = leat.Dense <units = 4> (g)\n}\n");
  };
  for (const char* op : {"Ceil", "Floor", "Round", "Sign"}) {
    INFO(op);
    const SmallJob small(graph(op).c_str());
    const auto after = [&](const char* steps, const char* workers) {
      small.hash(small.job({cat("steps=", steps), cat("num_workers=", workers)}),
                 cat("run-", steps, "-", workers));
      const auto weights = read_safetensors(
          real_files(), small.path(cat("run-", steps, "-", workers, "/weights.safetensors")));
      REQUIRE(weights.ok());
      return weights->tensors;
    };
    const auto first = after("1", "1"), last = after("6", "1"), shared = after("6", "2");
    CHECK(last.at("h/kernel").identical(first.at("h/kernel")));
    CHECK(last.at("h/bias").identical(first.at("h/bias")));
    CHECK_FALSE(last.at("y/kernel").identical(first.at("y/kernel")));
    for (const auto& [name, tensor] : last) CHECK(tensor.identical(shared.at(name)));
  }
}

TEST_CASE("a small network learns", "[cluster]") {
  const SmallJob small(kCnn);
  Silent watch;
  const TrainOutcome outcome = small.train(small.job(), "run", watch, 2);
  CHECK(outcome.steps == 30);
  REQUIRE(watch.losses.size() == 30);
  CHECK(watch.losses.back() < 0.5 * watch.losses.front());
  REQUIRE(outcome.validation.has_value());
  CHECK(*outcome.validation->accuracy > 0.9);
  CHECK(watch.checkpoints == std::vector<int64_t>{10, 20, 30});
  // keep: 2
  CHECK(!std::filesystem::exists(small.path("run/checkpoints/step-00000010")));
  CHECK(std::filesystem::exists(small.path("run/checkpoints/step-00000020")));
}

TEST_CASE("the weights are the same for any number of workers and threads", "[cluster]") {
  for (const char* graph : {kCnn, kBatchNorm}) {
    const SmallJob small(graph);
    const std::string expected = small.hash(small.job(), "run");
    for (int workers : {1, 2, 3, 4}) {
      for (int threads : {1, 2, 3, 4}) {
        if (workers * threads > 8) continue;
        INFO("workers " << workers << ", threads " << threads << ", graph " << graph);
        CHECK(small.hash(small.job({cat("num_workers=", workers)}),
                         cat("run-", workers, "-", threads), threads) == expected);
      }
    }
  }
}

TEST_CASE("the weights depend on the seed and on the shards") {
  const SmallJob small(kCnn);
  const std::string expected = small.hash(small.job(), "a");
  CHECK(small.hash(small.job({"seed=8"}), "b") != expected);
  CHECK(small.hash(small.job({"shards=2"}), "c") != expected);
}

TEST_CASE("an interrupted run that is resumed, on other workers, ends with the same weights",
          "[cluster]") {
  const SmallJob small(kCnn);
  for (const char* optimizer :
       {"{name: sgd, learning_rate: 0.05, momentum: 0.9}", "{name: adamw, learning_rate: 0.001}"}) {
    const Job job = small.job({cat("optimizer=", optimizer)});
    const std::string expected = small.hash(job, cat("whole-", optimizer[7]));
    Silent first, second;
    const std::string folder = cat("parts-", optimizer[7]);
    const TrainOutcome part =
        small.train(job, folder, first, 2, false, [&] { return first.losses.size() >= 13; });
    CHECK(part.interrupted);
    CHECK(part.steps < 30);
    CHECK(part.steps >= 13);
    const TrainOutcome rest = small.train(
        small.job({cat("optimizer=", optimizer), "num_workers=3"}), folder, second, 1, true);
    CHECK(second.first == part.steps);
    CHECK(first.losses.size() + second.losses.size() == 30);
    CHECK(rest.weights_sha256 == expected);
  }
}

TEST_CASE(
    "a damaged checkpoint is passed over for the one before, and the run still ends the same") {
  const SmallJob small(kCnn);
  const std::string expected = small.hash(small.job(), "whole");
  Silent first, second;
  small.train(small.job(), "run", first, 1, false, [&] { return first.losses.size() >= 25; });
  const std::string newest = small.path(
      cat("run/checkpoints/", checkpoint_name(first.checkpoints.back()), "/variables.safetensors"));
  std::fstream file(newest, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-5, std::ios::end);
  file.put('\x55');
  file.close();
  const TrainOutcome rest = small.train(small.job(), "run", second, 1, true);
  REQUIRE(second.warnings.size() == 1);
  CHECK(second.warnings[0].find("SHA-256") != std::string::npos);
  CHECK(second.first == 20);
  CHECK(rest.weights_sha256 == expected);
}

TEST_CASE(
    "a resumed run reads the copy of the graph in its folder, whatever became of the original") {
  const SmallJob small(kCnn);
  const std::string expected = small.hash(small.job(), "whole");
  Silent first, second;
  small.train(small.job(), "run", first, 1, false, [&] { return first.losses.size() >= 12; });
  std::ofstream(small.path("model.onnxtxt")) << kBatchNorm;
  const auto job = load_run_job(real_files(), small.path("run"));
  INFO((job.ok() ? "" : job.status().to_string()));
  REQUIRE(job.ok());
  CHECK(small.train(*job, "run", second, 1, true).weights_sha256 == expected);
}

TEST_CASE("the weights file holds the weights and predicts as training left them") {
  const SmallJob small(kBatchNorm);
  Silent watch;
  const TrainOutcome outcome = small.train(small.job(), "run", watch);
  const auto weights = read_safetensors(real_files(), small.path("run/weights.safetensors"));
  REQUIRE(weights.ok());
  CHECK(weights->tensors.count("b1/moving_mean") == 1);
  for (const auto& [name, tensor] : weights->tensors) CHECK(name.rfind("optimizer/", 0) != 0);
  const Catalogue catalogue = standard_catalogue();
  const auto rows = read_npy(real_files(), small.path("val-x.npy"));
  const auto labels = read_npy(real_files(), small.path("val-y.npy"));
  REQUIRE(rows.ok());
  const auto output = predict(catalogue, real_files(), small.path("run"), *rows);
  INFO((output.ok() ? "" : output.status().to_string()));
  REQUIRE(output.ok());
  int hits = 0;
  for (int64_t i = 0; i < 50; ++i) {
    int64_t best = 0;
    for (int64_t c = 1; c < 4; ++c) {
      if (output->at(i * 4 + c) > output->at(i * 4 + best)) best = c;
    }
    hits += best == labels->int_at(i);
  }
  CHECK(hits / 50.0 == Approx(*outcome.validation->accuracy));
}

TEST_CASE("every synchronous strategy gives the losses of one device", "[cluster]") {
  const SmallJob small(kCnn);
  Silent single, mirrored;
  small.train(small.job({"strategy=single"}), "single", single);
  small.train(small.job({"num_workers=4"}), "mirrored", mirrored);
  CHECK(single.losses == mirrored.losses);
}

TEST_CASE("parameter servers give the losses of one device, however many there are", "[cluster]") {
  for (const char* graph : {kCnn, kBatchNorm}) {
    const SmallJob small(graph);
    Silent expected;
    const TrainOutcome one = small.train(small.job({"strategy=single", "steps=12"}), "s", expected);
    for (int workers : {1, 2, 3, 4}) {
      for (int servers = 1; servers <= workers; ++servers) {
        INFO("workers " << workers << ", servers " << servers << ", graph " << graph);
        Silent watch;
        const Job job =
            small.job({cat("num_workers=", workers), "steps=12",
                       cat("strategy={name: parameter_server, num_ps: ", servers, "}")});
        const TrainOutcome outcome =
            small.train(job, cat("ps-", workers, "-", servers), watch, 1 + servers % 2);
        CHECK(watch.losses == expected.losses);
        CHECK(outcome.weights_sha256 == one.weights_sha256);
        CHECK(outcome.validation->loss == one.validation->loss);
      }
    }
  }
}

TEST_CASE("a run with parameter servers goes on under another strategy, and the other way round",
          "[cluster]") {
  const SmallJob small(kBatchNorm);
  const std::string optimizer = "optimizer={name: adamw, learning_rate: 0.001}";
  const std::string expected = small.hash(small.job({optimizer}), "whole");
  const std::vector<std::string> servers{optimizer, "num_workers=3",
                                         "strategy={name: parameter_server, num_ps: 2}"};
  const std::vector<std::string> mirrored{optimizer, "num_workers=2"};
  for (bool servers_first : {true, false}) {
    Silent first, second;
    const std::string folder = servers_first ? "one-way" : "other-way";
    small.train(small.job(servers_first ? servers : mirrored), folder, first, 1, false,
                [&] { return first.losses.size() >= 13; });
    const TrainOutcome rest =
        small.train(small.job(servers_first ? mirrored : servers), folder, second, 1, true);
    CHECK(first.losses.size() + second.losses.size() == 30);
    CHECK(rest.weights_sha256 == expected);
  }
}

TEST_CASE("weights from a file reach the parameter servers that hold them", "[cluster]") {
  const SmallJob small(kCnn);
  small.hash(small.job({"seed=3", "steps=2"}), "other");
  const std::string weights = cat("model.weights=", small.path("other/weights.safetensors"));
  const std::string servers = "strategy={name: parameter_server, num_ps: 2}";
  const std::string expected = small.hash(small.job({weights, "steps=3"}), "mirrored");
  CHECK(expected != small.hash(small.job({"steps=3"}), "fresh"));
  CHECK(small.hash(small.job({weights, "steps=3", "num_workers=2", servers}), "servers") ==
        expected);
}

}  // namespace leat
