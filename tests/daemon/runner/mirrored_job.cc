#include <cstring>
#include <memory>
#include <vector>

#include "daemon/hosts/local_hosts.h"
#include "devices/base/text.h"
#include "ops/catalogue.h"
#include "ops/formats/npy.h"
#include "ops/layers/layers.h"
#include "ops/text/parse.h"
#include "scheduler/compile/compile.h"
#include "scheduler/graph/train_graph.h"
#include "tests/daemon/runner/runner_testing.h"
#include "tests/labelled_reader.h"
#include "tests/must.h"

namespace leat::testing {
namespace {

constexpr const char* kModel = R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
tiny (float[N,1,8,8] image) => (float[N,4] logits) {
  c1 = leat.Conv2D <filters = 16, kernel = 3, activation = "relu"> (image)
  f = Flatten (c1)
  d = leat.Dropout <rate = 0.25> (f)
  logits = leat.Dense <units = 4> (d)
}
)";

constexpr int kShards = 4;

Graph model() {
  static const Catalogue catalogue = standard_catalogue();
  return must(expand_layers(must(parse_graph(kModel, catalogue, "tiny.onnxtxt"))));
}

Deadline end_of_training() { return std::chrono::steady_clock::now() + std::chrono::seconds(60); }

Plan compile_on(const JobGraph& graph, const std::string& name, int workers, int shards = kShards) {
  CompileRequest request;
  request.name = name;
  request.borders = graph.borders();
  for (int w = 0; w < workers; ++w)
    request.devices.push_back({cat("job:worker/task:", w, "/cpu:0")});
  request.strategy = "mirrored";
  request.shards = shards;
  return must(compile(graph.graph, request));
}

Bytes bytes_of(const Tensor& tensor) {
  Bytes bytes((tensor.bytes() + 7) / 8 * 8);
  std::memcpy(bytes.data(), tensor.raw(), tensor.bytes());
  return bytes;
}

}  // namespace

MirroredJob::MirroredJob(int64_t bad_row) {
  constexpr int64_t kRecords = 96;
  Tensor x(DType::u8, Shape{kRecords, 1, 8, 8}), y(DType::u8, Shape{kRecords});
  uint32_t noise = 12345;
  for (int64_t i = 0; i < kRecords; ++i) {
    y.set(i, i == bad_row ? 9 : static_cast<double>(i % 4));
    for (int64_t p = 0; p < 64; ++p) {
      noise = noise * 1664525 + 1013904223;
      x.set(i * 64 + p, (noise >> 26) + 40 * static_cast<double>(i % 4));
    }
  }
  must(write_npy(real_files(), directory_ / "x.npy", x));
  must(write_npy(real_files(), directory_ / "y.npy", y));
}

Plan MirroredJob::init_plan(int workers) const {
  return compile_on(must(make_init_graph(model(), TrainSpec{})), "init", workers);
}

Plan MirroredJob::predict_plan() const {
  return compile_on(must(make_predict_graph(model(), 2, DType::f32)), "predict", 1, 1);
}

Plan MirroredJob::train_plan(int workers) const {
  TrainSpec spec;
  spec.input.reader = labelled_reader("npy", "x.npy", "y.npy", {1, 8, 8});
  spec.input.reader["shuffle"] = int64_t{1};
  spec.input.reader["seed"] = int64_t{3};
  spec.input.rescale = 1.0 / 256;
  spec.optimizer.values.set("momentum", 0.9);
  spec.global_batch = 16;
  spec.shards = kShards;
  return compile_on(must(make_train_graph(model(), spec)), "train", workers);
}

Trained MirroredJob::train_locally(int workers, uint64_t steps) const {
  const auto hosts = make_local_hosts(workers, 1);
  for (HostHandle* host : hosts->hosts()) host->set_data_root("tiny", directory());
  const auto run = [&](const Plan& plan) {
    return must(hosts->run(std::make_shared<const Plan>(plan), "tiny", {plan.name, 11, 0, false}));
  };
  {
    const auto init = run(init_plan(workers));
    init->extend(1);
    must(init->wait(0, end_of_training(), true));
  }
  const Plan plan = train_plan(workers);
  const auto train = run(plan);
  Trained trained;
  trained.rows.resize(plan.partitions.size(), std::vector<Bytes>(steps));
  for (uint64_t step = 0; step < steps; ++step) {
    train->extend(step + 1);
    must(train->wait(step, end_of_training(), true));
    for (uint32_t f = 0; f < plan.fetches.size(); ++f) {
      Bytes& row = trained.rows[plan.fetches[f].partition][step];
      const Bytes value = bytes_of(train->fetched(f, step));
      row.insert(row.end(), value.begin(), value.end());
    }
  }
  for (const auto& [name, value] : must(hosts->hosts()[0]->read_variables("tiny")))
    trained.weights[name] = bytes_of(value);
  return trained;
}

}  // namespace leat::testing
