// Tests workers that step independently and share variables on parameter servers. [cluster] runs
// under ThreadSanitizer.
#include <set>

#include "daemon/hosts/local_hosts.h"
#include "daemon/training/training_steps.h"
#include "devices/base/text.h"
#include "ops/catalogue.h"
#include "ops/graph/builder.h"
#include "tests/catch.h"
#include "tests/must.h"

namespace leat {
namespace {

constexpr int64_t kElements = 100'000;  // several tiles

std::chrono::steady_clock::time_point soon() {
  return std::chrono::steady_clock::now() + std::chrono::seconds(60);
}

// Each step adds 1 to every element of two variables. Fetches: the step's number, and the least and
// the greatest element of each variable as the step saw it.
JobGraph counting_graph(const Catalogue& catalogue) {
  JobGraph job{Graph(catalogue), {}, {}, {}};
  GraphBuilder g(job.graph);
  const auto axes = Attrs{{"keepdims", int64_t{0}}};
  job.fetches.push_back(
      g.op("Cast", {g.op("leat.Step")}, {{"to", int64_t{dtype_onnx_code(DType::f32)}}}));
  const ValueId ones = g.constant(Tensor::of<float>({kElements}, std::vector<float>(kElements, 1)));
  for (const char* name : {"a", "b"}) {
    const ValueId variable =
        g.op("leat.Variable", {},
             {{"name", std::string(name)}, {"shape", std::vector<int64_t>{kElements}}});
    const ValueId read = g.op("leat.Read", {variable});
    job.fetches.push_back(g.op("ReduceMin", {read}, axes));
    job.fetches.push_back(g.op("ReduceMax", {read}, axes));
    job.targets.push_back(g.effect("leat.AssignAdd", {variable, ones}));
  }
  must(g.status());
  return job;
}

class AsynchronousJob {
 public:
  AsynchronousJob(int workers, int servers, uint64_t first_step)
      : catalogue_(standard_catalogue()), hosts_(make_local_hosts(workers, 2)) {
    for (int w = 0; w < workers; ++w) {
      PlanOptions options;
      options.name = "count";
      options.strategy = "parameter_server";
      options.workers = workers;
      options.servers = servers;
      options.asynchronous_worker = w;
      auto plan = must(hosts_->compile(counting_graph(catalogue_), options));
      runs.push_back(must(hosts_->run(plan, "job", {"count", 0, first_step})));
    }
  }
  // Returns element 0 of a variable, on whichever worker it is.
  float value(const std::string& name) {
    for (HostHandle* worker : hosts_->hosts()) {
      const auto values = must(worker->read_variables("job"));
      if (const auto it = values.find(name); it != values.end()) return *it->second.data<float>();
    }
    return -1;
  }

 private:
  Catalogue catalogue_;
  std::unique_ptr<HostGroup> hosts_;

 public:
  std::vector<std::unique_ptr<PlanRun>> runs;
};

}  // namespace

TEST_CASE("workers that step by themselves take each number once and see whole variables",
          "[cluster]") {
  constexpr int kFirst = 7, kSteps = 60;
  for (int workers : {1, 2, 4}) {
    for (int servers = 1; servers <= std::min(workers, 2); ++servers) {
      INFO("workers " << workers << ", servers " << servers);
      AsynchronousJob job(workers, servers, kFirst);
      auto steps = steps_apart(std::move(job.runs), kFirst);
      std::set<double> numbers;
      for (int64_t done = kFirst; done < kFirst + kSteps; ++done) {
        steps->extend(std::min<int64_t>(kFirst + kSteps, done + steps->window()));
        must(steps->wait(done, soon()));
        CHECK(numbers.insert(steps->fetched_scalar(0, done)).second);
        for (uint32_t variable : {1, 3}) {
          const double least = steps->fetched_scalar(variable, done);
          CHECK(least == steps->fetched_scalar(variable + 1, done));
          CHECK(least < kSteps);
        }
      }
      must(steps->drain(soon()));
      CHECK(*numbers.begin() == kFirst);
      CHECK(*numbers.rbegin() == kFirst + kSteps - 1);
      CHECK(job.value("a") == kSteps);
      CHECK(job.value("b") == kSteps);
    }
  }
}

TEST_CASE("a worker that does not step holds up no other", "[cluster]") {
  AsynchronousJob job(3, 1, 0);
  job.runs[2]->extend(30);
  must(job.runs[2]->wait(29, soon(), true));
  CHECK(job.runs[1]->finished() == 0);
  CHECK(job.value("a") == 30);
  job.runs[1]->extend(5);
  must(job.runs[1]->wait(4, soon(), true));
  CHECK(job.runs[1]->fetched_scalar(0, 4) == 34);
}

TEST_CASE("one worker that fails ends the training of all, with its cause", "[cluster]") {
  AsynchronousJob job(3, 2, 0);
  PlanRun& failing = *job.runs[1];
  auto steps = steps_apart(std::move(job.runs), 0);
  steps->extend(3);
  must(steps->wait(2, soon()));
  failing.abort(internal_error("the worker is lost"));
  steps->extend(6);
  Status status;
  for (int64_t step = 3; step < 6 && status.ok(); ++step) status = steps->wait(step, soon());
  CHECK(status.message().find("the worker is lost") != std::string::npos);
}

}  // namespace leat
