// Audited jobs on the real daemons, in which bits flip.
#include <fstream>
#include <nlohmann/json.hpp>

#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/daemon/process_cluster.h"
#include "tests/daemon/training_testing.h"

namespace leat {
namespace {

constexpr const char* kDense = R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
dense (float[N,1,8,8] image) => (float[N,4] logits) {
  f = Flatten (image)
  h = leat.Dense <units = 8, activation = "relu"> (f)
  logits = leat.Dense <units = 4> (h)
}
)";

// A cluster that runs an audited job of three workers for each fault. Its weights are those of a
// job without a fault.
class AuditedCluster {
 public:
  AuditedCluster()
      : small_(kDense),
        cluster_({.workers = 4, .data_path = small_.path(), .master = {"--set", "chaos=true"}}),
        expected_(small_.hash(small_.job(kCommon), "in-process")) {
    REQUIRE(cluster_.await_ready(4));
  }

  // Runs a job with this chance of an audit and this fault of task 1 to its end; then culprit()
  // drains no more.
  void run(const std::string& audit, const std::string& fault) {
    std::vector<std::string> sets = kCommon;
    sets.insert(sets.end(), {"num_workers=3", "audit=" + audit});
    Job job = small_.job(sets);
    job.data.root = "data";
    const std::string path = small_.path("job.yaml");
    std::ofstream(path) << print_job(job);
    const Finished done = cluster_.leat("submit", {"--wait", "--json", path, "--chaos", fault});
    INFO(done.out << done.err << cluster_.logs());
    REQUIRE(done.exit_code == 0);
    std::string id = cluster_.leat("ps", {"--all", "--quiet"}).out;
    id = id.substr(0, id.find('\n'));
    view = nlohmann::json::parse(cluster_.show(id));
    log = cluster_.leat("logs", {id}).out;
    INFO(view.dump(1) << log);
    CHECK(view["weights_sha256"] == expected_);
    REQUIRE(view["history"].size() == 1);
    culprit = view["history"][0]["culprit"];
    cause = view["history"][0]["cause"];
    // It is the worker in whose runner the bit flipped, and it gets no more jobs.
    CHECK_THAT(log, Catch::Contains(cat("warning task-1: chaos: ", fault)));
    const size_t line = log.rfind('\n', log.find(cat("warning task-1: chaos: ", fault)));
    CHECK(log.substr(line + 1).starts_with(culprit + " | "));
    CHECK_THAT(log, Catch::Contains(cat("worker '", culprit, "' drains now")));
    const std::string nodes = cluster_.leat("nodes", {}).out;
    const size_t node = nodes.find("\n" + culprit + " ");
    REQUIRE(node != std::string::npos);
    CHECK_THAT(nodes.substr(node, nodes.find('\n', node + 1) - node), Catch::Contains("DRAINING"));
    CHECK(view["progress"]["audits"]["differences"] == 1);
    CHECK(cluster_.leat("nodes", {"drain", culprit, "--undo"}).exit_code == 0);
  }

  int64_t went_on_from() const { return view["history"][0]["went_on_from"]; }

  nlohmann::json view;
  std::string log, culprit, cause;

 private:
  inline static const std::vector<std::string> kCommon{"steps=60", "checkpoint.every_steps=10"};
  const SmallJob small_;
  ProcessCluster cluster_;
  const std::string expected_;
};

// Not for ThreadSanitizer: a bit that flips under a running step is a data race, as it is meant to
// be.
TEST_CASE("an audited job drains the worker whose bits flip, and ends with the same weights") {
  AuditedCluster jobs;
  jobs.run("1", "flip=weight:1@step=25");
  CHECK_THAT(jobs.cause, Catch::Contains(cat("audit after step 25: worker '", jobs.culprit,
                                             "' has other bits of variable h/kernel")));
  // A slow disk may have cost the last checkpoint.
  const int64_t from = jobs.went_on_from();
  CHECK(from <= 20);
  CHECK(jobs.view["progress"]["audits"]["steps"] == 25 + 60 - from);
  CHECK(jobs.view["progress"]["audits"]["pairs"] == (25 + 60 - from) * 4);
  jobs.run("1", "flip=gradient:1@step=33");
  CHECK_THAT(jobs.cause, Catch::Contains(cat("audit of step 34: worker '", jobs.culprit,
                                             "' has other bits of gradient of ")));
  CHECK_THAT(jobs.cause, Catch::Contains(" of shard "));
  CHECK(jobs.went_on_from() <= 30);
  // No step is audited: the next checkpoint compares the variables.
  jobs.run("1e-12", "flip=weight:1@step=45");
  CHECK_THAT(jobs.cause, Catch::Contains("audit after step 50: "));
  CHECK(jobs.went_on_from() <= 40);
}

}  // namespace
}  // namespace leat
