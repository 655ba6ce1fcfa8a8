#include "daemon/cli/top_view.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "tests/catch.h"
#include "tests/daemon/status/example_source.h"

using namespace leat;
using namespace std::chrono_literals;

namespace {

TopSample sample_of(const ExampleSource& source, std::chrono::seconds at) {
  return {std::chrono::steady_clock::time_point(at), source.cluster(), source.jobs(),
          source.nodes()};
}

}  // namespace

TEST_CASE("rates are differences of counters over the time between two looks") {
  NodeView before, after;
  before.worker.info.worker = after.worker.info.worker = {"w", 1};
  before.worker.usage.cpu_ms = 1000;
  after.worker.usage.cpu_ms = 4000;
  after.worker.traffic.bytes_sent = 500;
  after.worker.progress = 30;
  const NodeRates rates = rates_of(before, after, 2s);
  CHECK(rates.cpu == 1.5);
  CHECK(rates.sent == 250);
  CHECK(rates.received == 0);
  CHECK(rates.steps == 15);
  after.worker.info.worker.incarnation = 2;  // another process, which counts from 0 again
  CHECK(std::isnan(rates_of(before, after, 2s).cpu));
}

TEST_CASE("the slowest worker of a job is the one that the others wait for") {
  ExampleSource source;
  const JobView& job = source.jobs_[1];
  const auto slowest = [&](double first, double second) {
    source.nodes_[0].worker.waiting = first;
    source.nodes_[1].worker.waiting = second;
    return slowest_worker(job, source.nodes_);
  };
  CHECK(slowest(0.7, 0.1) == "worker-2");
  CHECK(slowest(0.1, 0.7) == "worker-1");
  CHECK(slowest(0.3, 0.2) == "");  // about the same
  CHECK(slowest(0.7, std::numeric_limits<double>::quiet_NaN()) == "");
  CHECK(slowest_worker(source.jobs_[2], source.nodes_) == "");  // has no workers
}

TEST_CASE("top shows what jobs and workers use") {
  ExampleSource source;
  const TopSample before = sample_of(source, 10s);
  WorkerView& worker = source.nodes_[0].worker;
  worker.usage = {3000, uint64_t{4} << 30};
  worker.waiting = 0.75;
  worker.step_seconds = 0.08;
  worker.traffic.bytes_sent += 2 << 20;
  source.nodes_[1].worker.waiting = 0.25;
  const TopSample after = sample_of(source, 12s);
  const std::string text = top_text(before, after, 0);
  CHECK_THAT(text, Catch::StartsWith("leat 0.1.0, up 1m; 2 workers; 2 jobs, 1 ended\n"));
  CHECK_THAT(text, Catch::Matches("(?:.|\n)*fashion-mnist-cnn-7f3a +RUNNING +250/1000 +0.5000 "
                                  "+80.000 ms +12.5 +1600 +worker-2(?:.|\n)*"));
  CHECK_THAT(text, Catch::Matches("(?:.|\n)*worker-1 +READY +150% +19% of 8 +4.0 GiB +25% +1.0 "
                                  "MiB/s +0 B/s +80.000 ms +75%(?:.|\n)*"));
  CHECK_THAT(text, !Catch::Contains("GPU"));                // there is none
  CHECK_THAT(text, !Catch::Contains("fashion-mnist-mlp"));  // has ended

  const auto json = nlohmann::json::parse(top_json(before, after));
  CHECK(json.at("kind") == "Top");
  CHECK(json.at("jobs").at("fashion-mnist-cnn-7f3a").at("slowest_worker") == "worker-2");
  CHECK(json.at("jobs").at("gpt-0001").at("slowest_worker").is_null());
  const auto& node = json.at("nodes").at("worker-1");
  CHECK(node.at("cpu") == 1.5);
  CHECK(node.at("of_cores") == 1.5 / 8);
  CHECK(node.at("of_memory") == 0.25);
  CHECK(node.at("jobs") == nlohmann::json{"fashion-mnist-cnn-7f3a"});
  CHECK(node.at("bytes_sent_per_second") == 1 << 20);
  CHECK(node.at("resident_bytes") == uint64_t{4} << 30);
  CHECK(node.at("waiting") == 0.75);
  CHECK(node.at("step_seconds") == 0.08);
}

TEST_CASE("top shows how much of a worker's accelerators is reserved") {
  ExampleSource source;
  WorkerView& worker = source.nodes_[0].worker;
  worker.info.devices.push_back({"gpu", "gpu:0", uint64_t{80} << 30, 1, "A GPU"});
  worker.usage.accelerators.variables = uint64_t{2} << 30;
  worker.usage.accelerators.activations = uint64_t{1} << 30;
  const TopSample sample = sample_of(source, 10s);
  const std::string text = top_text(sample, sample, 0);
  CHECK_THAT(text, Catch::Contains("GPU MEMORY") && Catch::Contains("3.0 GiB of 80.0 GiB"));
  const auto node = nlohmann::json::parse(top_json(sample, sample)).at("nodes").at("worker-1");
  CHECK(node.at("accelerators_reserved_bytes") == uint64_t{3} << 30);
  CHECK(node.at("accelerators_memory_bytes") == uint64_t{80} << 30);
}

TEST_CASE("an empty cluster has no jobs and no workers to show") {
  const TopSample empty = {};
  CHECK_THAT(top_text(empty, empty, 0),
             Catch::Contains("no jobs") && Catch::Contains("no workers"));
}
