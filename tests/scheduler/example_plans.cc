#include "tests/scheduler/example_plans.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "ops/formats/npy.h"
#include "ops/layers/layers.h"
#include "ops/text/parse.h"
#include "scheduler/graph/train_graph.h"
#include "tests/labelled_reader.h"
#include "tests/small_models.h"

namespace leat {
namespace {

JobGraph train_graph(int shards, const std::string& directory) {
  const Graph model = must(expand_layers(
      must(parse_graph(small_cnn("small", false), scheduler_catalogue(), "small.onnxtxt"))));
  TrainSpec spec;
  spec.input.reader =
      testing::labelled_reader("npy", directory + "x.npy", directory + "y.npy", {1, 8, 8});
  spec.input.rescale = 0.5;
  spec.optimizer.values.set("momentum", 0.9);
  spec.global_batch = 32;
  spec.shards = shards;
  return must(make_train_graph(model, spec));
}

JobGraph shipped_graph(const std::string& model, JobStep step, DType precision) {
  std::ifstream in(std::string(LEAT_SOURCE_DIR) + "/configs/graphs/" + model + ".onnxtxt");
  REQUIRE(in.good());
  std::ostringstream text;
  text << in.rdbuf();
  const Graph graph =
      must(expand_layers(must(parse_graph(text.str(), scheduler_catalogue(), model))));
  TrainSpec spec;
  spec.input.reader = testing::labelled_reader("idx", "x.gz", "y.gz", {28, 28});
  spec.input.rescale = 1.0 / 255;
  spec.optimizer = OptimizerSpec("adam");
  spec.schedule = ScheduleSpec("cosine");
  spec.schedule.warmup_steps = 100;
  spec.schedule.values.set("decay_steps", 1000);
  spec.global_batch = 128;
  spec.shards = kShards;
  spec.precision = precision;
  if (step == JobStep::train) return must(make_train_graph(graph, spec));
  if (step == JobStep::init) return must(make_init_graph(graph, spec));
  if (step == JobStep::eval) return must(make_eval_graph(graph, spec));
  return must(make_predict_graph(graph, 16, precision));
}

Plan compile_on(const JobGraph& graph, const std::string& name, int shards, int workers,
                const std::string& strategy = "mirrored", int servers = 1,
                bool recoverable = false) {
  CompileRequest request;
  request.name = name;
  request.borders = graph.borders();
  request.devices = cpus(workers);
  request.strategy = strategy;
  request.shards = shards;
  request.servers = servers;
  request.recoverable = recoverable;
  return must(compile(graph.graph, request));
}

void write_tensor(const std::string& path, const Tensor& tensor) {
  const Bytes bytes = must(format_npy(tensor));
  must(write_file_atomically(real_files(), path, bytes));
}

void fill_variables(PlanRunner& runner, size_t partitions) {
  for (size_t p = 0; p < partitions; ++p) {
    for (Variable* variable : runner.resources(p).variables()) {
      auto* values = static_cast<float*>(variable->data());
      for (int64_t i = 0; i < variable->shape().elements(); ++i)
        values[i] = 0.01f * static_cast<float>(i % 19 - 9);
    }
  }
}

}  // namespace

Plan small_plan(int shards, int workers, const std::string& directory) {
  return compile_on(train_graph(shards, directory), "small", shards, workers);
}

Plan small_server_plan(int shards, int workers, int servers, const std::string& directory) {
  return compile_on(train_graph(shards, directory), "small", shards, workers, "parameter_server",
                    servers);
}

Plan small_recoverable_plan(int shards, int workers, int servers, const std::string& directory) {
  return compile_on(train_graph(shards, directory), "small", shards, workers,
                    servers > 0 ? "parameter_server" : "mirrored", std::max(1, servers), true);
}

Plan shipped_plan(const std::string& model, JobStep step, int workers, DType precision) {
  return compile_on(shipped_graph(model, step, precision), model, kShards, workers);
}

std::string write_data(const TemporaryDirectory& directory) {
  Tensor x(DType::u8, Shape{64, 1, 8, 8}), y(DType::u8, Shape{64});
  for (int64_t i = 0; i < x.elements(); ++i) x.data<uint8_t>()[i] = static_cast<uint8_t>(i * 37);
  for (int64_t i = 0; i < y.elements(); ++i) y.data<uint8_t>()[i] = static_cast<uint8_t>(i % 4);
  write_tensor(directory.path() + "/x.npy", x);
  write_tensor(directory.path() + "/y.npy", y);
  return directory.path() + "/";
}

std::vector<Bytes> results(PlanRunner& runner, uint64_t steps) {
  const size_t partitions = runner.plan().partitions.size();
  fill_variables(runner, partitions);
  must(runner.step_to(steps));
  std::vector<Bytes> out;
  const auto keep = [&](const void* data, size_t bytes) {
    const auto* begin = static_cast<const std::byte*>(data);
    out.emplace_back(begin, begin + bytes);
  };
  for (uint64_t s = 0; s < steps; ++s) {
    for (uint32_t f = 0; f < runner.plan().fetches.size(); ++f) {
      const Tensor value = runner.fetched(f, s);
      keep(value.raw(), value.bytes());
    }
  }
  for (size_t p = 0; p < partitions; ++p) {
    for (Variable* variable : runner.resources(p).variables())
      keep(variable->data(), variable->bytes());
  }
  return out;
}

}  // namespace leat
