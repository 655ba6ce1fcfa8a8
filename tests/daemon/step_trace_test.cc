// `leat train --trace`: steps of a training in one process, recorded.
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "daemon/base/exit_code.h"
#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/daemon/bad_input.h"
#include "tests/daemon/child_process.h"
#include "tests/daemon/json_lines.h"
#include "tests/daemon/leat_process.h"
#include "tests/daemon/traces/trace_schema.h"
#include "tests/daemon/training_testing.h"
#include "tests/small_models.h"

namespace leat {
namespace {

using Json = nlohmann::json;

class TracedTraining {
 public:
  explicit TracedTraining(std::vector<std::string> set) : small(kTinyCnn) {
    set.emplace_back("shards=2");
    std::ofstream(small.path("job.yaml")) << print_job(small.job(set));
  }
  Finished train(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {"train", "job.yaml", "--json"});
    return run_leat(small.path(), arguments);
  }
  std::string trace() const { return contents_of(small.path("trace.json")); }
  // The steps whose nodes are slices, the first one of the job being 0.
  std::set<int64_t> steps() const {
    std::set<int64_t> out;
    const Json all = Json::parse(trace());
    for (const Json& event : all["traceEvents"])
      if (event.contains("args") && event["args"].contains("step"))
        out.insert(event["args"]["step"].get<int64_t>());
    return out;
  }

  const SmallJob small;
};

std::string weights_in(const Finished& done) {
  INFO(done.out << done.err);
  REQUIRE(done.exit_code == kExitOk);
  return Json::parse(last_object(done.out))["weights_sha256"];
}

}  // namespace

TEST_CASE("leat train --trace records the steps after the first ten, and changes no weights") {
  const TracedTraining traced({"num_workers=2"});
  const Finished done =
      traced.train({"--output", "run", "--trace", "trace.json", "--trace-steps", "3"});
  CHECK(weights_in(done) == weights_in(traced.train({"--output", "other"})));
  const TraceFacts facts = check_trace(traced.trace());
  CHECK(facts.processes == 2);
  CHECK(facts.arrows > 0);
  CHECK(traced.steps() == std::set<int64_t>{10, 11, 12});
  CHECK_THAT(done.err, Catch::Contains("Trace trace.json\n"));
  // The explanation of those steps.
  CHECK_THAT(done.err, Catch::Contains("compute") && Catch::Contains("worker-1"));
}

TEST_CASE("leat train --trace records what a short training has, and a resumed one") {
  const TracedTraining traced({"steps=4"});
  (void)weights_in(traced.train({"--output", "run", "--trace", "trace.json"}));
  CHECK(traced.steps() == std::set<int64_t>{0, 1, 2, 3});
  const Finished resumed =
      run_leat(traced.small.path(), {"train", "--resume", "run", "--set", "steps=30", "--trace",
                                     "trace.json", "--trace-steps", "5"});
  INFO(resumed.err);
  REQUIRE(resumed.exit_code == kExitOk);
  CHECK(traced.steps() == std::set<int64_t>{14, 15, 16, 17, 18});
}

TEST_CASE("leat train --trace tells where it cannot write, and the training is whole") {
  const TracedTraining traced({"steps=4"});
  const Finished done = traced.train({"--output", "run", "--trace", "no/folder/trace.json"});
  CHECK(weights_in(done).size() == 64);
  CHECK_THAT(done.err, Catch::Contains("warning: ") && Catch::Contains("no/folder/trace.json"));
  CHECK(traced.train({"--trace-steps", "5"}).exit_code == kExitUsage);
}

}  // namespace leat
