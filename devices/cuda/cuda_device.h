// An NVIDIA GPU as a device. Each queue is a stream of its own; a thread looks at the events of
// their marks and raises the timelines.
//
// A process uses one GPU, the first that it can see: CUDA_VISIBLE_DEVICES chooses it. NVIDIA
// advises against several in a process that launches graphs with NCCL in them, and a GPU that fails
// takes its process with it.
//
// Any error of CUDA is final but a lack of memory and a refusal to allocate: all queues of the
// device fail with it, and so does all work that is enqueued later.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "devices/core/device.h"
#include "devices/core/kernel_ways.h"
#include "devices/cuda/complaint.h"

namespace leat::cuda {

class CudaQueue;

// The state of a library of NVIDIA on one device.
class CudaLibrary {
 public:
  virtual ~CudaLibrary() = default;
  virtual std::string_view name() const = 0;
  virtual std::string version() const = 0;
};

// Threads: any, as Device says.
class CudaDevice final : public Device {
 public:
  // The GPUs that this process may use. unavailable, with CUDA's reason, if it has none or no
  // driver.
  static Result<int> count();
  // Opens the process' GPU, as "gpu:<index>". unavailable if there is none, or no driver;
  // resource_exhausted if it has too little memory left for a context.
  static Result<std::unique_ptr<CudaDevice>> open(int index);
  ~CudaDevice() override;

  std::string_view kind() const override { return "cuda"; }
  std::string name() const override { return name_; }
  std::string description() const override { return description_; }
  // The memory that was free when the device was opened, less a share for the libraries' own needs.
  uint64_t memory_bytes() const override { return memory_bytes_; }
  bool host_visible() const override { return false; }
  // Libraries choose their algorithm by the alignment of addresses, which must not change.
  size_t alignment() const override { return 256; }
  // A kernel counts its way once, when it is made.
  std::shared_ptr<KernelWays> ways() const override { return ways_; }

  Result<std::unique_ptr<Buffer>> allocate(size_t bytes) override;
  // Pinned memory, which the device can address, too.
  Result<std::unique_ptr<Buffer>> allocate_host(size_t bytes) override;
  Queue& queue(QueueFor use = QueueFor::compute) override;
  void copy_to_device(void* device, const void* host, size_t bytes) override;
  void copy_to_host(void* host, const void* device, size_t bytes) override;
  void copy_within(void* to, const void* from, size_t bytes) override;

  Status has_wires(WireKind kind) override;
  Result<std::unique_ptr<WireReceiver>> make_wire_receiver(WireKind kind, Buffer& into) override;
  Result<std::unique_ptr<WireSender>> make_wire_sender(WireKind kind,
                                                       std::string_view offer) override;

  // The compute capability, 10 times the major number plus the minor one.
  int capability() const { return capability_; }
  // The most shared memory that a block may have, static and dynamic, in bytes.
  size_t shared_bytes() const { return shared_bytes_; }
  // The stream of queue(compute), in which all kernels run.
  cudaStream_t stream() const;
  // Takes a library that kernels share, and names it with its version in the description. Call this
  // and describe_further() before the device is used.
  void add_library(std::unique_ptr<CudaLibrary> library);
  // Adds words to the description.
  void describe_further(std::string_view words) { description_.append(", ").append(words); }
  // Null if the device has none of that name.
  const CudaLibrary* library(std::string_view name) const;
  // Fails all queues, unless the device has failed before. REQUIRES: `status` is not ok.
  void fail(const Status& status);

  // Lends a kernel a Complaint until forget() takes it back. When a mark is reached, the device
  // looks for complaints and fails with the status that `describe` returns for the first one.
  // resource_exhausted if there is no pinned memory.
  Result<Complaint*> lend_complaint(std::function<Status(const Complaint&)> describe);
  void forget(Complaint* complaint);

 private:
  friend class CudaQueue;
  CudaDevice(int index, const cudaDeviceProp& properties, uint64_t free_bytes);
  Status start();
  // The error of a call that allocates, as a status. Fails the device with it unless CUDA refused
  // the call: for lack of memory, within a recording, or for its arguments.
  Status check_allocation(cudaError_t error, std::string_view subject);
  void watch();
  // True if a mark was reached.
  bool look();
  void look_for_complaints();

  const std::string name_;
  std::string description_;
  const uint64_t memory_bytes_;
  const int capability_;
  const size_t shared_bytes_;
  std::array<std::unique_ptr<CudaQueue>, 3> queues_;  // by QueueFor

  std::vector<std::unique_ptr<CudaLibrary>> libraries_;
  const std::shared_ptr<KernelWays> ways_ = std::make_shared<KernelWays>();

  // Blocks of complaints in pinned memory, and those that are lent.
  struct Lent {
    Complaint* at;
    std::function<Status(const Complaint&)> describe;
  };
  std::mutex complaints_mutex_;
  std::vector<std::unique_ptr<Buffer>> complaint_blocks_;
  std::vector<Complaint*> free_complaints_;
  std::vector<Lent> lent_;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;
  int outstanding_ = 0;  // marks that are not reached
  std::thread watcher_;  // last, because it uses the members above
};

}  // namespace leat::cuda
