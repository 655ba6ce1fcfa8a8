// Counts the allocations of a training step, by the library that asks. Not built with sanitizers,
// because they replace operator new.
#if !defined(LEAT_SANITIZED)

#include "daemon/hosts/local_hosts.h"
#include "devices/base/text.h"
#include "ops/catalogue.h"
#include "ops/formats/npy.h"
#include "ops/graph/builder.h"
#include "ops/layers/layers.h"
#include "scheduler/graph/train_graph.h"
#include "tests/catch.h"
#include "tests/daemon/counting_new.h"
#include "tests/labelled_reader.h"
#include "tests/temporary_directory.h"

namespace leat {
namespace {

Graph small_cnn(const Catalogue& catalogue) {
  Graph graph(catalogue);
  GraphBuilder g(graph);
  ValueId x = g.input("image", DType::f32, {g.batch("N"), Dim::of(1), Dim::of(8), Dim::of(8)});
  x = g.conv2d(x, {.filters = 16, .kernel = 3, .activation = Activation::relu, .name = "c1"});
  x = g.op("MaxPool", {x},
           {{"kernel_shape", std::vector<int64_t>{2, 2}}, {"strides", std::vector<int64_t>{2, 2}}});
  x = g.dropout(g.op("Flatten", {x}), 0.25);
  g.output(g.dense(x, {.units = 4, .name = "d1"}), "logits");
  INFO(g.status().to_string());
  REQUIRE(g.status().ok());
  auto expanded = expand_layers(graph);
  INFO((expanded.ok() ? "" : expanded.status().to_string()));
  REQUIRE(expanded.ok());
  return *expanded;
}

}  // namespace

TEST_CASE("a steady step allocates nothing of our own") {
  const TemporaryDirectory directory;
  REQUIRE(write_npy(real_files(), directory / "x.npy", Tensor(DType::u8, Shape{64, 1, 8, 8})).ok());
  REQUIRE(write_npy(real_files(), directory / "y.npy", Tensor(DType::u8, Shape{64})).ok());
  const Catalogue catalogue = standard_catalogue();
  TrainSpec spec;
  spec.input.reader = testing::labelled_reader("npy", "x.npy", "y.npy", {1, 8, 8});
  spec.optimizer.values.set("momentum", 0.9);
  spec.global_batch = 32;
  spec.shards = 4;
  auto graph = make_train_graph(small_cnn(catalogue), spec);
  INFO((graph.ok() ? "" : graph.status().to_string()));
  REQUIRE(graph.ok());
  for (int workers : {1, 2}) {
    for (int threads : {1, 2}) {
      const auto hosts = make_local_hosts(workers, threads);
      for (HostHandle* host : hosts->hosts()) host->set_data_root("job", directory.path());
      PlanOptions options;
      options.strategy = "mirrored";
      options.shards = 4;
      options.workers = workers;
      auto plan = hosts->compile(*graph, options);
      INFO((plan.ok() ? "" : plan.status().to_string()));
      REQUIRE(plan.ok());
      auto run = hosts->run(*plan, "job", {"train", 1, 0});
      INFO((run.ok() ? "" : run.status().to_string()));
      REQUIRE(run.ok());
      const auto step_to = [&](uint64_t from, uint64_t to) {
        for (uint64_t step = from; step < to; ++step) {
          (*run)->extend(step + 1);
          const Status status =
              (*run)->wait(step, std::chrono::steady_clock::now() + std::chrono::seconds(60), true);
          if (!status.ok()) return false;
        }
        return true;
      };
      REQUIRE(step_to(0, 100));  // the first steps fill caches and grow lists
      const CountedNew counted;
      const bool stepped = step_to(100, 150);
      const auto [ours, libraries] = counted.counts();
      REQUIRE(stepped);
      INFO("workers " << workers << ", threads " << threads << "; libraries allocated "
                      << libraries / 50 << " times a step");
      CHECK(ours == 0);
    }
  }
}

}  // namespace leat

#endif
