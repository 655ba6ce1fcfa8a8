// A job on workers with less memory than its step needs when all values are kept.
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "daemon/spec/job.h"
#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/daemon/process_cluster.h"
#include "tests/daemon/training_testing.h"
#include "tests/must.h"

namespace leat {
namespace {

// 24 activations of [N, 4096] whose gradients need them.
std::string graph_of_activations() {
  std::string text = R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
deep (float[N,8,8] x) => (float[N,4] y) {
  f = Flatten (x)
  h0 = leat.Dense <units = 4096> (f)
)";
  for (int i = 1; i <= 12; ++i) {
    text += cat("  t", i, " = Tanh (h", i - 1, ")\n  e", i, " = Exp (t", i, ")\n  h", i,
                " = Sigmoid (e", i, ")\n");
  }
  return text + "  y = leat.Dense <units = 4> (h12)\n}\n";
}

// Submits the job to the cluster and waits for its end.
Finished submit_to(ProcessCluster& cluster, const SmallJob& small, Job job) {
  job.data.root = "data";
  std::ofstream(small.path("job.yaml")) << print_job(job);
  return cluster.leat("submit", {"--wait", small.path("job.yaml")});
}

TEST_CASE("a job trains to the same weights in less memory, and says so", "[minutes]") {
  const std::string graph = graph_of_activations();
  const SmallJob small(graph.c_str());
  const std::vector<std::string> set = {"steps=6", "global_batch_size=128", "shards=2",
                                        "num_workers=2"};
  const std::string expected = small.hash(small.job(set), "in-process");
  ProcessClusterOptions options;
  options.workers = 2;
  options.data_path = small.path();
  // The limit of the worker, or that of the job's share of it.
  const std::string limit = GENERATE("1GiB", "16MiB", "a share of 16MiB");
  const bool shares = limit.starts_with("a share");
  options.worker = {"--set", "memory_limit=" + (shares ? "1GiB" : limit)};
  ProcessCluster cluster(options);
  Job job = small.job(set);
  if (shares) {
    job.queue.cpu = 1;
    job.queue.memory = 16 << 20;
  }
  const Finished done = submit_to(cluster, small, job);
  INFO(limit << "\n" << done.out << done.err);
  CHECK(done.exit_code == 0);
  const std::string id = done.out.substr(0, done.out.find('\n'));
  const std::string told = done.out + cluster.leat("logs", {id}).out;
  INFO(told);
  CHECK(told.find(expected) != std::string::npos);
  const bool again = told.find("are computed again, because the memory") != std::string::npos;
  CHECK(again == (limit != "1GiB"));
}

// Two of three values of [N, 24576] live at the same time: 48 MiB for the 256 rows of a step of an
// evaluation.
constexpr const char* kWideGraph = R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
wide (float[N,8,8] x) => (float[N,4] y) {
  f = Flatten (x)
  h = leat.Dense <units = 24576> (f)
  a = Sigmoid (h)
  b = Tanh (h)
  c = Add (a, b)
  y = leat.Dense <units = 4> (c)
}
)";

TEST_CASE("a job with little memory evaluates fewer rows a step, to the same figures") {
  const SmallJob small(kWideGraph);
  const std::vector<std::string> set = {"steps=4", "global_batch_size=8", "shards=1",
                                        "num_workers=1"};
  ProcessClusterOptions options;
  options.workers = 1;
  options.data_path = small.path();
  std::map<std::string, double> losses;
  std::set<std::string> hashes;
  for (const std::string limit : {"1GiB", "32MiB"}) {
    options.worker = {"--set", "memory_limit=" + limit};
    ProcessCluster cluster(options);
    const Finished done = submit_to(cluster, small, small.job(set));
    INFO(limit << "\n" << done.out << done.err << cluster.logs());
    REQUIRE(done.exit_code == 0);
    const std::string id = done.out.substr(0, done.out.find('\n'));
    const auto shown = nlohmann::json::parse(cluster.leat("show", {id, "--json"}).out);
    INFO(shown.dump(2));
    hashes.insert(shown.at("weights_sha256"));
    losses[limit] = shown.at("progress").at("val_loss");
  }
  CHECK(hashes.size() == 1);
  CHECK(losses["32MiB"] == Approx(losses["1GiB"]).epsilon(1e-6));
}

}  // namespace
}  // namespace leat
