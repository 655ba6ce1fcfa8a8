// Reads any bytes as a job file, and as an override of one. An error must have a message, and an
// accepted job must print back as an equal one.
#include <string_view>

#include "daemon/spec/job.h"
#include "tests/fuzz/fuzz.h"

namespace leat {
namespace {

constexpr std::string_view kSmallJob = R"(version: 1
name: least
model: {graph: /g.onnxtxt}
data: {root: /data, train: {format: npy, features: x.npy, labels: y.npy}}
loss: mse
optimizer: {name: adamw, learning_rate: 1e-3}
global_batch_size: 32
steps: 10
)";

void check(const Result<Job>& job) {
  if (!job.ok()) {
    require_message(job.status());
    return;
  }
  const auto again = parse_job(print_job(*job), "/jobs/job.yaml");
  require(again.ok(), "a printed job is a job");
  require(*again == *job, "a printed job is the same job");
}

}  // namespace
}  // namespace leat

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace leat;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check(parse_job(text, "/jobs/job.yaml"));
  JobOverrides overrides;
  overrides.set.emplace_back(text);
  check(parse_job(kSmallJob, "/jobs/job.yaml", overrides));
  return 0;
}
