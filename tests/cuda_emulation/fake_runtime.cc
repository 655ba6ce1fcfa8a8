#include "tests/cuda_emulation/fake_runtime.h"

#include <algorithm>
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
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "tests/cuda_emulation/device_memory.h"
#include "tests/cuda_emulation/emulator.h"

namespace {

constexpr size_t kDefaultMemory = size_t{1} << 30;
constexpr int kCapability = 90;
// The error of every call once the device is lost.
constexpr cudaError_t kLost = cudaErrorDevicesUnavailable;

// The moment when the work before a record of an event is done. Each record has one of its own.
struct Moment {
  bool reached = false;
  std::chrono::steady_clock::time_point at;
};
using Done = std::shared_ptr<Moment>;

struct Operation {
  std::function<cudaError_t()> run;  // or none
  Done after;                        // what must be done before it, or null
  Done sets;                         // what is done with it, or null
  bool touches_memory = true;        // of the device
  std::function<bool()> ready = {};  // or none: asked when the operation is the next of its stream
};

}  // namespace

struct CUgraphNode_st {
  std::function<cudaError_t()> run;
  std::vector<CUgraphNode_st*> after;
};
struct CUgraph_st {
  std::vector<std::unique_ptr<CUgraphNode_st>> nodes;  // each behind those that it follows
};
struct CUgraphExec_st {
  struct Node {
    std::function<cudaError_t()> run;
    std::vector<size_t> after;
  };
  std::vector<Node> nodes;
};
struct CUstream_st {
  std::deque<Operation> operations;
  bool busy = false;
  // While work is captured: the graph, the nodes that the next one follows, the thread that began,
  // and whether it did what is forbidden.
  CUgraph_st* captured = nullptr;
  std::unique_ptr<CUgraph_st> own;  // the same, if the stream made it
  std::vector<CUgraphNode_st*> ends;
  std::thread::id captures;
  bool invalid = false;
};
struct CUevent_st {
  Done done;  // of the last record
};

namespace {

class Gpu {
 public:
  Gpu() : thread_([this] { loop(); }) {}
  ~Gpu() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  void reset(uint64_t seed) {
    const std::lock_guard lock(mutex_);
    random_.seed(seed);
    sticky_ = cudaSuccess;
    limit_ = kDefaultMemory;
    hidden_ = false;
    driver_ = CUDART_VERSION;
    capability_ = kCapability;
    lost_after_ = 0;
    clock_ = &real_clock_;
    failing_launch_ = 0;
    refused_capture_ = 0;
    failing_call_.clear();
    lost_ = false;
    shares_memory_ = true;
    counts_ = {};
    counts_.bytes_in_use = memory_.bytes_in_use();
  }
  void limit_memory(size_t bytes) {
    const std::lock_guard lock(mutex_);
    limit_ = bytes;
  }
  void hide() {
    const std::lock_guard lock(mutex_);
    hidden_ = true;
  }
  void set_driver(int version) {
    const std::lock_guard lock(mutex_);
    driver_ = version;
  }
  int driver() {
    const std::lock_guard lock(mutex_);
    return driver_;
  }
  void set_capability(int capability) {
    const std::lock_guard lock(mutex_);
    capability_ = capability;
  }
  int capability() {
    const std::lock_guard lock(mutex_);
    return capability_;
  }
  cudaError_t look_for_devices() {
    const std::lock_guard lock(mutex_);
    if (driver_ < CUDART_VERSION / 1000 * 1000) return cudaErrorInsufficientDriver;
    return hidden_ ? cudaErrorNoDevice : cudaSuccess;
  }
  // Asks the operations that were not ready once more.
  void look_again() {
    // The thread has asked, and sleeps, or it asks later.
    { const std::lock_guard lock(mutex_); }
    changed_.notify_all();
  }
  void fail_launch(uint64_t nth, cudaError_t error) {
    const std::lock_guard lock(mutex_);
    failing_launch_ = nth;
    launch_error_ = error;
  }
  void fail_call(const char* function, uint64_t nth, cudaError_t error) {
    const std::lock_guard lock(mutex_);
    failing_call_ = function;
    loses_ = false;
    calls_left_ = nth;
    call_error_ = error;
  }
  void lose(uint64_t nth) {
    const std::lock_guard lock(mutex_);
    lost_after_ = nth;
  }
  void lose_at(const char* function, uint64_t nth) {
    fail_call(function, nth, kLost);
    const std::lock_guard lock(mutex_);
    loses_ = true;
  }
  // At the beginning of each call that may fail: the error that a test wants, or success.
  cudaError_t begin_call(std::string_view function) {
    const std::lock_guard lock(mutex_);
    if (lost_) return kLost;
    if (function != failing_call_ || --calls_left_ > 0) return cudaSuccess;
    failing_call_.clear();
    lost_ = loses_;
    if (lost_ && sticky_ == cudaSuccess) sticky_ = kLost;
    return call_error_;
  }
  void set_clock(const leat::Clock& clock) {
    const std::lock_guard lock(mutex_);
    clock_ = &clock;
  }
  void refuse_capture(uint64_t nth) {
    const std::lock_guard lock(mutex_);
    refused_capture_ = nth;
  }
  fake_cuda::Counts counts() {
    const std::lock_guard lock(mutex_);
    return counts_;
  }
  cudaError_t sticky() {
    const std::lock_guard lock(mutex_);
    return sticky_;
  }

  cudaError_t memory_info(size_t* free, size_t* total) {
    const std::lock_guard lock(mutex_);
    *total = limit_;
    *free = limit_ > counts_.bytes_in_use ? limit_ - counts_.bytes_in_use : 0;
    return sticky_;
  }

  cudaError_t allocate(void** data, size_t bytes) {
    const std::lock_guard lock(mutex_);
    if (sticky_ != cudaSuccess) return sticky_;
    if (spoils_capture()) return cudaErrorStreamCaptureUnsupported;
    if (counts_.bytes_in_use + bytes > limit_) return cudaErrorMemoryAllocation;
    void* made = memory_.allocate(bytes);
    if (!made) return cudaErrorMemoryAllocation;
    counts_.bytes_in_use += bytes;
    ++counts_.allocations;
    *data = made;
    return cudaSuccess;
  }

  // Work that uses the memory may be enqueued: CUDA waits for it, too.
  cudaError_t free(void* data) {
    if (!data) return cudaSuccess;
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [this] { return is_idle(); });
    const size_t bytes = memory_.free(data);
    if (bytes == 0) return cudaErrorInvalidValue;
    counts_.bytes_in_use -= bytes;
    return lost_ ? kLost : cudaSuccess;
  }

  cudaError_t attribute(int* value, cudaDeviceAttr attribute) {
    const std::lock_guard lock(mutex_);
    if (attribute != cudaDevAttrIpcEventSupport && attribute != cudaDevAttrUnifiedAddressing)
      return cudaErrorInvalidValue;  // Leat asks for no other
    *value = shares_memory_ ? 1 : 0;
    return sticky_;
  }
  void share_memory(bool shares) {
    const std::lock_guard lock(mutex_);
    shares_memory_ = shares;
  }
  cudaError_t share(const void* data, cudaIpcMemHandle_t* handle) {
    const std::lock_guard lock(mutex_);
    if (sticky_ != cudaSuccess) return sticky_;
    return shares_memory_ ? memory_.share(data, handle) : cudaErrorNotSupported;
  }
  // Another process may be asking this one meanwhile, so it is asked without the lock.
  cudaError_t open_shared(void** data, const cudaIpcMemHandle_t& handle) {
    if (const cudaError_t error = sticky()) return error;
    cudaError_t error = cudaSuccess;
    const int descriptor = memory_.fetch(handle, &error);
    if (error != cudaSuccess) return error;
    const std::lock_guard lock(mutex_);
    return memory_.open(data, handle, descriptor);
  }
  // CUDA promises no wait for work that uses the memory.
  cudaError_t close_shared(void* data) {
    const std::lock_guard lock(mutex_);
    const cudaError_t error = memory_.close(data);
    return error == cudaSuccess ? sticky_ : error;
  }

  cudaError_t allocate_pinned(void** data, size_t bytes) {
    *data = ::operator new (bytes, std::align_val_t{64});
    const std::lock_guard lock(mutex_);
    pinned_[static_cast<std::byte*>(*data)] = bytes;
    return sticky_;
  }
  cudaError_t free_pinned(void* data) {
    if (!data) return cudaSuccess;
    {
      const std::lock_guard lock(mutex_);
      if (pinned_.erase(static_cast<std::byte*>(data)) == 0) return cudaErrorInvalidValue;
    }
    ::operator delete (data, std::align_val_t{64});
    return cudaSuccess;
  }

  void add_stream(cudaStream_t stream) {
    const std::lock_guard lock(mutex_);
    streams_.insert(stream);
  }
  void remove_stream(cudaStream_t stream) {
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [&] { return stream->operations.empty() && !stream->busy; });
    streams_.erase(stream);
  }

  cudaError_t enqueue(cudaStream_t stream, Operation operation) {
    {
      const std::lock_guard lock(mutex_);
      if (sticky_ != cudaSuccess) return sticky_;
      if (streams_.count(stream) == 0) return cudaErrorInvalidResourceHandle;
      if (stream->captured) {
        // Events would join other streams to the graph: Leat records one stream alone.
        stream->invalid = stream->invalid || operation.after || operation.sets;
        if (stream->invalid) return cudaErrorStreamCaptureInvalidated;
        auto node = std::make_unique<CUgraphNode_st>();
        node->run = std::move(operation.run);
        node->after = std::exchange(stream->ends, {node.get()});
        stream->captured->nodes.push_back(std::move(node));
        return cudaSuccess;
      }
      stream->operations.push_back(std::move(operation));
    }
    changed_.notify_all();
    return cudaSuccess;
  }

  cudaError_t copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                   cudaStream_t stream) {
    {
      const std::lock_guard lock(mutex_);
      const bool to_device = memory_.contains(to, bytes);
      const bool from_device = memory_.contains(from, bytes);
      // A range that leaves the device's memory is of neither kind. CUDA copies within the host,
      // too; Leat does not.
      if ((!to_device && memory_.touches(to, bytes)) ||
          (!from_device && memory_.touches(from, bytes)) || (!to_device && !from_device))
        return cudaErrorInvalidValue;
      if (kind != cudaMemcpyDefault && (to_device != (kind != cudaMemcpyDeviceToHost) ||
                                        from_device != (kind != cudaMemcpyHostToDevice)))
        return cudaErrorInvalidValue;
      if ((!to_device && !is_pinned(to, bytes)) || (!from_device && !is_pinned(from, bytes)))
        ++counts_.unpinned_copies;
    }
    return enqueue(stream, {[=] {
                              std::memcpy(to, from, bytes);
                              return cudaSuccess;
                            },
                            nullptr, nullptr});
  }
  cudaError_t fill(void* to, int value, size_t bytes, cudaStream_t stream) {
    {
      const std::lock_guard lock(mutex_);
      if (!memory_.contains(to, bytes)) return cudaErrorInvalidValue;
    }
    return enqueue(stream, {[=] {
                              std::memset(to, value, bytes);
                              return cudaSuccess;
                            },
                            nullptr, nullptr});
  }

  cudaError_t launch(const cudaLaunchConfig_t& config, const void* function, void** arguments) {
    const emulator::KernelEntry* kernel = emulator::find_kernel(function);
    if (!kernel) return cudaErrorInvalidDeviceFunction;
    const dim3 grid = config.gridDim, block = config.blockDim;
    const size_t threads = size_t{block.x} * block.y * block.z;
    if (threads == 0 || threads > 1024 || block.z > 64 || grid.x == 0 || grid.x > 0x7fffffff ||
        grid.y == 0 || grid.y > 65535 || grid.z == 0 || grid.z > 65535 ||
        config.dynamicSmemBytes > 48 << 10) {
      return cudaErrorInvalidConfiguration;
    }
    // The arguments are copied now, as CUDA does; each begins at a multiple of 16 bytes.
    struct Block16 {
      alignas(16) std::byte bytes[16];
    };
    std::vector<size_t> begins;
    size_t blocks = 0;
    for (size_t i = 0; i < kernel->arguments; ++i) {
      begins.push_back(blocks);
      blocks += (kernel->argument_bytes[i] + 15) / 16;
    }
    auto copies = std::make_shared<std::vector<Block16>>(blocks);
    for (size_t i = 0; i < kernel->arguments; ++i)
      std::memcpy(copies->data() + begins[i], arguments[i], kernel->argument_bytes[i]);
    const size_t shared = config.dynamicSmemBytes;
    return enqueue(config.stream, {[=, this] {
                                     if (const cudaError_t error = count_launch()) return error;
                                     std::vector<void*> addresses;
                                     for (size_t begin : begins)
                                       addresses.push_back(copies->data() + begin);
                                     emulator::run(grid, block, shared, kernel->call,
                                                   addresses.data());
                                     return cudaSuccess;
                                   },
                                   nullptr, nullptr});
  }

  cudaError_t record(cudaEvent_t event, cudaStream_t stream) {
    auto done = std::make_shared<Moment>();
    {
      const std::lock_guard lock(mutex_);
      event->done = done;
    }
    return enqueue(stream, {nullptr, nullptr, done, false});
  }
  cudaError_t wait(cudaStream_t stream, cudaEvent_t event) {
    Done done;
    {
      const std::lock_guard lock(mutex_);
      done = event->done;
    }
    return done ? enqueue(stream, {nullptr, done, nullptr, false}) : cudaSuccess;
  }
  cudaError_t query(cudaEvent_t event) {
    const std::lock_guard lock(mutex_);
    if (sticky_ != cudaSuccess) return sticky_;
    return !event->done || event->done->reached ? cudaSuccess : cudaErrorNotReady;
  }
  cudaError_t elapsed(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
    const std::lock_guard lock(mutex_);
    if (sticky_ != cudaSuccess) return sticky_;
    if (!begin->done || !end->done) return cudaErrorInvalidValue;
    if (!begin->done->reached || !end->done->reached) return cudaErrorNotReady;
    *milliseconds =
        std::chrono::duration<float, std::milli>(end->done->at - begin->done->at).count();
    return cudaSuccess;
  }
  cudaError_t begin_capture(cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t* after,
                            size_t count, cudaStreamCaptureMode mode) {
    const std::lock_guard lock(mutex_);
    if (mode != cudaStreamCaptureModeThreadLocal) return cudaErrorInvalidValue;  // as Leat does
    if (sticky_ != cudaSuccess) return sticky_;
    if (stream->captured) return cudaErrorIllegalState;
    if (refused_capture_ > 0 && --refused_capture_ == 0) return cudaErrorStreamCaptureUnsupported;
    stream->captured = graph;
    stream->ends.assign(after, after + count);
    stream->captures = std::this_thread::get_id();
    stream->invalid = false;
    return cudaSuccess;
  }
  cudaError_t capture_info(cudaStream_t stream, cudaStreamCaptureStatus* status,
                           const cudaGraphNode_t** nodes, size_t* count) {
    const std::lock_guard lock(mutex_);
    *status = !stream->captured ? cudaStreamCaptureStatusNone
              : stream->invalid ? cudaStreamCaptureStatusInvalidated
                                : cudaStreamCaptureStatusActive;
    *nodes = stream->ends.data();
    *count = stream->ends.size();
    return sticky_;
  }
  cudaError_t end_capture(cudaStream_t stream, cudaGraph_t* graph) {
    const std::lock_guard lock(mutex_);
    *graph = nullptr;
    if (!stream->captured) return cudaErrorIllegalState;
    if (stream->captures != std::this_thread::get_id()) return cudaErrorStreamCaptureWrongThread;
    std::unique_ptr<CUgraph_st> own = std::move(stream->own);
    CUgraph_st* captured = std::exchange(stream->captured, nullptr);
    if (stream->invalid) return cudaErrorStreamCaptureInvalidated;
    *graph = captured;
    (void)own.release();
    return sticky_;
  }
  cudaError_t launch(cudaGraphExec_t graph, cudaStream_t stream) {
    std::vector<size_t> order;
    {
      const std::lock_guard lock(mutex_);
      ++counts_.graph_launches;
      order = some_order(*graph);
    }
    for (const size_t node : order) {
      if (const cudaError_t error = enqueue(stream, {graph->nodes[node].run, nullptr, nullptr}))
        return error;
    }
    return cudaSuccess;
  }

  cudaError_t synchronize(cudaStream_t stream) {
    std::unique_lock lock(mutex_);
    if (spoils_capture()) return cudaErrorStreamCaptureUnsupported;
    idle_.wait(lock, [&] { return stream->operations.empty() && !stream->busy; });
    return sticky_;
  }

 private:
  // The nodes in an order that the seed chooses among all that are allowed.
  std::vector<size_t> some_order(const CUgraphExec_st& graph) {
    std::vector<size_t> order, able;
    std::vector<bool> done(graph.nodes.size(), false);
    while (order.size() < graph.nodes.size()) {
      able.clear();
      for (size_t i = 0; i < graph.nodes.size(); ++i) {
        const auto& after = graph.nodes[i].after;
        if (!done[i] && std::all_of(after.begin(), after.end(), [&](size_t a) { return done[a]; }))
          able.push_back(i);
      }
      order.push_back(able[random_() % able.size()]);
      done[order.back()] = true;
    }
    return order;
  }
  // True if this thread captures work, and does what it must not meanwhile.
  bool spoils_capture() {
    bool spoils = false;
    for (CUstream_st* stream : streams_) {
      if (!stream->captured || stream->captures != std::this_thread::get_id()) continue;
      stream->invalid = spoils = true;
    }
    return spoils;
  }
  bool is_idle() const {
    return std::all_of(streams_.begin(), streams_.end(), [](const CUstream_st* stream) {
      return stream->operations.empty() && !stream->busy;
    });
  }
  bool is_pinned(const void* data, size_t bytes) const {
    const auto* begin = static_cast<const std::byte*>(data);
    auto at = pinned_.upper_bound(const_cast<std::byte*>(begin));
    if (at == pinned_.begin()) return false;
    --at;
    return begin + bytes <= at->first + at->second;
  }
  cudaError_t count_launch() {
    const std::lock_guard lock(mutex_);
    ++counts_.launches;
    lost_ = lost_ || (lost_after_ > 0 && --lost_after_ == 0);
    if (lost_) return kLost;
    return failing_launch_ > 0 && --failing_launch_ == 0 ? launch_error_ : cudaSuccess;
  }
  // The next operation of the stream may be done.
  bool may_go_on(const CUstream_st* stream) const {
    if (stream->operations.empty()) return false;
    const Operation& next = stream->operations.front();
    // After an error nothing runs any more, but nothing waits for it either.
    if (sticky_ != cudaSuccess) return true;
    return (!next.after || next.after->reached) && (!next.ready || next.ready());
  }

  void loop() {
    std::unique_lock lock(mutex_);
    std::vector<CUstream_st*> able;
    while (true) {
      able.clear();
      for (CUstream_st* stream : streams_) {
        if (may_go_on(stream)) able.push_back(stream);
      }
      if (able.empty()) {
        // The memory is closed to the mistakes of others while the GPU has nothing to do.
        memory_.set_open(false);
        idle_.notify_all();
        if (stop_) return;
        changed_.wait(lock);
        continue;
      }
      CUstream_st* stream = able[random_() % able.size()];
      Operation operation = std::move(stream->operations.front());
      stream->operations.pop_front();
      if (operation.run && sticky_ == cudaSuccess) {
        stream->busy = true;
        if (operation.touches_memory) memory_.set_open(true);
        lock.unlock();
        const cudaError_t error = operation.run();
        operation.run = nullptr;
        lock.lock();
        stream->busy = false;
        if (error != cudaSuccess && sticky_ == cudaSuccess) sticky_ = error;
      }
      if (operation.sets) *operation.sets = {true, clock_->steady()};
      idle_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_, idle_;
  std::set<CUstream_st*> streams_;
  fake_cuda::DeviceMemory memory_;
  std::map<std::byte*, size_t> pinned_;
  bool stop_ = false, hidden_ = false, shares_memory_ = true;
  bool lost_ = false;
  uint64_t lost_after_ = 0;  // launches; 0: it stays
  int driver_ = CUDART_VERSION, capability_ = kCapability;
  std::string failing_call_;  // a function, or none
  uint64_t calls_left_ = 0;   // until it fails
  bool loses_ = false;        // the device is lost by it
  cudaError_t call_error_ = cudaSuccess;
  size_t limit_ = kDefaultMemory;
  uint64_t failing_launch_ = 0, refused_capture_ = 0;
  const leat::RealClock real_clock_;
  const leat::Clock* clock_ = &real_clock_;
  cudaError_t launch_error_ = cudaErrorLaunchFailure;
  cudaError_t sticky_ = cudaSuccess;
  std::mt19937_64 random_;
  fake_cuda::Counts counts_;
  std::thread thread_;  // last, because it uses the members above
};

Gpu& gpu() {
  static Gpu it;
  return it;
}

}  // namespace

namespace fake_cuda {

void reset(uint64_t seed) { gpu().reset(seed); }
void limit_memory(size_t bytes) { gpu().limit_memory(bytes); }
void hide_device() { gpu().hide(); }
void fail_launch(uint64_t nth, cudaError_t error) { gpu().fail_launch(nth, error); }
void fail_call(const char* function, uint64_t nth, cudaError_t error) {
  gpu().fail_call(function, nth, error);
}
void lose_device(uint64_t nth) { gpu().lose(nth); }
void lose_device_at(const char* function, uint64_t nth) { gpu().lose_at(function, nth); }
void set_driver(int version) { gpu().set_driver(version); }
void set_capability(int capability) { gpu().set_capability(capability); }
void set_clock(const leat::Clock& clock) { gpu().set_clock(clock); }
void refuse_capture(uint64_t nth) { gpu().refuse_capture(nth); }
void share_memory(bool shares) { gpu().share_memory(shares); }
cudaError_t enqueue(cudaStream_t stream, std::function<cudaError_t()> work) {
  return gpu().enqueue(stream, {std::move(work), nullptr, nullptr});
}
cudaError_t enqueue_when(cudaStream_t stream, std::function<bool()> ready,
                         std::function<cudaError_t()> work) {
  return gpu().enqueue(stream, {std::move(work), nullptr, nullptr, true, std::move(ready)});
}
void look_again() { gpu().look_again(); }
Counts counts() { return gpu().counts(); }

}  // namespace fake_cuda

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  const cudaError_t error = gpu().look_for_devices();
  *count = error == cudaSuccess ? 1 : 0;
  return error;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = gpu().driver();
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  fake_cuda::take_faults_of_environment();
  if (const cudaError_t error = gpu().begin_call(__func__)) return error;
  return device == 0 ? cudaSuccess : cudaErrorInvalidDevice;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  if (const cudaError_t error = gpu().begin_call(__func__)) return error;
  *properties = {};
  std::strcpy(properties->name, "Emulated GPU");
  properties->major = gpu().capability() / 10;
  properties->minor = gpu().capability() % 10;
  properties->sharedMemPerBlockOptin = 227 << 10;
  properties->warpSize = 32;
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  if (const cudaError_t error = gpu().begin_call(__func__)) return error;
  return gpu().memory_info(free, total);
}
cudaError_t cudaMalloc(void** data, size_t bytes) {
  if (const cudaError_t error = gpu().begin_call(__func__)) return error;
  return gpu().allocate(data, bytes);
}
cudaError_t cudaFree(void* data) { return gpu().free(data); }
cudaError_t cudaHostAlloc(void** data, size_t bytes, unsigned) {
  if (const cudaError_t error = gpu().begin_call(__func__)) return error;
  return gpu().allocate_pinned(data, bytes);
}
cudaError_t cudaFreeHost(void* data) { return gpu().free_pinned(data); }
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  if (const cudaError_t error = gpu().begin_call(__func__)) return error;
  return gpu().attribute(value, attribute);
}
cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* data) {
  if (const cudaError_t error = gpu().begin_call(__func__)) return error;
  return gpu().share(data, handle);
}
cudaError_t cudaIpcOpenMemHandle(void** data, cudaIpcMemHandle_t handle, unsigned flags) {
  if (const cudaError_t error = gpu().begin_call(__func__)) return error;
  if (flags != cudaIpcMemLazyEnablePeerAccess) return cudaErrorInvalidValue;  // CUDA's only flag
  return gpu().open_shared(data, handle);
}
cudaError_t cudaIpcCloseMemHandle(void* data) {
  if (const cudaError_t error = gpu().begin_call(__func__)) return error;
  return gpu().close_shared(data);
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  if (const cudaError_t error = gpu().begin_call(__func__)) return error;
  return gpu().copy(to, from, bytes, kind, stream);
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  if (const cudaError_t error = gpu().begin_call(__func__)) return error;
  return gpu().fill(to, value, bytes, stream);
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  if (const cudaError_t error = gpu().begin_call(__func__)) return error;
  if (flags != cudaStreamNonBlocking) return cudaErrorInvalidValue;  // Leat makes no other
  if (const cudaError_t error = gpu().sticky()) return error;
  *stream = new CUstream_st;
  gpu().add_stream(*stream);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  gpu().remove_stream(stream);
  delete stream;
  return gpu().sticky();
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (const cudaError_t error = gpu().begin_call(__func__)) return error;
  return gpu().synchronize(stream);
}
cudaError_t cudaGraphCreate(cudaGraph_t* graph, unsigned) {
  if (const cudaError_t error = gpu().begin_call(__func__)) return error;
  if (const cudaError_t error = gpu().sticky()) return error;
  *graph = new CUgraph_st;
  return cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  if (const cudaError_t error = gpu().begin_call(__func__)) return error;
  auto graph = std::make_unique<CUgraph_st>();
  const cudaError_t error = gpu().begin_capture(stream, graph.get(), nullptr, 0, mode);
  if (error == cudaSuccess) stream->own = std::move(graph);  // until the capture ends
  return error;
}
cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t stream, cudaGraph_t graph,
                                          const cudaGraphNode_t* after, const cudaGraphEdgeData*,
                                          size_t count, cudaStreamCaptureMode mode) {
  if (const cudaError_t error = gpu().begin_call(__func__)) return error;
  return gpu().begin_capture(stream, graph, after, count, mode);
}
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                     unsigned long long*, cudaGraph_t*,
                                     const cudaGraphNode_t** nodes, const cudaGraphEdgeData**,
                                     size_t* count) {
  return gpu().capture_info(stream, status, nodes, count);
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return gpu().end_capture(stream, graph);
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* ready, cudaGraph_t graph, unsigned long long) {
  if (const cudaError_t error = gpu().begin_call(__func__)) return error;
  auto made = std::make_unique<CUgraphExec_st>();
  std::map<const CUgraphNode_st*, size_t> numbers;
  for (const auto& node : graph->nodes) {
    CUgraphExec_st::Node copy{node->run, {}};
    for (const CUgraphNode_st* before : node->after) copy.after.push_back(numbers.at(before));
    numbers[node.get()] = made->nodes.size();
    made->nodes.push_back(std::move(copy));
  }
  *ready = made.release();
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  if (const cudaError_t error = gpu().begin_call(__func__)) return error;
  return gpu().launch(graph, stream);
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  if (const cudaError_t error = gpu().begin_call(__func__)) return error;
  return gpu().wait(stream, event);
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  if (const cudaError_t error = gpu().begin_call(__func__)) return error;
  if (const cudaError_t error = gpu().sticky()) return error;
  *event = new CUevent_st;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (const cudaError_t error = gpu().begin_call(__func__)) return error;
  return gpu().record(event, stream);
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (const cudaError_t error = gpu().begin_call(__func__)) return error;
  return gpu().query(event);
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  if (const cudaError_t error = gpu().begin_call(__func__)) return error;
  return gpu().elapsed(milliseconds, begin, end);
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return gpu().sticky();
}
// CUDA makes no such call once there was an error.
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  if (const cudaError_t error = gpu().begin_call(__func__)) return error;
  return gpu().enqueue(stream, {[=] {
                                  function(data);
                                  return cudaSuccess;
                                },
                                nullptr, nullptr, false});
}
cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) { return gpu().sticky(); }
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function,
                                void** arguments) {
  if (const cudaError_t error = gpu().begin_call(__func__)) return error;
  return gpu().launch(*config, function, arguments);
}
cudaError_t cudaGetLastError() { return gpu().sticky(); }
cudaError_t cudaPeekAtLastError() { return gpu().sticky(); }

}  // extern "C"
