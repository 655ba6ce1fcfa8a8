// Calls of CUDA that fail, a GPU that is lost and a lack of memory, each within a job of this
// process: the job ends with one error, which names the device, the call and CUDA's error.
#include <functional>
#include <string>

#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/cuda/gpu_job.h"
#include "tests/cuda_emulation/fake_runtime.h"
#include "tests/must.h"

namespace leat {
namespace {

using testing::GpuJob;
using testing::GpuTrainingOptions;
using testing::kMlp;

int times_in(const std::string& text, const std::string& word) {
  int times = 0;
  for (size_t at = 0; (at = text.find(word, at)) != std::string::npos; at += word.size()) ++times;
  return times;
}

// The error of a training that fails as `fault` arranges when the GPU is open. The same job then
// gives the weights that it gave before.
Status failure_of(const std::function<void()>& fault) {
  GpuJob gpu(kMlp);
  const Job job = gpu.small.job({"steps=12"});
  const std::string expected = must(gpu.train(job, "before")).outcome.weights_sha256;
  GpuTrainingOptions options;
  options.once_open = fault;
  const auto failed = gpu.train(job, "failed", options);
  CHECK(must(gpu.train(job, "after")).outcome.weights_sha256 == expected);
  return failed.status();
}

struct FailingCall {
  const char* function;
  uint64_t nth;
  const char* names;  // the call, in the message
};

}  // namespace

TEST_CASE("a call of CUDA that fails in a step ends the job with its name and its error") {
  const auto call =
      GENERATE(values<FailingCall>({{"cudaMemcpyAsync", 30, "cudaMemcpyAsync of "},
                                    {"cudaEventRecord", 40, "cudaEventRecord"},
                                    {"cudaEventQuery", 40, "cudaEventQuery"},
                                    {"cudaEventCreateWithFlags", 1, "cudaEventCreateWithFlags"},
                                    {"cudaStreamWaitEvent", 2, "cudaStreamWaitEvent"},
                                    {"cudaLaunchKernelExC", 20, "to enqueue "},
                                    {"cudaGraphLaunch", 8, "cudaGraphLaunch"},
                                    {"cudaGraphCreate", 1, "cudaGraphCreate"},
                                    {"cudaHostAlloc", 2, "pinned bytes of the host"}}));
  INFO(call.function);
  const std::string message = failure_of([&] {
                                fake_cuda::fail_call(call.function, call.nth, cudaErrorUnknown);
                              }).message();
  INFO(message);
  CHECK_THAT(message, Catch::Contains("gpu:0: "));
  CHECK_THAT(message, Catch::Contains(call.names));
  CHECK(times_in(message, "cudaErrorUnknown") == 1);
}

TEST_CASE("a recording that CUDA refuses costs the graph, and not the weights") {
  const auto* const function = GENERATE("cudaStreamBeginCaptureToGraph", "cudaGraphInstantiate");
  INFO(function);
  GpuJob gpu(kMlp);
  const Job job = gpu.small.job({"steps=12"});
  const std::string expected = must(gpu.train(job, "whole")).outcome.weights_sha256;
  GpuTrainingOptions options;
  options.once_open = [&] { fake_cuda::fail_call(function, 1, cudaErrorStreamCaptureUnsupported); };
  CHECK(must(gpu.train(job, "refused", options)).outcome.weights_sha256 == expected);
}

TEST_CASE("a GPU that is lost in a step ends the job with its name, whatever call comes next") {
  const uint64_t launch = GENERATE(1, 60, 150);
  INFO("lost at launch " << launch);
  const Status failed = failure_of([&] { fake_cuda::lose_device(launch); });
  const std::string& message = failed.message();
  INFO(message);
  // As the loss of a process: another one can go on.
  CHECK(failed.code() == Code::unavailable);
  CHECK_THAT(message, Catch::Contains("gpu:0: "));
  CHECK_THAT(message, Catch::Contains(": cuda") || Catch::Contains("to enqueue "));
  CHECK(times_in(message, "cudaErrorDevicesUnavailable") == 1);
}

TEST_CASE("a GPU that is lost while a job allocates its memory has no memory afterwards either") {
  const auto* const function = GENERATE("cudaMalloc", "cudaHostAlloc", "cudaStreamSynchronize");
  INFO("lost at " << function);
  const Status failed = failure_of([&] { fake_cuda::lose_device_at(function, 3); });
  const std::string& message = failed.message();
  INFO(message);
  CHECK(failed.code() == Code::unavailable);
  CHECK_THAT(message, Catch::Contains("gpu:0: "));
  CHECK(times_in(message, "cudaErrorDevicesUnavailable") == 1);
}

TEST_CASE("a GPU whose memory others take before a job does is named with what the job asked for") {
  const Status failed = failure_of([] { fake_cuda::limit_memory(4096); });
  const std::string& message = failed.message();
  INFO(message);
  CHECK(failed.code() == Code::resource_exhausted);
  CHECK_THAT(message, Catch::Contains("gpu:0: to allocate "));
  CHECK_THAT(message, Catch::Contains(" bytes: cudaErrorMemoryAllocation"));
}

}  // namespace leat
