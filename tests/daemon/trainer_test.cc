// Tests whole trainings on a local cluster, with a small data set that the tests make. [cluster]
// runs under ThreadSanitizer.
#include "daemon/training/trainer.h"

#include <filesystem>
#include <fstream>
#include <map>

#include "daemon/training/evaluator.h"
#include "daemon/training/predictor.h"
#include "daemon/training/run_folder.h"
#include "devices/base/text.h"
#include "ops/catalogue.h"
#include "ops/formats/npy.h"
#include "ops/formats/safetensors.h"
#include "ops/graph/validate.h"
#include "ops/text/parse.h"
#include "tests/catch.h"
#include "tests/daemon/training_testing.h"
#include "tests/must.h"
#include "tests/slowness.h"
#include "tests/small_models.h"

namespace leat {
namespace {

const std::string kCnn = small_cnn("tiny_cnn", true);

constexpr const char* kBatchNorm = R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
tiny_bn (float[N,1,8,8] image) => (float[N,4] logits) {
  c1 = leat.Conv2D <filters = 4, kernel = 3, use_bias = 0> (image)
  b1 = leat.BatchNorm (c1)
  a1 = Relu (b1)
  f = Flatten (a1)
  logits = leat.Dense <units = 4> (f)
}
)";

}  // namespace

TEST_CASE("an evaluation takes fewer rows at a time where they are large") {
  const Catalogue catalogue = standard_catalogue();
  const auto rows = [&](const std::string& row, int64_t batch) {
    Graph graph =
        must(parse_graph(cat("<ir_version: 10, opset_import: [\"\" : 20]>\nnet (float[", row,
                             "] x) => (float[", row, "] y) {\n  a = Relu (x)\n  y = Relu (a)\n}\n"),
                         catalogue, "net"));
    must(validate(graph));
    return evaluation_rows(graph, batch);
  };
  CHECK(rows("N,3,8,8", 4) == 256);
  CHECK(rows("N,1048576", 4) == 256);      // 12 MiB
  CHECK(rows("N,4,1048576", 4) == 85);     // 48 MiB
  CHECK(rows("N,4,1048576", 100) == 100);  // the training has memory for them
  CHECK(rows("N,4,1048576", 1000) == 256);
  CHECK(rows("N,1048576,1048576", 4) == 4);
  CHECK(rows("N,0", 4) == 256);
  CHECK(rows("8,4194304", 4) == 256);  // no rows
}

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
    const SmallJob small(graph(op));
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
  for (const std::string& graph : {kCnn, std::string(kBatchNorm)}) {
    const SmallJob small(graph);
    const std::string expected = small.hash(small.job(), "run");
    for (int workers : {1, 2, 3, 4}) {
      for (int threads : {1, 2, 3, 4}) {
        if (workers * threads > 8) continue;
        if (kSlowness > 1 && (workers + threads) % 2 == 0) continue;
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
      cat("run/checkpoints/", checkpoint_name(first.checkpoints.back()), "/", part_name(0, 1)));
  std::fstream file(newest, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-5, std::ios::end);
  file.put('\x55');
  file.close();
  const TrainOutcome rest = small.train(small.job(), "run", second, 1, true);
  REQUIRE(second.warnings.size() == 2);
  CHECK(second.warnings[0].find("SHA-256") != std::string::npos);
  CHECK(second.warnings[1].find("checkpoints of no use were set aside") != std::string::npos);
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
  const auto output = predict(catalogue, real_files(), small.path("run"), {{"", *rows}});
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

TEST_CASE("parameter servers give the losses of one device, however many there are", "[cluster]") {
  for (const std::string& graph : {kCnn, std::string(kBatchNorm)}) {
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

TEST_CASE("asynchronous training of one worker is synchronous training", "[cluster]") {
  const SmallJob small(kCnn);
  Silent expected, alone, first, second;
  const TrainOutcome outcome = small.train(small.job(), "sync", expected);
  const Job job = small.job({"strategy={name: parameter_server, mode: async}",
                             "lr_scheduler={name: cosine, "
                             "warmup_steps: 3}"});
  CHECK(small.train(job, "async", alone, 2).weights_sha256 == outcome.weights_sha256);
  CHECK(alone.losses == expected.losses);
  small.train(job, "parts", first, 1, false, [&] { return first.losses.size() >= 13; });
  CHECK(small.train(job, "parts", second, 1, true).weights_sha256 == outcome.weights_sha256);
  CHECK(first.losses.size() + second.losses.size() == 30);
}

TEST_CASE("a small network learns asynchronously, stops and goes on", "[cluster]") {
  const SmallJob small(kBatchNorm);
  for (const char* servers : {"1", "3"}) {
    const Job job =
        small.job({"num_workers=3", "shards=1", "optimizer.momentum=0",
                   cat("strategy={name: parameter_server, mode: async, num_ps: ", servers, "}")});
    Silent first, second;
    const TrainOutcome part = small.train(job, cat("run-", servers), first, 2, false,
                                          [&] { return first.losses.size() >= 13; });
    CHECK(part.interrupted);
    CHECK(static_cast<int64_t>(first.losses.size()) == part.steps);
    const TrainOutcome outcome = small.train(job, cat("run-", servers), second, 2, true);
    CHECK(first.losses.size() + second.losses.size() == 30);
    CHECK(second.losses.back() < 0.7 * first.losses.front());
    REQUIRE(outcome.validation.has_value());
    CHECK(*outcome.validation->accuracy > 0.8);
  }
}

TEST_CASE("a model spread over workers by hand trains as on one", "[cluster]") {
  const auto graph = [](const char* first, const char* second) {
    return cat(R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
tiny (float[N,1,8,8] image) => (float[N,4] logits) {
  c1 = leat.Conv2D <filters = 16, kernel = 3, activation = "relu")",
               first, R"(> (image)
  b1 = leat.BatchNorm (c1)
  p1 = MaxPool <kernel_shape = [2,2], strides = [2,2]> (b1)
  f = Flatten (p1)
  d = leat.Dropout <rate = 0.25)",
               second, R"(> (f)
  logits = leat.Dense <units = 4)",
               second, "> (d)\n}\n");
  };
  const SmallJob one(graph("", "").c_str());
  const SmallJob two(graph(", device = \"task:0\"", ", device = \"job:worker/task:1\"").c_str());
  for (const char* shards : {"shards=1", "shards=4"}) {
    INFO(shards);
    Silent expected, watch;
    const TrainOutcome alone =
        one.train(one.job({"strategy=single", "steps=12", shards}), shards, expected);
    const Job job = two.job({"strategy=single", "num_workers=2", "steps=12", shards});
    const TrainOutcome spread = two.train(job, shards, watch, 2);
    CHECK(watch.losses == expected.losses);
    CHECK(spread.weights_sha256 == alone.weights_sha256);
    CHECK(spread.validation->loss == alone.validation->loss);
  }
  const Catalogue catalogue = standard_catalogue();
  const auto trainer =
      Trainer::create(catalogue, real_files(), two.job({"strategy=single", "num_workers=2"}), {});
  REQUIRE(trainer.ok());
  const auto plans = (*trainer)->plan_training();
  REQUIRE(plans.ok());
  REQUIRE((*plans)[0]->partitions.size() == 2);
  const auto holds = [&](size_t partition, std::string_view name) {
    const auto& resources = (*plans)[0]->partitions[partition].resources;
    return std::any_of(resources.begin(), resources.end(),
                       [&](const PlanResource& resource) { return resource.name == name; });
  };
  for (const char* name : {"c1/kernel", "optimizer/c1/kernel/momentum", "b1/moving_mean"}) {
    CHECK(holds(0, name));
    CHECK_FALSE(holds(1, name));
  }
  CHECK(holds(1, "logits/kernel"));
  CHECK(holds(1, "optimizer/logits/kernel/momentum"));
  const auto rows = read_npy(real_files(), two.path("val-x.npy"));
  REQUIRE(rows.ok());
  CHECK(predict(catalogue, real_files(), two.path("shards=4"), {{"", *rows}}).ok());
}

TEST_CASE("constraints that a strategy cannot meet are refused, and none on several workers too") {
  const SmallJob plain(kCnn);
  const SmallJob placed(R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
net (float[N,1,8,8] x) => (float[N,4] y) {
  f = Flatten (x)
  y = leat.Dense <units = 4, device = "task:1"> (f)
}
)");
  const Catalogue catalogue = standard_catalogue();
  const auto refused = [&](const Job& job) {
    auto trainer = Trainer::create(catalogue, real_files(), job, {});
    if (!trainer.ok()) return trainer.status().message();
    return (*trainer)->plan_training().status().message();
  };
  CHECK(refused(plain.job({"strategy=single", "num_workers=2"})) ==
        "num_workers: expected 1 with strategy single and a graph without device constraints, "
        "received 2; change num_workers, or write strategy: mirrored");
  for (const char* strategy : {"mirrored", "parameter_server"}) {
    const std::string message = refused(placed.job({cat("strategy=", strategy), "num_workers=2"}));
    CHECK(message.find("expected a constraint that all workers meet, received 'task:1'") !=
          std::string::npos);
  }
  CHECK(
      refused(placed.job({"strategy=single"})).find("expected a device that satisfies 'task:1'") !=
      std::string::npos);
  CHECK(refused(placed.job({"strategy=single", "num_workers=2"})).empty());
}

TEST_CASE("a variable that constraints put in two places is refused by name") {
  const SmallJob small(R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
net (float[N,1,8,8] x) => (float[N,4] y) {
  w = leat.Variable <name = "w", shape = [64,4]> ()
  first = RandomNormal <shape = [64,4]> ()
  = leat.Initialize (w, first)
  value = leat.Read <device = "task:1"> (w)
  f = Flatten (x)
  y = MatMul (f, value)
}
)");
  const Catalogue catalogue = standard_catalogue();
  const Job job = small.job({"strategy=single", "num_workers=2"});
  const auto trainer = Trainer::create(catalogue, real_files(), job, {small.path("run"), false, 1});
  INFO((trainer.ok() ? "" : trainer.status().to_string()));
  REQUIRE(trainer.ok());
  Silent watch;
  const auto outcome = (*trainer)->run(watch, [] { return false; });
  REQUIRE(!outcome.ok());
  CHECK(outcome.status().message().find(
            "variable 'w': expected one device, it is on job:worker/task:1/cpu:0 and on "
            "job:worker/task:0/cpu:0") != std::string::npos);
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
