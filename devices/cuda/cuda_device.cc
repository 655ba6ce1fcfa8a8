#include "devices/cuda/cuda_device.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "devices/base/cuda_architectures.h"
#include "devices/base/text.h"
#include "devices/cuda/built_for.h"
#include "devices/cuda/cuda_status.h"
#include "devices/cuda/plain_ways.h"

namespace leat::cuda {
namespace {

// Left for the libraries: their workspaces, kernels that load late, and the context itself.
constexpr uint64_t kReservedPart = 16;  // one sixteenth
// A wait for a timeline that no stream of this device raises holds up the stream: it ends sometime.
constexpr auto kForeignDeadline = std::chrono::minutes(10);
// While marks are outstanding, the watcher spins this long after each that it sees, and then looks
// again after each pause.
constexpr auto kSpin = std::chrono::microseconds(200);
constexpr auto kPause = std::chrono::microseconds(50);
constexpr size_t kComplaintsInBlock = 256;

class DeviceBuffer final : public Buffer {
 public:
  DeviceBuffer(void* data, size_t size) : data_(data), size_(size) {}
  ~DeviceBuffer() override { (void)cudaFree(data_); }
  void* data() const override { return data_; }
  size_t size() const override { return size_; }

 private:
  void* data_;
  size_t size_;
};

}  // namespace

// A stream. Marks are events, which are used again once they are reached.
class CudaQueue final : public Queue {
 public:
  CudaQueue(CudaDevice& device, std::string subject)
      : device_(device), subject_(std::move(subject)) {}
  ~CudaQueue() override {
    for (cudaEvent_t event : free_) (void)cudaEventDestroy(event);
    for (const Mark& mark : pending_) (void)cudaEventDestroy(mark.event);
    if (stream_) (void)cudaStreamDestroy(stream_);
  }
  Status open() {
    return cuda_status(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
                       cat(subject_, ": cudaStreamCreateWithFlags"));
  }

  void enqueue(std::function<Status()> work) override {
    // The function runs once, and frees what it was given.
    auto call = std::make_unique<Call>(Call{this, std::move(work)});
    const cudaHostFn_t run = [](void* data) {
      const std::unique_ptr<Call> call(static_cast<Call*>(data));
      if (call->queue->timeline_.failed()) return;
      if (const Status status = call->work(); !status.ok()) call->queue->device_.fail(status);
    };
    const std::lock_guard use(use_);
    if (check(cudaLaunchHostFunc(stream_, run, call.get()), "cudaLaunchHostFunc"))
      (void)call.release();
  }

  uint64_t mark() override {
    uint64_t value = 0;
    {
      const std::lock_guard use(use_);
      const std::lock_guard lock(mutex_);
      value = ++marks_;
      cudaEvent_t event = take_event();
      if (!event || !check(cudaEventRecord(event, stream_), "cudaEventRecord")) {
        if (event) free_.push_back(event);
        return value;  // the timeline has failed
      }
      pending_.push_back({value, event});
    }
    {
      const std::lock_guard lock(device_.mutex_);
      ++device_.outstanding_;
    }
    device_.changed_.notify_one();
    return value;
  }

  Timeline& timeline() override { return timeline_; }

  void wait_for(Timeline& timeline, uint64_t value) override {
    for (const auto& queue : device_.queues_) {
      if (&queue->timeline_ == &timeline) return wait_for_mark(*queue, value);
    }
    enqueue([&timeline, value] {
      return timeline.wait(value, std::chrono::steady_clock::now() + kForeignDeadline);
    });
  }

  bool begin_recording() override {
    if (goes_plain_way("graphs") || timeline_.failed()) return false;
    use_.lock();
    recorded_ = {};
    if (check(cudaGraphCreate(&recorded_.graph, 0), "cudaGraphCreate")) return true;
    use_.unlock();
    return false;
  }
  void begin_piece(std::span<const uint32_t> after) override;
  std::unique_ptr<Recording> end_recording() override;
  std::unique_ptr<Stopwatch> make_stopwatch() override;

  // Enqueues a reading of the GPU's clock.
  void record(cudaEvent_t event) {
    const std::lock_guard use(use_);
    check(cudaEventRecord(event, stream_), "cudaEventRecord");
  }
  // Enqueues a copy; an address may be the host's or the device's.
  void copy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
    const std::lock_guard use(use_);
    if (bytes == 0) return;
    const cudaError_t error = cudaMemcpyAsync(to, from, bytes, kind, stream_);
    if (error != cudaSuccess) check(error, cat("cudaMemcpyAsync of ", bytes, " bytes"));
  }
  void fill_with_zeros(void* to, size_t bytes) {
    const std::lock_guard use(use_);
    check(cudaMemsetAsync(to, 0, bytes, stream_), "cudaMemsetAsync");
  }
  void launch(cudaGraphExec_t graph) {
    const std::lock_guard use(use_);
    check(cudaGraphLaunch(graph, stream_), "cudaGraphLaunch");
  }
  cudaStream_t stream() const { return stream_; }

  // Raises the timeline to the marks that are reached, and returns how many; -1 if CUDA reports an
  // error, with which the device has failed then.
  int look() {
    int reached = 0;
    uint64_t value = 0;
    cudaError_t error = cudaSuccess;
    {
      const std::lock_guard lock(mutex_);
      while (!pending_.empty()) {
        error = cudaEventQuery(pending_.front().event);
        if (error != cudaSuccess) break;
        value = pending_.front().value;
        free_.push_back(pending_.front().event);
        pending_.pop_front();
        ++reached;
      }
    }
    if (reached > 0) {
      device_.look_for_complaints();
      // Work before the mark may have failed: the mark is not reached then.
      if (!timeline_.failed()) timeline_.signal(value);
    }
    if (error == cudaSuccess || error == cudaErrorNotReady) return reached;
    // Either the call itself has failed, or the work before it.
    device_.fail(cuda_status(error, cat(subject_, ": cudaEventQuery")));
    return -1;
  }
  void fail(const Status& status) { timeline_.fail(status); }

 private:
  struct Mark {
    uint64_t value;
    cudaEvent_t event;
  };
  struct Call {
    CudaQueue* queue;
    std::function<Status()> work;
  };
  // A graph in the making. Each piece is captured by itself, and added to it.
  struct Recorded {
    cudaGraph_t graph = nullptr;
    bool capturing = false;
    cudaError_t error = cudaSuccess;                 // the first
    std::vector<std::vector<cudaGraphNode_t>> ends;  // by piece: what follows it comes after these
  };
  void end_piece();

  bool check(cudaError_t error, std::string_view call) {
    if (error == cudaSuccess) return true;
    device_.fail(cuda_status(error, cat(subject_, ": ", call)));
    return false;
  }
  cudaEvent_t take_event() {
    if (!free_.empty()) {
      cudaEvent_t event = free_.back();
      free_.pop_back();
      return event;
    }
    cudaEvent_t event = nullptr;
    const cudaError_t error = cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    return check(error, "cudaEventCreateWithFlags") ? event : nullptr;
  }
  // A mark that is not pending any more is reached.
  void wait_for_mark(CudaQueue& other, uint64_t value) {
    const std::lock_guard use(use_);
    const std::lock_guard lock(other.mutex_);
    const auto at = std::find_if(other.pending_.begin(), other.pending_.end(),
                                 [&](const Mark& mark) { return mark.value >= value; });
    if (at != other.pending_.end())
      check(cudaStreamWaitEvent(stream_, at->event, 0), "cudaStreamWaitEvent");
  }

  CudaDevice& device_;
  const std::string subject_;
  cudaStream_t stream_ = nullptr;
  // Held by a thread that gives the stream work: what others gave it meanwhile would be recorded.
  std::recursive_mutex use_;
  std::mutex mutex_;  // taken after use_
  uint64_t marks_ = 0;
  std::deque<Mark> pending_;
  std::vector<cudaEvent_t> free_;
  Recorded recorded_;
  Timeline timeline_;
};

// Its owner has waited for the work that uses it, unless the device has failed: then no timeline
// tells when that work is done, and it may still run. CUDA does not promise to wait for it.
class PinnedBuffer final : public Buffer {
 public:
  PinnedBuffer(CudaDevice& device, void* data, size_t size)
      : device_(device), data_(data), size_(size) {}
  ~PinnedBuffer() override {
    for (const QueueFor use : {QueueFor::compute, QueueFor::copies_in, QueueFor::copies_out}) {
      auto& queue = static_cast<CudaQueue&>(device_.queue(use));
      if (queue.timeline().failed()) (void)cudaStreamSynchronize(queue.stream());
    }
    (void)cudaFreeHost(data_);
  }
  void* data() const override { return data_; }
  size_t size() const override { return size_; }

 private:
  CudaDevice& device_;
  void* data_;
  size_t size_;
};

// A graph of the work that a stream was given.
class CudaRecording final : public Recording {
 public:
  CudaRecording(CudaQueue& queue, cudaGraphExec_t graph) : queue_(queue), graph_(graph) {}
  ~CudaRecording() override { (void)cudaGraphExecDestroy(graph_); }
  void enqueue() override { queue_.launch(graph_); }

 private:
  CudaQueue& queue_;
  const cudaGraphExec_t graph_;
};

// Events around pieces of work; they are used again once those are done.
class CudaStopwatch final : public Stopwatch {
 public:
  explicit CudaStopwatch(CudaQueue& queue) : queue_(queue) {
    for (Round& round : rounds_) {
      (void)cudaEventCreateWithFlags(&round.begin, cudaEventDefault);
      (void)cudaEventCreateWithFlags(&round.end, cudaEventDefault);
    }
  }
  ~CudaStopwatch() override {
    for (const Round& round : rounds_) {
      (void)cudaEventDestroy(round.begin);
      (void)cudaEventDestroy(round.end);
    }
  }
  void start() override {
    collect();
    const auto free = std::find_if(rounds_.begin(), rounds_.end(),
                                   [](const Round& round) { return !round.pending; });
    running_ = free == rounds_.end() ? nullptr : &*free;
    if (running_) queue_.record(running_->begin);
  }
  void stop() override {
    if (!running_) return;
    queue_.record(running_->end);
    running_->pending = true;
  }
  Sum sum() override {
    collect();
    return sum_;
  }

 private:
  struct Round {
    cudaEvent_t begin = nullptr, end = nullptr;
    bool pending = false;  // its times are not added to the sum
  };
  void collect() {
    for (Round& round : rounds_) {
      float milliseconds = 0;
      if (!round.pending || cudaEventQuery(round.end) != cudaSuccess) continue;
      round.pending = false;
      if (cudaEventElapsedTime(&milliseconds, round.begin, round.end) != cudaSuccess) continue;
      sum_.seconds += 1e-3 * static_cast<double>(milliseconds);
      ++sum_.rounds;
    }
  }

  CudaQueue& queue_;
  std::array<Round, 4> rounds_;  // two steps are in flight, and their predecessors may be
  Round* running_ = nullptr;
  Sum sum_;
};

std::unique_ptr<Stopwatch> CudaQueue::make_stopwatch() {
  return std::make_unique<CudaStopwatch>(*this);
}

void CudaQueue::begin_piece(std::span<const uint32_t> after) {
  end_piece();
  if (recorded_.error == cudaSuccess) {
    std::vector<cudaGraphNode_t> before;
    for (const uint32_t piece : after)
      before.insert(before.end(), recorded_.ends[piece].begin(), recorded_.ends[piece].end());
    std::sort(before.begin(), before.end());
    before.erase(std::unique(before.begin(), before.end()), before.end());
    recorded_.error =
        cudaStreamBeginCaptureToGraph(stream_, recorded_.graph, before.data(), nullptr,
                                      before.size(), cudaStreamCaptureModeThreadLocal);
  }
  // After an error, the work that follows is captured and thrown away: it must not be done.
  recorded_.capturing = recorded_.error == cudaSuccess ||
                        check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal),
                              "cudaStreamBeginCapture");
}

// A piece ends at the nodes that the next work of the stream would follow.
void CudaQueue::end_piece() {
  if (!std::exchange(recorded_.capturing, false)) return;
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const cudaGraphNode_t* nodes = nullptr;
  size_t count = 0;
  cudaError_t error =
      cudaStreamGetCaptureInfo(stream_, &status, nullptr, nullptr, &nodes, nullptr, &count);
  if (error == cudaSuccess && status != cudaStreamCaptureStatusActive)
    error = cudaErrorStreamCaptureInvalidated;
  recorded_.ends.emplace_back();
  if (error == cudaSuccess) recorded_.ends.back().assign(nodes, nodes + count);
  cudaGraph_t graph = nullptr;
  const cudaError_t ended = cudaStreamEndCapture(stream_, &graph);
  if (graph && graph != recorded_.graph) (void)cudaGraphDestroy(graph);
  if (recorded_.error == cudaSuccess) recorded_.error = error == cudaSuccess ? ended : error;
}

std::unique_ptr<Recording> CudaQueue::end_recording() {
  end_piece();
  cudaGraphExec_t ready = nullptr;
  cudaError_t error = recorded_.error;
  if (error == cudaSuccess) error = cudaGraphInstantiate(&ready, recorded_.graph, 0);
  (void)cudaGraphDestroy(recorded_.graph);
  recorded_ = {};
  use_.unlock();
  if (error == cudaSuccess) return std::make_unique<CudaRecording>(*this, ready);
  (void)cudaGetLastError();  // the work was not done, and nothing has failed
  return nullptr;
}

namespace {

// CUDA writes 13.0 as 13000.
std::string version_text(int number) { return cat(number / 1000, ".", number % 1000 / 10); }

// Without code for it, the first launch of a step would fail.
Status check_capability(const std::string& name, const cudaDeviceProp& properties) {
  const int capability = 10 * properties.major + properties.minor;
  if (runs_on(kBuiltFor, capability)) return {};
  return unavailable(cat(name, ": expected a compute capability that the plugin has code for (",
                         kBuiltFor, "), received ", capability_text(capability), " of ",
                         properties.name));
}

}  // namespace

Result<int> CudaDevice::count() {
  int devices = 0;
  const cudaError_t error = cudaGetDeviceCount(&devices);
  if (error == cudaSuccess && devices > 0) return devices;
  int driver = 0, runtime = 0;
  if (error == cudaErrorInsufficientDriver && cudaDriverGetVersion(&driver) == cudaSuccess &&
      cudaRuntimeGetVersion(&runtime) == cudaSuccess) {
    return unavailable(cat("expected a driver for CUDA ", version_text(runtime),
                           " or newer, received ",
                           driver == 0 ? "none" : cat("one for CUDA ", version_text(driver))));
  }
  return unavailable(cat("expected a GPU that CUDA can use, received ",
                         error == cudaSuccess ? "none" : cudaGetErrorString(error)));
}

Result<std::unique_ptr<CudaDevice>> CudaDevice::open(int index) {
  const std::string name = cat("gpu:", index);
  if (const auto devices = count(); !devices.ok())
    return unavailable(cat(name, ": ", devices.status().message()));
  cudaDeviceProp properties{};
  LEAT_RETURN_IF_ERROR(cuda_status(cudaSetDevice(0), cat(name, ": cudaSetDevice")));
  LEAT_RETURN_IF_ERROR(
      cuda_status(cudaGetDeviceProperties(&properties, 0), cat(name, ": cudaGetDeviceProperties")));
  LEAT_RETURN_IF_ERROR(check_capability(name, properties));
  size_t free_bytes = 0, total = 0;
  LEAT_RETURN_IF_ERROR(
      cuda_status(cudaMemGetInfo(&free_bytes, &total), cat(name, ": cudaMemGetInfo")));
  std::unique_ptr<CudaDevice> device(new CudaDevice(index, properties, free_bytes));
  LEAT_RETURN_IF_ERROR(device->start());
  return device;
}

CudaDevice::CudaDevice(int index, const cudaDeviceProp& properties, uint64_t free_bytes)
    : name_(cat("gpu:", index)),
      description_(
          cat(properties.name, ", compute capability ", properties.major, ".", properties.minor)),
      memory_bytes_(free_bytes - free_bytes / kReservedPart),
      capability_(10 * properties.major + properties.minor),
      shared_bytes_(properties.sharedMemPerBlockOptin) {
  static constexpr const char* kNames[] = {"computing", "copying in", "copying out"};
  for (size_t i = 0; i < queues_.size(); ++i)
    queues_[i] = std::make_unique<CudaQueue>(*this, cat(name_, ": ", kNames[i]));
}

Status CudaDevice::start() {
  for (const auto& queue : queues_) LEAT_RETURN_IF_ERROR(queue->open());
  watcher_ = std::thread([this] { watch(); });
  return {};
}

CudaDevice::~CudaDevice() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_one();
  if (watcher_.joinable()) watcher_.join();
  // Work that is enqueued may use memory that is freed next.
  for (const auto& queue : queues_) {
    if (queue->stream()) (void)cudaStreamSynchronize(queue->stream());
  }
}

Status CudaDevice::check_allocation(cudaError_t error, std::string_view subject) {
  const Status status = cuda_status(error, subject);
  // More memory may be there later, an allocation within a recording only spoils that, and a call
  // that is refused leaves the GPU as it was. Every other error stays.
  switch (error) {
    case cudaSuccess:
    case cudaErrorMemoryAllocation:
    case cudaErrorStreamCaptureUnsupported:
    case cudaErrorInvalidValue:
    case cudaErrorNotSupported:
    case cudaErrorOperatingSystem:
      break;
    default:
      fail(status);
  }
  return status;
}

Result<std::unique_ptr<Buffer>> CudaDevice::allocate(size_t bytes) {
  void* data = nullptr;
  // Every buffer has an address of its own.
  const size_t size = std::max<size_t>(bytes, 1);
  LEAT_RETURN_IF_ERROR(
      check_allocation(cudaMalloc(&data, size), cat(name_, ": to allocate ", bytes, " bytes")));
  auto buffer = std::make_unique<DeviceBuffer>(data, bytes);
  CudaQueue& copies = *queues_[static_cast<size_t>(QueueFor::copies_in)];
  copies.fill_with_zeros(data, size);
  LEAT_RETURN_IF_ERROR(check_allocation(cudaStreamSynchronize(copies.stream()),
                                        cat(name_, ": cudaStreamSynchronize")));
  return std::unique_ptr<Buffer>(std::move(buffer));
}

Result<std::unique_ptr<Buffer>> CudaDevice::allocate_host(size_t bytes) {
  void* data = nullptr;
  const size_t size = std::max<size_t>(bytes, 1);
  LEAT_RETURN_IF_ERROR(
      check_allocation(cudaHostAlloc(&data, size, cudaHostAllocPortable | cudaHostAllocMapped),
                       cat(name_, ": to allocate ", bytes, " pinned bytes of the host")));
  std::memset(data, 0, size);
  return std::unique_ptr<Buffer>(std::make_unique<PinnedBuffer>(*this, data, bytes));
}

Queue& CudaDevice::queue(QueueFor use) { return *queues_[static_cast<size_t>(use)]; }

cudaStream_t CudaDevice::stream() const {
  return queues_[static_cast<size_t>(QueueFor::compute)]->stream();
}

// CUDA tells from the address whether the source is memory of the host.
void CudaDevice::copy_to_device(void* device, const void* host, size_t bytes) {
  queues_[static_cast<size_t>(QueueFor::copies_in)]->copy(device, host, bytes, cudaMemcpyDefault);
}
void CudaDevice::copy_to_host(void* host, const void* device, size_t bytes) {
  queues_[static_cast<size_t>(QueueFor::copies_out)]->copy(host, device, bytes,
                                                           cudaMemcpyDeviceToHost);
}
void CudaDevice::copy_within(void* to, const void* from, size_t bytes) {
  queues_[static_cast<size_t>(QueueFor::compute)]->copy(to, from, bytes, cudaMemcpyDeviceToDevice);
}

void CudaDevice::add_library(std::unique_ptr<CudaLibrary> library) {
  describe_further(cat(library->name(), " ", library->version()));
  libraries_.push_back(std::move(library));
}

const CudaLibrary* CudaDevice::library(std::string_view name) const {
  for (const auto& library : libraries_) {
    if (library->name() == name) return library.get();
  }
  return nullptr;
}

void CudaDevice::fail(const Status& status) {
  for (const auto& queue : queues_) queue->fail(status);
}

Result<Complaint*> CudaDevice::lend_complaint(std::function<Status(const Complaint&)> describe) {
  const std::lock_guard lock(complaints_mutex_);
  if (free_complaints_.empty()) {
    LEAT_ASSIGN_OR_RETURN(auto block, allocate_host(kComplaintsInBlock * sizeof(Complaint)));
    auto* first = static_cast<Complaint*>(block->data());
    for (size_t i = 0; i < kComplaintsInBlock; ++i) free_complaints_.push_back(first + i);
    complaint_blocks_.push_back(std::move(block));
  }
  Complaint* complaint = free_complaints_.back();
  free_complaints_.pop_back();
  *complaint = {};
  lent_.push_back({complaint, std::move(describe)});
  return complaint;
}

void CudaDevice::forget(Complaint* complaint) {
  const std::lock_guard lock(complaints_mutex_);
  std::erase_if(lent_, [&](const Lent& lent) { return lent.at == complaint; });
  free_complaints_.push_back(complaint);
}

// The work that wrote a complaint is done: the caller has seen a mark behind it.
void CudaDevice::look_for_complaints() {
  Status found;
  {
    const std::lock_guard lock(complaints_mutex_);
    for (const Lent& lent : lent_) {
      // The device wrote it, so the compiler must not keep an earlier value.
      if (*static_cast<const volatile uint64_t*>(&lent.at->place) == 0) continue;
      found = lent.describe(*lent.at);
      break;
    }
  }
  if (!found.ok()) fail(found);
}

bool CudaDevice::look() {
  int reached = 0;
  for (const auto& queue : queues_) {
    const int of_queue = queue->look();
    if (of_queue < 0) {
      // Nothing more will be reached.
      const std::lock_guard lock(mutex_);
      stop_ = true;
      return true;
    }
    reached += of_queue;
  }
  const std::lock_guard lock(mutex_);
  outstanding_ -= reached;
  return reached > 0;
}

void CudaDevice::watch() {
  auto last = std::chrono::steady_clock::now();
  while (true) {
    bool fresh = false;
    {
      std::unique_lock lock(mutex_);
      if (outstanding_ == 0) {
        changed_.wait(lock, [this] { return stop_ || outstanding_ > 0; });
        fresh = true;
      }
      if (stop_) return;
    }
    if (look() || fresh) {
      last = std::chrono::steady_clock::now();
    } else if (std::chrono::steady_clock::now() - last < kSpin) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(kPause);
    }
  }
}

}  // namespace leat::cuda
