// The emulator and the fake runtime: that they run right kernels, and that they find planted
// faults.
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <iterator>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "devices/base/clock.h"
#include "devices/cuda/cuda_device.h"
#include "tests/catch.h"
#include "tests/cuda/test_kernels.h"
#include "tests/cuda_emulation/emulator.h"
#include "tests/cuda_emulation/fake_runtime.h"
#include "tests/eventually.h"
#include "tests/must.h"

namespace leat {
namespace {

using cuda::CudaDevice;

constexpr auto kDeadline = std::chrono::seconds(60);
constexpr int kThreads = 64;

// A device with some floats on it.
class OnDevice {
 public:
  explicit OnDevice(uint64_t seed = 0) {
    fake_cuda::reset(seed);
    device = must(CudaDevice::open(0));
    x = must(device->allocate(kThreads * sizeof(float)));
    y = must(device->allocate(kThreads * sizeof(float)));
    host = must(device->allocate_host(kThreads * sizeof(float)));
  }
  float* in() const { return static_cast<float*>(x->data()); }
  float* out() const { return static_cast<float*>(y->data()); }
  float* pinned() const { return static_cast<float*>(host->data()); }
  void give_count() {
    std::iota(pinned(), pinned() + kThreads, 0.0f);
    device->copy_to_device(x->data(), pinned(), kThreads * sizeof(float));
    settle(QueueFor::copies_in);
  }
  std::vector<float> take(const Buffer& from) {
    device->copy_to_host(pinned(), from.data(), kThreads * sizeof(float));
    settle(QueueFor::copies_out);
    return {pinned(), pinned() + kThreads};
  }
  void settle(QueueFor use) {
    must(device->queue(use).settle(std::chrono::steady_clock::now() + kDeadline));
  }
  std::unique_ptr<CudaDevice> device;
  std::unique_ptr<Buffer> x, y, host;
};

std::vector<float> turned(bool with_barrier, bool reverse) {
  OnDevice on;
  on.give_count();
  emulator::set_reverse(reverse);
  CHECK(launch_turn(on.in(), on.out(), kThreads, with_barrier, on.device->stream()) == cudaSuccess);
  on.settle(QueueFor::compute);
  emulator::set_reverse(false);
  return on.take(*on.y);
}

// The text that a child process writes before `fault` stops it; "" if nothing does.
std::string message_of(const std::function<void()>& fault) {
  int pipe_ends[2];
  REQUIRE(::pipe(pipe_ends) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(pipe_ends[1], STDERR_FILENO);
    ::close(pipe_ends[0]);
    // The test's own handlers would report these as failures of the test.
    for (const int signal : {SIGABRT, SIGSEGV}) ::signal(signal, SIG_DFL);
    // The child has none of the other threads, so it runs the kernel itself.
    fault();
    ::_exit(0);
  }
  ::close(pipe_ends[1]);
  std::string message;
  char buffer[512];
  for (ssize_t n = 0; (n = ::read(pipe_ends[0], buffer, sizeof buffer)) > 0;)
    message.append(buffer, static_cast<size_t>(n));
  ::close(pipe_ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? "" : message;
}

// Runs a launch of a pointer, and of a number if the kernel has a second argument, in this thread.
void run_here(const void* kernel_of_launch, float* x, unsigned threads, int n = 0,
              size_t shared = 0) {
  const emulator::KernelEntry* entry = emulator::find_kernel(kernel_of_launch);
  void* arguments[] = {&x, &n};
  emulator::run(dim3(1), dim3(threads), shared, entry->call, arguments);
}

}  // namespace

TEST_CASE("barriers, shared memory and shuffles work as on a GPU") {
  std::vector<float> expected(kThreads);
  std::iota(expected.rbegin(), expected.rend(), 0.0f);
  for (const bool reverse : {false, true}) CHECK(turned(true, reverse) == expected);

  OnDevice on;
  on.give_count();
  CHECK(launch_warp_sum(on.in(), on.out(), on.device->stream()) == cudaSuccess);
  on.settle(QueueFor::compute);
  const std::vector<float> sums = on.take(*on.y);
  for (size_t i = 0; i < 32; ++i) CHECK(sums[i] == 31 * 32 / 2);
}

TEST_CASE("a missing barrier shows when the threads start in the reverse order") {
  CHECK(turned(false, false) != turned(false, true));
}

TEST_CASE("a barrier that some threads do not reach is named") {
  float x[32] = {};
  // A launch makes the kernel known; without a stream it has no other effect.
  (void)launch_half_a_barrier(x, nullptr);
  const std::string message = message_of([&] {
    const void* kernel = emulator::last_listed();
    run_here(kernel, x, 32);
  });
  CHECK_THAT(message, Catch::Contains("some threads have left the kernel without reaching"));
}

TEST_CASE("a mask that names lanes which have left is named") {
  float x[32] = {};
  (void)launch_wrong_mask(x, nullptr);
  const std::string message = message_of([&] {
    const void* kernel = emulator::last_listed();
    run_here(kernel, x, 32);
  });
  CHECK_THAT(message, Catch::Contains("a mask names a lane that has left the kernel"));
}

TEST_CASE("a kernel that writes past the end of its memory is stopped, with its file and line") {
  const auto x = std::make_unique<float[]>(kThreads);
  (void)launch_past_the_end(x.get(), kThreads, nullptr);
  const std::string message = message_of([&] {
    const void* kernel = emulator::last_listed();
    run_here(kernel, x.get(), 32, kThreads);
  });
  CHECK_THAT(message, Catch::Contains("heap-buffer-overflow"));
  CHECK_THAT(message, Catch::Contains("test_kernels.cu"));
}

TEST_CASE("a kernel that writes past its shared memory is stopped, with its file and line") {
  float x[1] = {};
  SECTION("of dynamic shared memory") {
    (void)launch_past_shared(x, kThreads, nullptr);
    const void* kernel = emulator::last_listed();
    const std::string message = message_of([&] { run_here(kernel, x, 1, kThreads, kThreads * 4); });
    CHECK_THAT(message, Catch::Contains("heap-buffer-overflow"));
    CHECK_THAT(message, Catch::Contains("test_kernels.cu"));
  }
  SECTION("of a shared array") {
    (void)launch_past_static_shared(x, 32, nullptr);
    const void* kernel = emulator::last_listed();
    const std::string message = message_of([&] { run_here(kernel, x, 1, 32); });
    CHECK_THAT(message, Catch::Contains("global-buffer-overflow"));
    CHECK_THAT(message, Catch::Contains("test_kernels.cu"));
  }
}

TEST_CASE("shared memory that no thread has written holds NaNs") {
  OnDevice on;
  on.give_count();
  CHECK(launch_unset_shared(on.in(), on.device->stream()) == cudaSuccess);
  on.settle(QueueFor::compute);
  const std::vector<float> found = on.take(*on.x);
  for (size_t i = 0; i < 32; ++i) CHECK(found[i] != found[i]);
  CHECK(found[32] == 32);
}

TEST_CASE("half warps exchange values by masks of their own") {
  for (const bool reverse : {false, true}) {
    OnDevice on;
    on.give_count();
    emulator::set_reverse(reverse);
    CHECK(launch_half_warp_moves(on.in(), on.device->stream()) == cudaSuccess);
    on.settle(QueueFor::compute);
    emulator::set_reverse(false);
    const std::vector<float> found = on.take(*on.x);
    for (size_t i = 0; i < kThreads; ++i)
      CHECK(found[i] == static_cast<float>(i % 16 == 15 ? i : i + 1));
  }
}

TEST_CASE("each thread of a grid of three dimensions runs once") {
  for (const bool reverse : {false, true}) {
    std::vector<int> x(2 * 3 * 2 * 4 * 2 * 3, -1);
    (void)launch_places(x.data(), dim3(2, 3, 2), dim3(4, 2, 3), nullptr);
    const emulator::KernelEntry* entry = emulator::find_kernel(emulator::last_listed());
    int* at = x.data();
    void* arguments[] = {&at};
    emulator::set_reverse(reverse);
    emulator::run(dim3(2, 3, 2), dim3(4, 2, 3), 0, entry->call, arguments);
    emulator::set_reverse(false);
    for (size_t i = 0; i < x.size(); ++i) CHECK(x[i] == static_cast<int>(i));
  }
}

TEST_CASE("a sum by atomics shows when the threads start in the reverse order") {
  std::vector<float> x(kThreads);
  for (size_t i = 0; i < x.size(); ++i) x[i] = 1.0f / static_cast<float>(i + 1);
  const auto sum_of = [&](bool reverse) {
    float sum = 0;
    const float* from = x.data();
    float* to = &sum;
    (void)launch_sum_by_atomics(from, to, kThreads, nullptr);
    void* arguments[] = {&from, &to};
    emulator::set_reverse(reverse);
    emulator::run(dim3(kThreads / 32), dim3(32), 0,
                  emulator::find_kernel(emulator::last_listed())->call, arguments);
    emulator::set_reverse(false);
    return sum;
  };
  CHECK(sum_of(false) != sum_of(true));
  CHECK(sum_of(false) == sum_of(false));
}

// The suite's cases run in two orders, and a sum may have equal bits in both by chance.
TEST_CASE("no kernel adds with atomics, or by the functions that are fast and inexact") {
  size_t files = 0;
  for (const auto& file : std::filesystem::directory_iterator(LEAT_SOURCE_DIR "/ops/cuda")) {
    std::ifstream in(file.path());
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    ++files;
    for (const char* word : {"atomicAdd", "atomicCAS", "__expf", "__logf", "__sinf", "__cosf",
                             "__powf", "__fdividef"}) {
      INFO(file.path().string() << ": " << word);
      CHECK(text.find(word) == std::string::npos);
    }
  }
  CHECK(files > 40);
}

TEST_CASE("the host that touches the device's memory is stopped") {
  OnDevice on;
  CHECK_FALSE(message_of([&] {
                on.in()[0] = 1;
                ::write(STDERR_FILENO, "touched", 7);
                ::_exit(1);
              }).find("touched") != std::string::npos);
}

TEST_CASE("a copy that does not wait for the kernel before it shows for some seed") {
  const auto copied = [](uint64_t seed, bool waits) {
    OnDevice on(seed);
    on.give_count();
    // The GPU starts when all is enqueued; else a slow host would leave it no choice.
    std::promise<void> all_enqueued;
    (void)fake_cuda::enqueue(on.device->stream(), [&] {
      all_enqueued.get_future().wait_for(kDeadline);
      return cudaSuccess;
    });
    for (int i = 0; i < 4; ++i) (void)launch_increment(on.in(), kThreads, on.device->stream());
    Queue& compute = on.device->queue(QueueFor::compute);
    if (waits) on.device->queue(QueueFor::copies_out).wait_for(compute.timeline(), compute.mark());
    on.device->copy_to_host(on.pinned(), on.in(), kThreads * sizeof(float));
    all_enqueued.set_value();
    on.settle(QueueFor::copies_out);
    const float first = on.pinned()[0];
    on.settle(QueueFor::compute);
    return first;
  };
  int wrong = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    CHECK(copied(seed, true) == 4);
    wrong += copied(seed, false) != 4;
  }
  CHECK(wrong > 0);
}

TEST_CASE("work that was recorded is done as often as it is enqueued") {
  OnDevice on;
  on.give_count();
  Queue& compute = on.device->queue();
  REQUIRE(compute.begin_recording());
  compute.begin_piece({});
  for (int i = 0; i < 2; ++i) (void)launch_increment(on.in(), kThreads, on.device->stream());
  const std::unique_ptr<Recording> recording = compute.end_recording();
  REQUIRE(recording);
  CHECK(on.take(*on.x)[5] == 5);
  for (int i = 0; i < 3; ++i) recording->enqueue();
  on.settle(QueueFor::compute);
  CHECK(on.take(*on.x)[5] == 11);
  CHECK(fake_cuda::counts().graph_launches == 3);
}

TEST_CASE("a stopwatch measures the work between its start and its stop") {
  static ManualClock clock;  // the GPU keeps it
  OnDevice on;
  fake_cuda::set_clock(clock);
  Queue& compute = on.device->queue();
  const auto work = [&] {
    compute.enqueue([] {
      clock.advance(std::chrono::milliseconds(5));
      return Status();
    });
  };
  const std::unique_ptr<Stopwatch> watch = compute.make_stopwatch();
  REQUIRE(watch);
  for (int round = 0; round < 3; ++round) {
    work();  // before the start
    watch->start();
    work();
    watch->stop();
    on.settle(QueueFor::compute);
  }
  const Stopwatch::Sum sum = watch->sum();
  CHECK(sum.rounds == 3);
  CHECK(sum.seconds == Approx(0.015));
}

TEST_CASE("pieces of a recording that do not name each other are done in any order") {
  const auto final_element = [](uint64_t seed, bool named) {
    OnDevice on(seed);
    on.give_count();
    Queue& compute = on.device->queue();
    REQUIRE(compute.begin_recording());
    compute.begin_piece({});
    (void)launch_increment(on.in(), kThreads, on.device->stream());
    const std::vector<uint32_t> after(named ? 1 : 0, 0);
    compute.begin_piece(after);
    on.device->copy_within(on.out(), on.in(), kThreads * sizeof(float));
    const std::unique_ptr<Recording> recording = compute.end_recording();
    REQUIRE(recording);
    recording->enqueue();
    on.settle(QueueFor::compute);
    return on.take(*on.y)[5];
  };
  int wrong = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    CHECK(final_element(seed, true) == 6);
    wrong += final_element(seed, false) != 6;
  }
  CHECK(wrong > 0);
}

TEST_CASE("if a piece cannot be recorded, nothing of the recording is done") {
  for (uint64_t nth = 1; nth <= 3; ++nth) {
    INFO("piece " << nth);
    OnDevice on;
    on.give_count();
    Queue& compute = on.device->queue();
    fake_cuda::refuse_capture(nth);
    REQUIRE(compute.begin_recording());
    for (uint32_t piece = 0; piece < 3; ++piece) {
      const std::vector<uint32_t> after(piece > 0 ? 1 : 0, piece - 1);
      compute.begin_piece(after);
      (void)launch_increment(on.in(), kThreads, on.device->stream());
    }
    CHECK(compute.end_recording() == nullptr);
    on.settle(QueueFor::compute);
    CHECK(on.take(*on.x)[5] == 5);
  }
}

TEST_CASE("memory that is allocated within a recording spoils it") {
  OnDevice on;
  on.give_count();
  Queue& compute = on.device->queue();
  REQUIRE(compute.begin_recording());
  compute.begin_piece({});
  (void)launch_increment(on.in(), kThreads, on.device->stream());
  CHECK_FALSE(on.device->allocate(64).ok());
  CHECK(compute.end_recording() == nullptr);
  // Nothing of it was done, and the queue goes on.
  CHECK(on.take(*on.x)[5] == 5);
  (void)launch_increment(on.in(), kThreads, on.device->stream());
  on.settle(QueueFor::compute);
  CHECK(on.take(*on.x)[5] == 6);
}

TEST_CASE("a launch that fails stops all queues with its error") {
  OnDevice on;
  fake_cuda::fail_launch(2, cudaErrorLaunchFailure);
  for (int i = 0; i < 3; ++i) (void)launch_increment(on.in(), kThreads, on.device->stream());
  Queue& compute = on.device->queue();
  const Status failed = compute.settle(std::chrono::steady_clock::now() + kDeadline);
  CHECK(failed.code() == Code::internal);
  // The first call behind it tells.
  CHECK_THAT(failed.message(), Catch::Contains("gpu:0: computing: cudaEvent") &&
                                   Catch::Contains(": cudaErrorLaunchFailure: "));
  // One thread stops the queues one after the other, and the wait above may end before the last.
  CHECK(eventually([&] { return on.device->queue(QueueFor::copies_in).timeline().failed(); }));
}

TEST_CASE("a device without room says what was asked") {
  OnDevice on;
  fake_cuda::limit_memory(1 << 20);
  const auto refused = on.device->allocate(2 << 20);
  CHECK(refused.status().code() == Code::resource_exhausted);
  CHECK_THAT(refused.status().message(), Catch::Contains("gpu:0: to allocate 2097152 bytes"));
}

TEST_CASE("a machine without a GPU says so") {
  fake_cuda::reset();
  fake_cuda::hide_device();
  const auto refused = CudaDevice::open(0);
  CHECK(refused.status().code() == Code::unavailable);
  CHECK_THAT(refused.status().message(), Catch::Contains("expected a GPU that CUDA can use"));
  fake_cuda::reset();
}

TEST_CASE("a driver that is too old is named with the version that CUDA expects") {
  fake_cuda::reset();
  fake_cuda::set_driver(12040);
  const auto refused = CudaDevice::open(0);
  fake_cuda::reset();
  CHECK(refused.status().code() == Code::unavailable);
  CHECK_THAT(refused.status().message(),
             Catch::Contains("gpu:0: expected a driver for CUDA 13.") &&
                 Catch::Contains("or newer, received one for CUDA 12.4"));
}

TEST_CASE("a GPU that the plugin has no code for is refused when it is opened") {
  fake_cuda::reset();
  fake_cuda::set_capability(86);
  const auto refused = CudaDevice::open(0);
  fake_cuda::reset();
  CHECK(refused.status().code() == Code::unavailable);
  CHECK_THAT(
      refused.status().message(),
      Catch::Contains("expected a compute capability that the plugin has code for (90-real)") &&
          Catch::Contains("received 8.6 of Emulated GPU"));
}

TEST_CASE("work of the host has its place in a queue") {
  OnDevice on;
  on.give_count();
  (void)launch_increment(on.in(), kThreads, on.device->stream());
  bool called = false;
  on.device->queue().enqueue([&] {
    called = true;
    return Status();
  });
  on.settle(QueueFor::compute);
  CHECK(called);
  on.device->queue().enqueue([] { return invalid_argument("no such thing"); });
  CHECK(on.device->queue().settle(std::chrono::steady_clock::now() + kDeadline).code() ==
        Code::invalid_argument);
}

}  // namespace leat
