// A device that works asynchronously and has a memory of its own, as a GPU does, but needs none. It
// proves that the contracts of Device, Queue and Timeline are enough, and that the host waits where
// it must: work runs on a thread of its own, later than it could, and the host cannot touch the
// device's memory.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "devices/base/align.h"
#include "devices/core/device.h"
#include "ops/catalogue.h"
#include "ops/graph/kernel.h"
#include "tests/async_wires.h"

namespace leat::testing {

struct AsyncDeviceOptions {
  int index = 0;  // "gpu:<index>"
  uint64_t memory_bytes = uint64_t{1} << 30;
  // Before each piece of work, the device gives way up to so many times, as `seed` draws it: the
  // host and the other queues get ahead of it. It does so for 2 ms at most, because on a busy
  // machine a turn can take that long.
  int most_turns_given_way = 0;
  uint64_t seed = 0;
  // The piece of work of the compute queue that fails, counted from 1; 0: none does.
  uint64_t failing_work = 0;
  bool records = true;  // whether its queues record work
  // Called with the bytes of each copy between host and device when it is made; a benchmark spends
  // the time here that a copy of them takes.
  std::function<void(size_t bytes)> on_copy = {};
};

// The memory of an AsyncDevice. It is closed to every thread, also the host, except while a piece
// of work runs. Its buffers lie side by side, so that few calls of the system open and close them,
// in a range of addresses that are used once: what is freed stays closed. Threads: any.
class AsyncMemory {
 public:
  AsyncMemory() {
    void* range = ::mmap(nullptr, kRange, PROT_NONE, kClosed, -1, 0);
    next_ = range == MAP_FAILED ? nullptr : static_cast<std::byte*>(range);
    begin_ = next_;
  }
  ~AsyncMemory() {
    if (begin_) ::munmap(begin_, kRange);
  }
  AsyncMemory(const AsyncMemory&) = delete;
  AsyncMemory& operator=(const AsyncMemory&) = delete;

  std::unique_ptr<Buffer> allocate(size_t bytes) {
    const size_t page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    // Of no bytes, too: every buffer has an address of its own.
    const size_t mapped = align_up(std::max<size_t>(bytes, 1), page);
    const std::lock_guard lock(mutex_);
    if (!begin_ || mapped > static_cast<size_t>(begin_ + kRange - next_)) return nullptr;
    std::byte* const data = std::exchange(next_, next_ + mapped);
    if (::mprotect(data, mapped, protection()) != 0) return nullptr;
    buffers_.emplace(data, mapped);
    return std::make_unique<Closed>(*this, data, bytes, mapped);
  }
  // The memory is open while more work has entered it than left it.
  void enter() { change(+1); }
  void leave() { change(-1); }

 private:
  static constexpr size_t kRange = size_t{1} << 36;
  static constexpr int kClosed = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

  struct Closed final : Buffer {
    Closed(AsyncMemory& of, std::byte* data, size_t size, size_t pages)
        : owner(of), begin(data), bytes(size), mapped(pages) {}
    ~Closed() override {
      const std::lock_guard lock(owner.mutex_);
      owner.buffers_.erase(begin);
      // Gives the pages back, and leaves the addresses closed for good.
      ::mmap(begin, mapped, PROT_NONE, kClosed | MAP_FIXED, -1, 0);
    }
    void* data() const override { return begin; }
    size_t size() const override { return bytes; }
    AsyncMemory& owner;
    std::byte* const begin;
    const size_t bytes, mapped;
  };

  int protection() const { return inside_ > 0 ? PROT_READ | PROT_WRITE : PROT_NONE; }
  void change(int by) {
    const std::lock_guard lock(mutex_);
    const int before = protection();
    inside_ += by;
    if (protection() == before) return;
    for (auto at = buffers_.begin(); at != buffers_.end();) {
      std::byte* const begin = at->first;
      std::byte* end = begin;
      for (; at != buffers_.end() && at->first == end; ++at) end += at->second;
      ::mprotect(begin, static_cast<size_t>(end - begin), protection());
    }
  }

  std::mutex mutex_;
  int inside_ = 0;
  std::byte *begin_ = nullptr, *next_ = nullptr;
  std::map<std::byte*, size_t> buffers_;  // mapped bytes, by address
};

// A queue that runs its work in order on a thread of its own, but not while hold() is on.
class AsyncQueue final : public Queue {
 public:
  AsyncQueue(AsyncMemory& memory, const AsyncDeviceOptions& options, uint64_t seed)
      : memory_(memory), options_(options), draw_(seed), thread_([this] { loop(); }) {}
  ~AsyncQueue() override { finish(); }

  void enqueue(std::function<Status()> work) override { add({std::move(work), true}); }
  // Counted and enqueued at once, so that marks of several threads are in order.
  uint64_t mark() override {
    uint64_t value = 0;
    {
      const std::lock_guard lock(mutex_);
      value = ++marks_;
      const auto reached = [this, value] {
        timeline_.signal(value);
        return Status();
      };
      items_.push_back({reached, false});
    }
    changed_.notify_all();
    return value;
  }
  Timeline& timeline() override { return timeline_; }
  bool begin_recording() override {
    if (!options_.records) return false;
    const std::lock_guard lock(mutex_);
    recorder_ = std::this_thread::get_id();
    return true;
  }
  std::unique_ptr<Recording> end_recording() override {
    const std::lock_guard lock(mutex_);
    recorder_ = {};
    return std::make_unique<Recorded>(*this, std::exchange(recorded_, {}));
  }
  // How often recorded work was enqueued.
  uint64_t recordings_enqueued() const { return recordings_enqueued_; }
  void wait_for(Timeline& timeline, uint64_t value) override {
    add({[&timeline, value] {
           return timeline.wait(value, std::chrono::steady_clock::now() + std::chrono::seconds(60));
         },
         false});
  }
  void hold(bool held) {
    {
      const std::lock_guard lock(mutex_);
      held_ = held;
    }
    changed_.notify_all();
  }
  // Does what is enqueued, and ends the thread.
  void finish() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
      held_ = false;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }

 private:
  struct Item {
    std::function<Status()> run;
    bool is_work;  // and no mark or wait
  };
  struct Recorded final : Recording {
    Recorded(AsyncQueue& of, std::vector<Item> recorded) : queue(of), items(std::move(recorded)) {}
    void enqueue() override {
      ++queue.recordings_enqueued_;
      for (const Item& item : items) queue.add(item);
    }
    AsyncQueue& queue;
    const std::vector<Item> items;
  };
  void add(Item item) {
    {
      const std::lock_guard lock(mutex_);
      if (recorder_ == std::this_thread::get_id()) return recorded_.push_back(std::move(item));
      items_.push_back(std::move(item));
    }
    changed_.notify_all();
  }
  void loop() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return (!items_.empty() && !held_) || (stop_ && items_.empty()); });
      if (items_.empty()) return;
      Item item = std::move(items_.front());
      items_.pop_front();
      lock.unlock();
      if (!timeline_.failed()) {
        if (Status status = item.is_work ? work(item) : item.run(); !status.ok())
          timeline_.fail(status);
      }
      lock.lock();
    }
  }
  Status work(const Item& item) {
    std::uniform_int_distribution<int> turns(0, options_.most_turns_given_way);
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(2);
    for (int left = turns(draw_); left > 0 && std::chrono::steady_clock::now() < end; --left)
      std::this_thread::yield();
    if (++done_ == options_.failing_work)
      return internal_error("gpu:0: the device failed, as the test wanted");
    memory_.enter();
    Status status = item.run();
    memory_.leave();
    return status;
  }

  AsyncMemory& memory_;
  const AsyncDeviceOptions options_;
  std::mt19937_64 draw_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> items_;
  bool held_ = false, stop_ = false;
  uint64_t marks_ = 0;
  uint64_t done_ = 0;
  std::thread::id recorder_;  // the thread whose work is recorded, if there is one
  std::vector<Item> recorded_;
  std::atomic<uint64_t> recordings_enqueued_{0};
  Timeline timeline_;
  std::thread thread_;  // last, because it uses the members above
};

class AsyncDevice final : public Device {
 public:
  // Its kernels are those of async_catalogue().
  static constexpr std::string_view kKind = "async";

  explicit AsyncDevice(AsyncDeviceOptions options = {})
      : options_(options),
        compute_(memory_, options, 3 * options.seed),
        in_(memory_, without_failure(options), 3 * options.seed + 1),
        out_(memory_, without_failure(options), 3 * options.seed + 2) {}
  // Queues wait for each other: all are done before the first is destroyed.
  ~AsyncDevice() override {
    for (AsyncQueue* queue : {&in_, &compute_, &out_}) queue->finish();
  }

  std::string_view kind() const override { return kKind; }
  std::string name() const override { return "gpu:" + std::to_string(options_.index); }
  std::string description() const override { return "a thread that computes later"; }
  uint64_t memory_bytes() const override { return options_.memory_bytes; }
  bool host_visible() const override { return false; }
  size_t alignment() const override { return 256; }
  Result<std::unique_ptr<Buffer>> allocate(size_t bytes) override {
    auto buffer = memory_.allocate(bytes);
    if (!buffer) return resource_exhausted("gpu: there is no memory left");
    return buffer;
  }
  Result<std::unique_ptr<Buffer>> allocate_host(size_t bytes) override {
    return std::unique_ptr<Buffer>(new HostBuffer(bytes));
  }
  AsyncQueue& queue(QueueFor use = QueueFor::compute) override {
    return use == QueueFor::compute ? compute_ : use == QueueFor::copies_in ? in_ : out_;
  }
  // The bytes are read and written when the copy's turn comes, and not before.
  void copy_to_device(void* device, const void* host, size_t bytes) override {
    in_.enqueue([=, this] { return copy(device, host, bytes, options_.on_copy); });
  }
  void copy_to_host(void* host, const void* device, size_t bytes) override {
    out_.enqueue([=, this] { return copy(host, device, bytes, options_.on_copy); });
  }
  void copy_within(void* to, const void* from, size_t bytes) override {
    compute_.enqueue([=] { return copy(to, from, bytes, {}); });
  }
  Status has_wires(WireKind) override { return {}; }
  Result<std::unique_ptr<WireReceiver>> make_wire_receiver(WireKind kind, Buffer& into) override {
    return std::unique_ptr<WireReceiver>(new AsyncWireReceiver(kind, into, access()));
  }
  Result<std::unique_ptr<WireSender>> make_wire_sender(WireKind, std::string_view offer) override {
    auto wire = AsyncWires::all().find(offer);
    if (!wire) return invalid_argument("expected the offer of a wire of this process");
    return std::unique_ptr<WireSender>(new AsyncWireSender(std::move(wire), access()));
  }

 private:
  struct HostBuffer final : Buffer {
    explicit HostBuffer(size_t size) : bytes(size) {}
    void* data() const override { return const_cast<std::byte*>(bytes.data()); }
    size_t size() const override { return bytes.size(); }
    std::vector<std::byte> bytes;
  };

  AsyncWireState::Access access() {
    return [this](bool enters) { enters ? memory_.enter() : memory_.leave(); };
  }
  static AsyncDeviceOptions without_failure(AsyncDeviceOptions options) {
    options.failing_work = 0;
    return options;
  }
  static Status copy(void* to, const void* from, size_t bytes,
                     const std::function<void(size_t)>& on_copy) {
    if (bytes > 0) std::memcpy(to, from, bytes);
    if (on_copy) on_copy(bytes);
    return {};
  }

  const AsyncDeviceOptions options_;
  AsyncMemory memory_;
  AsyncQueue compute_, in_, out_;
};

// Enqueues any CPU kernel as one piece of work.
class EnqueuedKernel final : public Kernel {
 public:
  // Calls `on_run`, if there is one, when the work is done.
  EnqueuedKernel(std::unique_ptr<Kernel> inner, std::function<void()> on_run)
      : inner_(std::move(inner)),
        on_run_(std::move(on_run)),
        scratch_(inner_->scratch_bytes() + 64) {}
  size_t workspace_bytes() const override { return inner_->workspace_bytes(); }
  bool repeats() const override { return true; }
  Progress run(KernelContext& context, int, int) override {
    const StepNumbers* numbers = context.step->for_device;
    context.queue->enqueue([this, context, numbers]() mutable {
      // The step that the queue has come to, if the work was recorded in another one.
      DeviceStep step;
      static_cast<StepNumbers&>(step) = *numbers;
      context.step = &step;
      auto* raw = scratch_.data();
      context.scratch = raw + (64 - reinterpret_cast<uintptr_t>(raw) % 64) % 64;
      for (int phase = 0; phase < inner_->phases(); ++phase) {
        for (int tile = 0; tile < inner_->tiles(phase); ++tile) {
          if (inner_->run(context, phase, tile) != Progress::done)
            return step.failure.ok() ? internal_error("gpu: a kernel failed") : step.failure;
        }
      }
      if (on_run_) on_run_();
      return Status();
    });
    return Progress::pending;
  }

 private:
  struct DeviceStep final : StepContext {
    void fail(uint32_t, Status status) override { failure = std::move(status); }
    Status failure;
  };
  std::unique_ptr<Kernel> inner_;
  const std::function<void()> on_run_;
  std::vector<std::byte> scratch_;  // of the device's one thread
};

// Adds a kernel for AsyncDevice for each op but those that read or write files and those in
// `without`. `on_run` is called when a kernel has run; a benchmark spends the time there that the
// kernel takes.
inline void add_async_kernels(Catalogue& catalogue, const std::set<std::string>& without = {},
                              const std::function<void()>& on_run = {}) {
  static const std::set<std::string> kOfFiles = {"leat.ReadBatch", "leat.ReadRows", "leat.Restore",
                                                 "leat.Save"};
  for (const OpDef* op : catalogue.all()) {
    const std::string name = op->full_name();
    if (!op->kernels.contains("cpu") || kOfFiles.contains(name) || without.contains(name)) continue;
    const KernelFactory make = op->kernels.at("cpu");
    catalogue.add_kernel(
        name, std::string(AsyncDevice::kKind),
        [make, on_run](const KernelSetup& setup) -> Result<std::unique_ptr<Kernel>> {
          LEAT_ASSIGN_OR_RETURN(auto inner, make(setup));
          return std::unique_ptr<Kernel>(
              std::make_unique<EnqueuedKernel>(std::move(inner), on_run));
        });
  }
}

// The standard ops, with these kernels.
inline Catalogue async_catalogue(const std::set<std::string>& without = {},
                                 const std::function<void()>& on_run = {}) {
  Catalogue catalogue = standard_catalogue();
  add_async_kernels(catalogue, without, on_run);
  return catalogue;
}

}  // namespace leat::testing
