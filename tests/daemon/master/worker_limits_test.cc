// Limits of the claims with which workers register.
#include "daemon/jobs/worker_limits.h"

#include <fstream>
#include <sstream>

#include "tests/catch.h"
#include "tests/daemon/master/master_fixture.h"

namespace leat {

using namespace testing;

namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;

// A worker with one processor, and as many GPUs.
WorkerInfo claiming(const std::string& name, uint64_t memory, uint32_t cores, size_t gpus = 0,
                    uint64_t gpu_memory = 0) {
  WorkerInfo info;
  info.worker = {name, 1};
  info.devices.push_back({"cpu", "cpu:0", memory, cores, ""});
  for (size_t i = 0; i < gpus; ++i)
    info.devices.push_back({"gpu", cat("gpu:", i), gpu_memory, 0, ""});
  return info;
}

Status check_claims(const WorkerInfo& info, const WorkerLimits& limits) {
  return check_claims(info, info.worker.name, limits);
}

std::string text_of_audit(const TemporaryDirectory& folder) {
  std::stringstream text;
  for (const auto& each : std::filesystem::directory_iterator(folder / "state/audit"))
    text << std::ifstream(each.path()).rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("a worker may claim what its limit allows, and not one more of anything", "[cluster]") {
  const WorkerLimits limits = {{"w*", {64 * kGiB, 8, 2, 80 * kGiB}}};
  CHECK(check_claims(claiming("w1", 64 * kGiB, 8, 2, 80 * kGiB), limits).ok());
  const auto refusal = [&](const WorkerInfo& info) {
    const Status status = check_claims(info, limits);
    CHECK(status.code() == Code::resource_exhausted);
    return status.message();
  };
  CHECK(
      refusal(claiming("w1", 65 * kGiB, 8)) ==
      "worker 'w1': expected at most 64.0 GiB (worker_limits of 'w*', memory), received 65.0 GiB");
  CHECK(refusal(claiming("w1", 0, 9)) ==
        "worker 'w1': expected at most 8 cores (worker_limits of 'w*', cores), received 9");
  CHECK(refusal(claiming("w1", 0, 1, 3)) ==
        "worker 'w1': expected at most 2 devices (worker_limits of 'w*', devices), received 3");
  CHECK_THAT(refusal(claiming("w1", 0, 1, 1, 81 * kGiB)), Catch::Contains("device_memory"));
  // No limit has its name.
  CHECK(check_claims(claiming("x1", 65 * kGiB, 9, 3, 81 * kGiB), limits).ok());
}

TEST_CASE("the first glob that matches a worker's name counts, and 0 is no limit", "[cluster]") {
  const WorkerLimits limits = {{"big-*", {}}, {"b*", {kGiB, 1, 0, 0}}, {"*", {2 * kGiB, 0, 0, 0}}};
  CHECK(check_claims(claiming("big-1", 900 * kGiB, 900, 9, 900 * kGiB), limits).ok());
  CHECK_THAT(check_claims(claiming("b1", 2 * kGiB, 1), limits).message(),
             Catch::Contains("worker_limits of 'b*', memory"));
  CHECK(check_claims(claiming("c1", 2 * kGiB, 900, 9), limits).ok());
  CHECK_THAT(check_claims(claiming("c1", 3 * kGiB, 1), limits).message(),
             Catch::Contains("worker_limits of '*'"));
}

TEST_CASE("no limit is needed to refuse what no machine has", "[cluster]") {
  CHECK(check_claims(claiming("w1", kMostDeviceBytes, kMostDeviceThreads), {}).ok());
  const Status memory = check_claims(claiming("w1", uint64_t{1} << 62, 1), {});
  CHECK(memory.code() == Code::invalid_argument);
  CHECK_THAT(memory.message(), Catch::Contains("device 'cpu:0': expected at most 1.0 PiB") &&
                                   Catch::Contains("received 4611686018427387904 bytes"));
  CHECK_THAT(check_claims(claiming("w1", 1, kMostDeviceThreads + 1), {}).message(),
             Catch::Contains("expected at most 65536 threads, received 65537"));
  CHECK_THAT(check_claims(claiming("w1", 1, 1, 2, ~uint64_t{0}), {}).message(),
             Catch::Contains("device 'gpu:0'"));
}

TEST_CASE("a worker that claims too much is refused before its claim counts, and audited",
          "[cluster]") {
  Host host;
  host.change = [](MasterConfig& config) {
    config.worker_limits = {{"small-*", {8 * kGiB, 4, 0, 0}}};
  };
  host.restart();
  const std::string job = host.submitted(tiny_job("waits"));
  const std::string master = host.master->address();
  const FakeWorker greedy(master, "small-1", 1, true, {9 * kGiB, 4});
  CHECK(greedy.registered().message() ==
        "worker 'small-1': expected at most 8.0 GiB (worker_limits of 'small-*', memory), "
        "received 9.0 GiB");
  const FakeWorker boundless(master, "other", 1, true, {uint64_t{1} << 62, 4});
  CHECK(boundless.registered().code() == Code::invalid_argument);
  // Neither is a node, nor has the job that waits.
  CHECK(host.master->status().nodes().empty());
  CHECK(host.state(job) == "QUEUED");
  const FakeWorker honest(master, "small-1", 2, true, {8 * kGiB, 4});
  REQUIRE_OK(honest.registered());
  CHECK(honest.order().job == job);
  CHECK(greedy.started().empty());
  CHECK(eventually([&] {
    const std::string audit = text_of_audit(host.folder);
    return audit.find("worker 'small-1' at ") != std::string::npos &&
           audit.find("worker_limits of 'small-*', memory") != std::string::npos &&
           audit.find("device 'cpu:0': expected at most") != std::string::npos;
  }));
}

}  // namespace leat
