// Measures the step path between processes: runners as a worker starts them, driven by a master
// over the wire, on loopback. Prints one JSON object for each measure on stdout;
// tests/peers/step_path.py compares them with other systems. Times are medians over rounds, in
// microseconds. Only a quiet machine gives useful ones.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "daemon/base/json_line.h"
#include "daemon/remote/remote_hosts.h"
#include "devices/base/text.h"
#include "ops/catalogue.h"
#include "tests/benchmarks/raw_measures.h"
#include "tests/benchmarks/step_graphs.h"
#include "tests/catch.h"
#include "tests/daemon/runner/runner_testing.h"
#include "tests/must.h"
#include "tests/run_tests.h"

namespace leat {
namespace {

using Clock = std::chrono::steady_clock;
using step_graphs::StepGraph;
using testing::RunnerTestCluster;
using testing::RunnerTestOptions;

struct Options {
  std::vector<std::string> measures = {"raw",      "null",   "hop",    "small",
                                       "transfer", "server", "sparse", "all_reduce"};
  std::vector<std::string> transports = {"tcp", "shm"};
  std::vector<std::string> modes = {"interactive", "free"};  // of the null step
  std::vector<int> ranks;                                    // only these; empty: all
  std::vector<int64_t> bytes;                                // likewise
  int rounds = 5;
  double seconds = 0.3;  // of a round
  int threads = 1;       // of each runner
  bool quick = false;    // everything once and small, as a check that it runs
} options;

Clock::time_point late() { return Clock::now() + std::chrono::seconds(120); }
double us_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}
double quantile(std::vector<double> times, double q) {
  std::sort(times.begin(), times.end());
  return times[static_cast<size_t>(static_cast<double>(times.size() - 1) * q)];
}

struct Case {
  std::string measure, transport, mode;
  int ranks = 0;
  uint64_t bytes = 0;
};

bool among(const std::vector<std::string>& all, const std::string& one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

double rounded(double us) { return std::round(us * 1000) / 1000; }

void report(const Case& of, const std::vector<double>& us) {
  JsonLine line;
  line.add("measure", of.measure).add("transport", of.transport).add("mode", of.mode);
  line.add("ranks", of.ranks).add("bytes", of.bytes).add("us", rounded(quantile(us, 0.5)));
  line.add("p10_us", rounded(quantile(us, 0.1))).add("p90_us", rounded(quantile(us, 0.9)));
  std::cout << line.add("n", static_cast<uint64_t>(us.size())).text() << std::flush;
}

// Runner processes, and the master that drives them.
class Cluster {
 public:
  Cluster(const std::string& transport, int runners) : nodes_(described(runners)) {
    std::vector<std::shared_ptr<RemoteHost>> remotes;
    for (int task = 0; task < runners; ++task)
      remotes.push_back(nodes_.remote(static_cast<uint32_t>(task)));
    RemoteHostsOptions remote;
    remote.cluster = {1, 2, 3};
    remote.assembly = testing::kAssembly;
    remote.transport = transport;
    hosts_ = make_remote_hosts(nodes_.loop(), std::move(remotes), remote);
    workers_ = runners;
  }

  std::unique_ptr<PlanRun> run(const JobGraph& graph) {
    HostGroup& hosts = *hosts_;
    PlanOptions plan;
    plan.workers = workers_;
    return must(hosts.run(must(hosts.compile(graph, plan)), "measured", RunOptions()));
  }
  void run_once(const JobGraph& graph) {
    const auto once = run(graph);
    once->extend(1);
    must(once->wait(0, late(), true));
  }

 private:
  static RunnerTestOptions described(int runners) {
    RunnerTestOptions described;
    described.runners = runners;
    described.threads = options.threads;
    described.processes = true;
    return described;
  }

  RunnerTestCluster nodes_;
  std::unique_ptr<HostGroup> hosts_;
  int workers_ = 0;
};

// The runners step freely: the master allows many steps, and is notified when they are done.
std::vector<double> free_running(Cluster& cluster, JobGraph graph) {
  graph.fetches.clear();
  const auto run = cluster.run(graph);
  uint64_t done = 0;
  const auto steps = [&](uint64_t count) {
    const auto start = Clock::now();
    run->extend(done += count);
    must(run->wait(done - 1, late(), true));
    return us_since(start);
  };
  // The first steps are slow, so the number of steps for a round comes from a long enough round.
  uint64_t count = 3;
  steps(count);
  for (double us = steps(count); us < options.seconds * 0.5e6; us = steps(count)) {
    const double factor = options.seconds * 1e6 / std::max(us, 1.0);
    count = static_cast<uint64_t>(static_cast<double>(count) * std::clamp(factor, 1.1, 20.0)) + 1;
  }
  std::vector<double> us;
  for (int round = 0; round < options.rounds; ++round)
    us.push_back(steps(count) / static_cast<double>(count));
  return us;
}

// The master makes one call for each step, and waits for its fetch before the next. `expected`
// returns the fetch after a number of steps.
std::vector<double> interactive(Cluster& cluster, const JobGraph& graph,
                                const std::function<double(uint64_t)>& expected) {
  const auto run = cluster.run(graph);
  std::vector<double> us;
  constexpr uint64_t kWarm = 20;
  const auto start = Clock::now();
  const double least = options.seconds * options.rounds * 1e6;
  for (uint64_t step = 0; step < kWarm + 10 || us_since(start) < least; ++step) {
    const auto before = Clock::now();
    run->extend(step + 1);
    must(run->wait(step, late()));
    const double fetched = run->fetched_scalar(0, step);
    if (step >= kWarm) us.push_back(us_since(before));
    const double wanted = expected(step + 1);
    if (!(std::abs(fetched - wanted) <= 1e-3 * wanted))
      FAIL("step " << step << ": expected " << wanted << ", received " << fetched);
  }
  return us;
}

// Checks that the fetch of every step is right.
void check(Cluster& cluster, const StepGraph& graph, double expected) {
  const auto run = cluster.run(graph.step);
  for (uint64_t step = 0; step < 3; ++step) {
    run->extend(step + 1);
    must(run->wait(step, late()));
    const double fetched = run->fetched_scalar(0, step);
    INFO("step " << step << ": expected " << expected << ", received " << fetched);
    REQUIRE(std::abs(fetched - expected) <= 1e-2 * expected);
  }
}

const Catalogue& standard() {
  static const Catalogue catalogue = standard_catalogue();
  return catalogue;
}

// Returns the members of `all` that were asked for. Without a request: all, or only `quick` with
// --quick.
template <typename T>
std::vector<T> chosen(std::vector<T> all, const std::vector<T>& asked, T quick) {
  if (!asked.empty()) {
    std::erase_if(all, [&](T one) { return std::ranges::find(asked, one) == asked.end(); });
    return all;
  }
  return options.quick ? std::vector<T>{quick} : all;
}
std::vector<int> ranks(std::vector<int> all) { return chosen(std::move(all), options.ranks, 2); }
std::vector<int64_t> sizes(std::vector<int64_t> all) {
  return chosen(std::move(all), options.bytes, int64_t{1'000'000});
}

void measure_null(const std::string& transport) {
  for (const int w : ranks({1, 2, 4, 8})) {
    const StepGraph graph = step_graphs::null_step(standard(), w);
    Cluster cluster(transport, graph.tasks);
    cluster.run_once(graph.init);
    if (among(options.modes, "interactive")) {
      report({"null", transport, "interactive", w, 4},
             interactive(cluster, graph.step,
                         [w](uint64_t steps) { return static_cast<double>(steps) * w; }));
    }
    if (among(options.modes, "free"))
      report({"null", transport, "free", w, 4}, free_running(cluster, graph.step));
  }
}

// Measures the cost of 32 additional hops.
void measure_hop(const std::string& transport) {
  constexpr int kShort = 2, kLong = 34;
  const StepGraph graphs[] = {step_graphs::chain(standard(), kShort),
                              step_graphs::chain(standard(), kLong)};
  Cluster cluster(transport, 2);
  cluster.run_once(graphs[0].init);
  static_cast<void>(interactive(
      cluster, graphs[0].step, [](uint64_t steps) { return static_cast<double>(steps * kShort); }));
  std::vector<double> hops;
  const auto with_few = free_running(cluster, graphs[0].step);
  const auto with_many = free_running(cluster, graphs[1].step);
  for (size_t round = 0; round < with_few.size(); ++round)
    hops.push_back((with_many[round] - with_few[round]) / (kLong - kShort));
  report({"hop", transport, "free", 2, 4}, hops);
}

void measure_small(const std::string& transport) {
  constexpr int kCount = 100, kElements = 16;
  const StepGraph graph = step_graphs::transfer(standard(), kCount, kElements);
  Cluster cluster(transport, graph.tasks);
  cluster.run_once(graph.init);
  check(cluster, graph, kCount);
  report({"small", transport, "free", 2, kCount * kElements * 4},
         free_running(cluster, graph.step));
}

void measure_transfer(const std::string& transport) {
  for (const int64_t bytes : sizes({1'000'000, 100'000'000})) {
    const StepGraph graph = step_graphs::transfer(standard(), 1, bytes / 4);
    Cluster cluster(transport, graph.tasks);
    cluster.run_once(graph.init);
    check(cluster, graph, 1);
    report({"transfer", transport, "free", 2, static_cast<uint64_t>(bytes)},
           free_running(cluster, graph.step));
  }
}

void measure_server(const std::string& transport) {
  for (const int64_t bytes : sizes({1'000'000, 10'000'000, 100'000'000})) {
    const StepGraph graph = step_graphs::server_step(standard(), bytes / 4);
    Cluster cluster(transport, graph.tasks);
    cluster.run_once(graph.init);
    check(cluster, graph, 1);
    report({"server", transport, "free", 1, static_cast<uint64_t>(bytes)},
           free_running(cluster, graph.step));
  }
}

// Measures by the size of the table.
void measure_sparse(const std::string& transport) {
  constexpr int64_t kRowBytes = 400;
  for (const int64_t bytes : sizes({100'000'000, 1'000'000'000})) {
    const StepGraph graph = step_graphs::sparse_step(standard(), bytes / kRowBytes);
    Cluster cluster(transport, graph.tasks);
    cluster.run_once(graph.init);
    check(cluster, graph, 1);
    report({"sparse", transport, "free", 1, static_cast<uint64_t>(bytes)},
           free_running(cluster, graph.step));
  }
}

// Measures it as a whole, and in the pieces that a model's variables make of it.
void measure_all_reduce(const std::string& transport) {
  for (const int n : ranks({2, 4})) {
    for (const int64_t bytes : sizes({4, 1 << 20, 64 << 20})) {
      for (const int pieces : {1, 4 * n}) {
        if (bytes / pieces < 4) continue;
        const StepGraph graph = step_graphs::all_reduce(standard(), n, pieces, bytes / 4 / pieces);
        Cluster cluster(transport, graph.tasks);
        cluster.run_once(graph.init);
        check(cluster, graph, pieces * n);
        report({"all_reduce", transport, pieces == 1 ? "whole" : "pieces", n,
                static_cast<uint64_t>(bytes)},
               free_running(cluster, graph.step));
      }
    }
  }
}

std::vector<double> in_us(std::vector<double> seconds, double factor = 1) {
  for (double& s : seconds) s *= 1e6 * factor;
  return seconds;
}

void measure_raw() {
  const double seconds = options.seconds * options.rounds;
  const auto hop = [&](const char* mode, raw::Waiting waiting, raw::Cores cores) {
    const auto there_and_back = raw::round_trips(waiting, cores, seconds);
    report({"raw_hop", "tcp", mode, 2, 8}, in_us(there_and_back, 0.5));
  };
  hop("blocking", raw::Waiting::blocking, raw::Cores::any);
  hop("spinning", raw::Waiting::spinning, raw::Cores::any);
  hop("blocking, two cores", raw::Waiting::blocking, raw::Cores::two);
  hop("spinning, two cores", raw::Waiting::spinning, raw::Cores::two);
  for (const int64_t bytes : sizes({1'000'000, 100'000'000})) {
    const auto size = static_cast<size_t>(bytes);
    report({"raw_transfer", "tcp", "blocking", 2, size}, in_us(raw::tcp_transfers(size, seconds)));
    report({"memcpy", "", "", 1, size}, in_us(raw::copies(size, seconds)));
  }
}

TEST_CASE("the step path is measured") {
  if (among(options.measures, "raw")) measure_raw();
  const std::vector<std::pair<std::string, void (*)(const std::string&)>> measures = {
      {"null", measure_null},
      {"hop", measure_hop},
      {"small", measure_small},
      {"transfer", measure_transfer},
      {"server", measure_server},
      {"sparse", measure_sparse},
      {"all_reduce", measure_all_reduce}};
  for (const auto& [name, measure] : measures) {
    for (const std::string& transport : options.transports) {
      if (among(options.measures, name)) measure(transport);
    }
  }
}

}  // namespace
}  // namespace leat

// The helpers of the runner's tests report errors through Catch, so the measurement is a test case.
int main(int count, char** arguments) {
  using leat::options;
  CLI::App app("Times of the step path between processes");
  app.add_option("--measures", options.measures)->delimiter(',');
  app.add_option("--transports", options.transports)->delimiter(',');
  app.add_option("--modes", options.modes, "Of the null step")->delimiter(',');
  app.add_option("--ranks", options.ranks, "Workers, or ranks: only these")->delimiter(',');
  app.add_option("--bytes", options.bytes, "Sizes: only these")->delimiter(',');
  app.add_option("--rounds", options.rounds)->check(CLI::PositiveNumber);
  app.add_option("--seconds", options.seconds, "Of a round");
  app.add_option("--threads", options.threads, "Of each runner");
  app.add_flag("--quick", options.quick, "Everything once, and small");
  CLI11_PARSE(app, count, arguments);
  if (options.quick) {
    options.rounds = 1;
    options.seconds = 0.01;
  }
  return leat::run_tests(1, arguments);
}
