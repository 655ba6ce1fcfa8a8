#include "daemon/worker/runner_metrics.h"

#include "tests/catch.h"

namespace leat {
namespace {

TEST_CASE("each runner of a worker has samples with the names of the worker and the job") {
  RunnerWork work;
  work.job = "mlp-1";
  work.turns = 12;
  work.traffic.bytes_sent = 34;
  work.usage.cpu_ms = 5'500;
  work.usage.host.data = 67;
  const std::vector<RunnersOfWorker> workers = {{"w0", {work}}, {"w1", {}}};
  const std::string text = metrics_text(runner_metrics(workers));
  CHECK_THAT(text, Catch::Contains("leat_runner_steps_total{node=\"w0\",job=\"mlp-1\"} 12\n"));
  CHECK_THAT(text,
             Catch::Contains("leat_runner_cpu_seconds_total{node=\"w0\",job=\"mlp-1\"} 5.5\n"));
  CHECK_THAT(text, Catch::Contains("leat_runner_bytes_sent_total{node=\"w0\",job=\"mlp-1\"} 34\n"));
  CHECK_THAT(text, Catch::Contains("leat_runner_reserved_memory_bytes{node=\"w0\",job=\"mlp-1\","
                                   "on=\"host\",kind=\"data\"} 67\n"));
  CHECK_THAT(text, !Catch::Contains("\"w1\"") && !Catch::Contains("accelerators"));
}

}  // namespace
}  // namespace leat
