// The fake CUDA runtime by its calls: streams, events, recordings and memory.
#include "tests/cuda_emulation/fake_runtime.h"

#include <cuda_runtime_api.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "tests/catch.h"

namespace leat {
namespace {

constexpr auto kPromiseDeadline = std::chrono::seconds(60);

// A stream and some memory of the device and of the host.
class Raw {
 public:
  explicit Raw(uint64_t seed = 0) {
    fake_cuda::reset(seed);
    REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
    REQUIRE(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking) == cudaSuccess);
    REQUIRE(cudaEventCreateWithFlags(&event, cudaEventDisableTiming) == cudaSuccess);
    REQUIRE(cudaMalloc(&device, kBytes) == cudaSuccess);
    REQUIRE(cudaHostAlloc(&host, kBytes, 0) == cudaSuccess);
  }
  Raw(const Raw&) = delete;
  Raw& operator=(const Raw&) = delete;
  ~Raw() {
    (void)cudaStreamDestroy(stream);
    (void)cudaStreamDestroy(other);
    (void)cudaEventDestroy(event);
    (void)cudaFree(device);
    (void)cudaFreeHost(host);
    fake_cuda::reset();
  }
  static constexpr size_t kBytes = 64;
  cudaStream_t stream = nullptr, other = nullptr;
  cudaEvent_t event = nullptr;
  void *device = nullptr, *host = nullptr;
};

// Holds the device until it is let go, so that what is enqueued meanwhile waits.
class HeldDevice {
 public:
  explicit HeldDevice(cudaStream_t stream) {
    auto released = released_.get_future().share();
    REQUIRE(fake_cuda::enqueue(stream, [released] {
              return released.wait_for(kPromiseDeadline) == std::future_status::ready
                         ? cudaSuccess
                         : cudaErrorUnknown;
            }) == cudaSuccess);
  }
  void release() { released_.set_value(); }

 private:
  std::promise<void> released_;
};

}  // namespace

TEST_CASE("the fake runtime loses its device at a call, and every later call fails") {
  Raw raw;
  fake_cuda::lose_device_at("cudaMalloc", 2);
  void *first = nullptr, *second = nullptr;
  REQUIRE(cudaMalloc(&first, Raw::kBytes) == cudaSuccess);
  CHECK(cudaMalloc(&second, Raw::kBytes) == cudaErrorDevicesUnavailable);
  CHECK(cudaMalloc(&second, Raw::kBytes) == cudaErrorDevicesUnavailable);
  CHECK(cudaStreamSynchronize(raw.stream) == cudaErrorDevicesUnavailable);
  CHECK(cudaGetLastError() == cudaErrorDevicesUnavailable);
  (void)cudaFree(first);
}

TEST_CASE("the fake does the work of a stream in order, and of two as the seed draws") {
  const auto order_of = [](uint64_t seed, bool one_stream) {
    Raw raw(seed);
    std::vector<int> order;
    HeldDevice held(raw.stream);
    for (int i = 0; i < 6; ++i) {
      REQUIRE(fake_cuda::enqueue(one_stream || i % 2 == 0 ? raw.stream : raw.other, [&order, i] {
                order.push_back(i);
                return cudaSuccess;
              }) == cudaSuccess);
    }
    held.release();
    REQUIRE(cudaStreamSynchronize(raw.stream) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(raw.other) == cudaSuccess);
    return order;
  };
  const std::vector<int> ascending = {0, 1, 2, 3, 4, 5};
  CHECK(order_of(0, true) == ascending);
  bool differs = false;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const std::vector<int> order = order_of(seed, false);
    differs = differs || order != order_of(0, false);
    CHECK(order.size() == 6);
  }
  CHECK(differs);
}

TEST_CASE("an event of the fake is reached behind the work that was enqueued before its record") {
  Raw raw;
  CHECK(cudaEventQuery(raw.event) == cudaSuccess);  // it was never recorded
  CHECK(cudaStreamWaitEvent(raw.other, raw.event, 0) == cudaSuccess);
  HeldDevice held(raw.stream);
  REQUIRE(cudaEventRecord(raw.event, raw.stream) == cudaSuccess);
  CHECK(cudaEventQuery(raw.event) == cudaErrorNotReady);
  // The other stream waits for this record, also if the event is recorded again.
  std::atomic<bool> went_on = false;
  REQUIRE(cudaStreamWaitEvent(raw.other, raw.event, 0) == cudaSuccess);
  REQUIRE(cudaEventRecord(raw.event, raw.other) == cudaSuccess);
  REQUIRE(fake_cuda::enqueue(raw.other, [&] {
            went_on = true;
            return cudaSuccess;
          }) == cudaSuccess);
  CHECK_FALSE(went_on);
  held.release();
  REQUIRE(cudaStreamSynchronize(raw.other) == cudaSuccess);
  CHECK(went_on);
  CHECK(cudaEventQuery(raw.event) == cudaSuccess);
}

TEST_CASE("the fake refuses what CUDA forbids while a stream is recorded") {
  Raw raw;
  cudaGraph_t graph = nullptr;
  const auto begin = [&] {
    REQUIRE(cudaStreamBeginCapture(raw.stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  };
  CHECK(cudaStreamEndCapture(raw.stream, &graph) == cudaErrorIllegalState);
  begin();
  CHECK(cudaStreamBeginCapture(raw.stream, cudaStreamCaptureModeThreadLocal) ==
        cudaErrorIllegalState);
  SECTION("a call of another thread to end it") {
    std::thread([&] {
      cudaGraph_t none = nullptr;
      CHECK(cudaStreamEndCapture(raw.stream, &none) == cudaErrorStreamCaptureWrongThread);
    }).join();
    CHECK(cudaStreamEndCapture(raw.stream, &graph) == cudaSuccess);
  }
  SECTION("an allocation, after which nothing more is recorded") {
    void* more = nullptr;
    CHECK(cudaMalloc(&more, 16) == cudaErrorStreamCaptureUnsupported);
    CHECK(cudaMemsetAsync(raw.device, 0, 4, raw.stream) == cudaErrorStreamCaptureInvalidated);
    CHECK(cudaStreamEndCapture(raw.stream, &graph) == cudaErrorStreamCaptureInvalidated);
    CHECK(graph == nullptr);
  }
  SECTION("a wait for the stream") {
    CHECK(cudaStreamSynchronize(raw.stream) == cudaErrorStreamCaptureUnsupported);
    CHECK(cudaStreamEndCapture(raw.stream, &graph) == cudaErrorStreamCaptureInvalidated);
  }
  SECTION("an event, which would join another stream") {
    CHECK(cudaEventRecord(raw.event, raw.stream) == cudaErrorStreamCaptureInvalidated);
    CHECK(cudaStreamEndCapture(raw.stream, &graph) == cudaErrorStreamCaptureInvalidated);
  }
  if (graph) CHECK(cudaGraphDestroy(graph) == cudaSuccess);
}

TEST_CASE("what is recorded is not done before its graph is launched, and then each time") {
  Raw raw;
  auto* bytes = static_cast<unsigned char*>(raw.host);
  REQUIRE(cudaStreamBeginCapture(raw.stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  REQUIRE(cudaMemsetAsync(raw.device, 7, 1, raw.stream) == cudaSuccess);
  cudaGraph_t graph = nullptr;
  REQUIRE(cudaStreamEndCapture(raw.stream, &graph) == cudaSuccess);
  cudaGraphExec_t ready = nullptr;
  REQUIRE(cudaGraphInstantiate(&ready, graph, 0) == cudaSuccess);
  const auto byte = [&] {
    REQUIRE(cudaMemcpyAsync(raw.host, raw.device, 1, cudaMemcpyDeviceToHost, raw.stream) ==
            cudaSuccess);
    REQUIRE(cudaStreamSynchronize(raw.stream) == cudaSuccess);
    return bytes[0];
  };
  CHECK(byte() == 0xff);
  for (int i = 0; i < 2; ++i) {
    REQUIRE(cudaGraphLaunch(ready, raw.stream) == cudaSuccess);
    CHECK(byte() == 7);
    REQUIRE(cudaMemsetAsync(raw.device, 1, 1, raw.stream) == cudaSuccess);
    CHECK(byte() == 1);
  }
  CHECK(cudaGraphExecDestroy(ready) == cudaSuccess);
  CHECK(cudaGraphDestroy(graph) == cudaSuccess);
}

TEST_CASE("the fake refuses copies whose kind or length does not fit the memory") {
  Raw raw;
  char elsewhere[Raw::kBytes];
  CHECK(cudaMemcpyAsync(raw.device, raw.host, 8, cudaMemcpyDeviceToHost, raw.stream) ==
        cudaErrorInvalidValue);
  CHECK(cudaMemcpyAsync(raw.device, raw.host, Raw::kBytes + 1, cudaMemcpyHostToDevice,
                        raw.stream) == cudaErrorInvalidValue);
  CHECK(cudaMemsetAsync(raw.host, 0, 8, raw.stream) == cudaErrorInvalidValue);
  CHECK(fake_cuda::counts().unpinned_copies == 0);
  CHECK(cudaMemcpyAsync(elsewhere, raw.device, 8, cudaMemcpyDeviceToHost, raw.stream) ==
        cudaSuccess);
  CHECK(cudaStreamSynchronize(raw.stream) == cudaSuccess);
  CHECK(fake_cuda::counts().unpinned_copies == 1);
  CHECK(cudaFree(raw.host) == cudaErrorInvalidValue);
  CHECK(cudaFreeHost(raw.device) == cudaErrorInvalidValue);
}

TEST_CASE("the fake's memory is counted up to its limit, and its free part is told") {
  Raw raw;
  fake_cuda::limit_memory(Raw::kBytes + 1000);
  size_t free = 0, total = 0;
  REQUIRE(cudaMemGetInfo(&free, &total) == cudaSuccess);
  CHECK(free == 1000);
  CHECK(total == Raw::kBytes + 1000);
  void* more = nullptr;
  CHECK(cudaMalloc(&more, 1001) == cudaErrorMemoryAllocation);
  REQUIRE(cudaMalloc(&more, 1000) == cudaSuccess);
  REQUIRE(cudaMemGetInfo(&free, &total) == cudaSuccess);
  CHECK(free == 0);
  CHECK(cudaFree(more) == cudaSuccess);
}

TEST_CASE("a call that a test lets fail fails once, and a launch that fails stays") {
  Raw raw;
  fake_cuda::fail_call("cudaMemsetAsync", 2, cudaErrorUnknown);
  CHECK(cudaMemsetAsync(raw.device, 0, 1, raw.stream) == cudaSuccess);
  CHECK(cudaEventRecord(raw.event, raw.stream) == cudaSuccess);
  CHECK(cudaMemsetAsync(raw.device, 0, 1, raw.stream) == cudaErrorUnknown);
  CHECK(cudaMemsetAsync(raw.device, 0, 1, raw.stream) == cudaSuccess);
  CHECK(cudaStreamSynchronize(raw.stream) == cudaSuccess);
  REQUIRE(fake_cuda::enqueue(raw.stream, [] { return cudaErrorLaunchFailure; }) == cudaSuccess);
  CHECK(cudaStreamSynchronize(raw.stream) == cudaErrorLaunchFailure);
  CHECK(cudaMemsetAsync(raw.device, 0, 1, raw.stream) == cudaErrorLaunchFailure);
  CHECK(cudaEventQuery(raw.event) == cudaErrorLaunchFailure);
}

TEST_CASE("the fake tells by the address which memory a copy of the default kind uses") {
  Raw raw;
  char elsewhere[Raw::kBytes];
  const auto copy = [&](void* to, const void* from, size_t bytes) {
    return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, raw.stream);
  };
  void* more = nullptr;
  REQUIRE(cudaMalloc(&more, Raw::kBytes) == cudaSuccess);
  REQUIRE(cudaMemsetAsync(raw.device, 7, Raw::kBytes, raw.stream) == cudaSuccess);
  CHECK(copy(more, raw.device, Raw::kBytes) == cudaSuccess);
  CHECK(copy(raw.host, more, Raw::kBytes) == cudaSuccess);
  CHECK(fake_cuda::counts().unpinned_copies == 0);
  REQUIRE(cudaStreamSynchronize(raw.stream) == cudaSuccess);
  CHECK(static_cast<const char*>(raw.host)[Raw::kBytes - 1] == 7);
  CHECK(copy(raw.device, elsewhere, Raw::kBytes) == cudaSuccess);
  CHECK(fake_cuda::counts().unpinned_copies == 1);
  // A range that leaves the device's memory is no memory of the host.
  CHECK(copy(raw.device, more, Raw::kBytes + 1) == cudaErrorInvalidValue);
  CHECK(copy(raw.host, static_cast<char*>(more) + 1, Raw::kBytes) == cudaErrorInvalidValue);
  CHECK(copy(raw.host, elsewhere, Raw::kBytes) == cudaErrorInvalidValue);
  CHECK(cudaStreamSynchronize(raw.stream) == cudaSuccess);
  CHECK(cudaFree(more) == cudaSuccess);
}

TEST_CASE("the fake opens no handle of its own process, of no memory, or of freed memory") {
  Raw raw;
  cudaIpcMemHandle_t handle{}, again{};
  void* opened = nullptr;
  const auto open = [&](const cudaIpcMemHandle_t& of) {
    return cudaIpcOpenMemHandle(&opened, of, cudaIpcMemLazyEnablePeerAccess);
  };
  CHECK(open(handle) == cudaErrorInvalidValue);
  CHECK(cudaIpcGetMemHandle(&handle, raw.host) == cudaErrorInvalidValue);
  CHECK(cudaIpcGetMemHandle(&handle, static_cast<char*>(raw.device) + 1) == cudaErrorInvalidValue);
  REQUIRE(cudaIpcGetMemHandle(&handle, raw.device) == cudaSuccess);
  REQUIRE(cudaIpcGetMemHandle(&again, raw.device) == cudaSuccess);
  CHECK(std::memcmp(&handle, &again, sizeof handle) == 0);
  CHECK(open(handle) == cudaErrorDeviceUninitialized);
  CHECK(cudaIpcCloseMemHandle(raw.device) == cudaErrorInvalidValue);
  void* freed = nullptr;
  REQUIRE(cudaMalloc(&freed, 16) == cudaSuccess);
  REQUIRE(cudaIpcGetMemHandle(&handle, freed) == cudaSuccess);
  REQUIRE(cudaFree(freed) == cudaSuccess);
  CHECK(open(handle) == cudaErrorMapBufferObjectFailed);
  fake_cuda::fail_call("cudaIpcGetMemHandle", 1, cudaErrorNotSupported);
  CHECK(cudaIpcGetMemHandle(&handle, raw.device) == cudaErrorNotSupported);
  // The refusals have left the device as it was.
  CHECK(cudaStreamSynchronize(raw.stream) == cudaSuccess);
}

TEST_CASE("work of the fake that waits for something else holds up its own stream alone") {
  Raw raw(GENERATE(range(0, 10)));
  std::atomic<bool> ready = false;
  std::vector<int> order;
  const auto note = [&order](int number) {
    return [&order, number] {
      order.push_back(number);
      return cudaSuccess;
    };
  };
  REQUIRE(fake_cuda::enqueue_when(
              raw.stream, [&] { return ready.load(); }, note(1)) == cudaSuccess);
  REQUIRE(fake_cuda::enqueue(raw.stream, note(2)) == cudaSuccess);
  REQUIRE(fake_cuda::enqueue(raw.other, note(0)) == cudaSuccess);
  REQUIRE(cudaStreamSynchronize(raw.other) == cudaSuccess);
  ready = true;
  fake_cuda::look_again();
  REQUIRE(cudaStreamSynchronize(raw.stream) == cudaSuccess);
  CHECK(order == std::vector<int>{0, 1, 2});
}

}  // namespace leat
