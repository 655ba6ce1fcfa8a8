// The time for which the steps of each host wait for rows of the data.
#include <chrono>

#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/daemon/training_testing.h"
#include "tests/must.h"
#include "tests/small_models.h"

namespace leat {
namespace {

class InputWatch final : public Silent {
 public:
  void waited_for_input(const std::vector<NamedNumber>& hosts) override { waits.push_back(hosts); }
  std::vector<std::vector<NamedNumber>> waits;
};

TEST_CASE("each host tells how long its steps have waited for rows") {
  const SmallJob small(kTinyDense);
  const Job job = small.job({"num_workers=2", "epochs=3"});
  for (const int threads : {1, 4}) {
    InputWatch watch;
    const auto begun = std::chrono::steady_clock::now();
    small.train(job, cat("run-", threads), watch, threads);
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begun;
    // At the end of each epoch, and once a second.
    REQUIRE(watch.waits.size() >= 3);
    std::vector<double> before(2, 0.0);
    for (const auto& hosts : watch.waits) {
      REQUIRE(hosts.size() == 2);
      CHECK(hosts[0].name != hosts[1].name);
      for (size_t h = 0; h < 2; ++h) {
        CHECK(hosts[h].value >= before[h]);
        CHECK(hosts[h].value < passed.count());
        before[h] = hosts[h].value;
      }
    }
    // A host with one thread reads its rows by itself. In one process the hosts share the threads.
    if (threads == 1) {
      CHECK(before[0] > 0);
      CHECK(before[1] > 0);
    }
  }
}

TEST_CASE("steps that read nothing wait for no rows") {
  const SmallJob small(R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
net () => (float total) {
  v = leat.Variable <name = "v", shape = [4], dtype = "float"> ()
  x = leat.Read (v)
  one = Constant <value = float[4] {1, 1, 1, 1}> ()
  next = Add (x, one)
  [write] = leat.Assign (v, next)
  total = ReduceSum <keepdims = 0> (next)
})");
  JobOverrides overrides;
  overrides.set = {"steps=20"};
  const Job job = must(
      parse_job("version: 1\nname: none\nmodel: {graph: model.onnxtxt}\nprogram: {}\nsteps: 1\n",
                small.path("job.yaml"), overrides));
  InputWatch watch;
  small.train(job, "run", watch);
  REQUIRE(watch.losses.size() == 20);
  REQUIRE(!watch.waits.empty());
  for (const NamedNumber& host : watch.waits.back()) CHECK(host.value == 0);
}

}  // namespace
}  // namespace leat
