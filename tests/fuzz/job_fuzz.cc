// Any bytes as a job file, and as an override: no crash, and what is accepted prints back equal.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "daemon/job/job.h"

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

void check(const leat::Result<leat::Job>& job) {
  if (!job.ok()) {
    if (job.status().message().empty()) std::abort();
    return;
  }
  const auto again = leat::parse_job(leat::print_job(*job), "/jobs/job.yaml");
  if (!again.ok() || !(*again == *job)) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check(leat::parse_job(text, "/jobs/job.yaml"));
  leat::JobOverrides overrides;
  overrides.set.emplace_back(text);
  check(leat::parse_job(kSmallJob, "/jobs/job.yaml", overrides));
  return 0;
}
