// Tests a device that works asynchronously, as a GPU does. It proves that the contracts of Device,
// Queue and Timeline are enough, and that the runtime waits exactly where it must.
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "ops/catalogue.h"
#include "tests/scheduler/scheduler_testing.h"

namespace leat {
namespace {

class PlainBuffer final : public Buffer {
 public:
  explicit PlainBuffer(size_t size) : bytes_(size + 64) {}
  void* data() const override {
    auto* raw = const_cast<std::byte*>(bytes_.data());
    return raw + (64 - reinterpret_cast<uintptr_t>(raw) % 64) % 64;
  }
  size_t size() const override { return bytes_.size() - 64; }

 private:
  std::vector<std::byte> bytes_;
};

// A queue that runs its work in order on a thread of its own, but not while hold() is on.
class ThreadQueue final : public Queue {
 public:
  ThreadQueue() : thread_([this] { loop(); }) {}
  ~ThreadQueue() override {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
      held_ = false;
    }
    changed_.notify_all();
    thread_.join();
  }
  void enqueue(std::function<Status()> work) override {
    {
      std::lock_guard lock(mutex_);
      work_.push_back(std::move(work));
    }
    changed_.notify_all();
  }
  uint64_t mark() override {
    const uint64_t value = ++marks_;
    enqueue([this, value] {
      timeline_.signal(value);
      return Status();
    });
    return value;
  }
  Timeline& timeline() override { return timeline_; }
  void wait_for(Timeline& timeline, uint64_t value) override {
    enqueue([&timeline, value] { return timeline.wait(value, soon()); });
  }
  void hold(bool held) {
    {
      std::lock_guard lock(mutex_);
      held_ = held;
    }
    changed_.notify_all();
  }

 private:
  void loop() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return (!work_.empty() && !held_) || (stop_ && work_.empty()); });
      if (work_.empty()) return;
      auto work = std::move(work_.front());
      work_.pop_front();
      lock.unlock();
      if (!timeline_.failed()) {
        if (Status status = work(); !status.ok()) timeline_.fail(status);
      }
      lock.lock();
    }
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<Status()>> work_;
  bool held_ = false, stop_ = false;
  uint64_t marks_ = 0;
  Timeline timeline_;
  std::thread thread_;
};

class AsyncDevice final : public Device {
 public:
  std::string_view kind() const override { return "async"; }
  std::string name() const override { return "async:0"; }
  std::string description() const override { return "a thread that computes later"; }
  uint64_t memory_bytes() const override { return uint64_t{1} << 30; }
  bool host_visible() const override { return false; }
  size_t alignment() const override { return 64; }
  Result<std::unique_ptr<Buffer>> allocate(size_t bytes) override {
    return std::unique_ptr<Buffer>(new PlainBuffer(bytes));
  }
  ThreadQueue& queue() override { return queue_; }
  void copy_to_device(void* device, const void* host, size_t bytes) override {
    std::vector<std::byte> staged(static_cast<const std::byte*>(host),
                                  static_cast<const std::byte*>(host) + bytes);
    queue_.enqueue([device, staged] {
      std::memcpy(device, staged.data(), staged.size());
      return Status();
    });
  }
  void copy_to_host(void* host, const void* device, size_t bytes) override {
    // The runtime has waited for the work that produces these bytes.
    std::memcpy(host, device, bytes);
  }

 private:
  ThreadQueue queue_;
};

// Enqueues any CPU kernel as one piece of work.
class Enqueued final : public Kernel {
 public:
  explicit Enqueued(std::unique_ptr<Kernel> inner) : inner_(std::move(inner)) {}
  size_t workspace_bytes() const override { return inner_->workspace_bytes(); }
  size_t scratch_bytes() const override { return inner_->scratch_bytes(); }
  Progress run(KernelContext& context, int, int) override {
    context.queue->enqueue([this, context]() mutable {
      for (int phase = 0; phase < inner_->phases(); ++phase) {
        for (int tile = 0; tile < inner_->tiles(phase); ++tile) inner_->run(context, phase, tile);
      }
      return Status();
    });
    return Progress::pending;
  }

 private:
  std::unique_ptr<Kernel> inner_;
};

// The standard ops, with a kernel for "async" for each one for "cpu".
Catalogue async_catalogue() {
  Catalogue catalogue = standard_catalogue();
  for (const OpDef* op : catalogue.all()) {
    const auto cpu = op->kernels.find("cpu");
    if (cpu == op->kernels.end()) continue;
    const KernelFactory make = cpu->second;
    catalogue.add_kernel(
        op->full_name(), "async",
        [make](const KernelSetup& setup) -> Result<std::unique_ptr<Kernel>> {
          LEAT_ASSIGN_OR_RETURN(auto inner, make(setup));
          return std::unique_ptr<Kernel>(std::make_unique<Enqueued>(std::move(inner)));
        });
  }
  return catalogue;
}

}  // namespace

TEST_CASE("an asynchronous device gives the CPU's results, and the host waits only to look") {
  const Catalogue catalogue = async_catalogue();
  Graph graph(catalogue);
  GraphBuilder g(graph);
  const ValueId x = g.input("x", DType::f32, Shape{64});
  const ValueId w =
      g.op("leat.Variable", {}, {{"name", std::string("w")}, {"shape", std::vector<int64_t>{64}}});
  const ValueId y = g.op("Tanh", {g.op("Add", {g.op("Mul", {x, x}), g.op("leat.Read", {w})})});
  const NodeId add = g.effect("leat.AssignAdd", {w, y});
  must(g.status());
  CompileRequest request;
  request.borders = {{x}, {y}, {add}};
  request.devices = device_names(1);
  const Plan plan = must(compile(graph, request));

  AsyncDevice device;
  cpu::CpuDevice host(0, 1);
  JobResources resources(device), host_resources(host);
  auto program = must(Program::create(plan, 0, device, resources, {}));
  auto expected_program = must(Program::create(plan, 0, host, host_resources, {}));
  cpu::Pool pool(1);
  Run run(*program, pool, {}), expected(*expected_program, host.pool(), {});
  Awaited awaited;
  for (uint64_t step = 0; step < 5; ++step) {
    Tensor input(DType::f32, Shape{64});
    for (int i = 0; i < 64; ++i) input.set(i, i * 0.01 + static_cast<double>(step));
    must(run.set_feed(0, input));
    must(expected.set_feed(0, input));
    expected.extend(step + 1);
    REQUIRE(expected.advance(awaited));
    // While the device is held, the cursor has issued its work and waits only for the queue.
    device.queue().hold(true);
    run.extend(step + 1);
    CHECK(!run.advance(awaited));
    CHECK(awaited.timeline == &device.queue().timeline());
    CHECK(run.turns() == step);
    device.queue().hold(false);
    must(awaited.timeline->wait(awaited.value, soon()));
    while (!run.advance(awaited)) must(awaited.timeline->wait(awaited.value, soon()));
    CHECK(run.turns() == step + 1);
    CHECK(run.fetched(0, step).identical(expected.fetched(0, step)));
  }
}

}  // namespace leat
