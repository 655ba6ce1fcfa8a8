// The processors of the host as one device. Work runs inside the call that enqueues it; kernels cut
// their work into tiles, which run on the device's pool of threads.
#pragma once

#include <memory>
#include <string>

#include "devices/core/device.h"
#include "devices/cpu/pool.h"

namespace leat::cpu {

// Owns its pool and its queue. Buffers may be read and written by any host code.
// Threads: as Device says; one thread at a time uses the pool.
class CpuDevice final : public Device {
 public:
  // The device has `threads` compute threads, the thread that drives a step included. Its name is
  // "cpu:<index>".
  CpuDevice(int index, int threads);

  std::string_view kind() const override { return "cpu"; }
  std::string name() const override { return "cpu:" + std::to_string(index_); }
  std::string description() const override;
  uint64_t memory_bytes() const override;
  bool host_visible() const override { return true; }
  // A cache line, so that no two values share one.
  size_t alignment() const override { return 64; }
  // Buffers of 4 MiB and more begin on a huge page.
  Result<std::unique_ptr<Buffer>> allocate(size_t bytes) override;
  Result<std::unique_ptr<Buffer>> allocate_host(size_t bytes) override { return allocate(bytes); }
  Queue& queue(QueueFor = QueueFor::compute) override { return *queue_; }
  void copy_to_device(void* device, const void* host, size_t bytes) override;
  void copy_to_host(void* host, const void* device, size_t bytes) override;
  void copy_within(void* to, const void* from, size_t bytes) override;

  // The compute threads. Kernels reach them through the executor.
  Pool& pool() { return pool_; }

 private:
  const int index_;
  Pool pool_;
  std::unique_ptr<Queue> queue_;
};

// The model name of the processor, from /proc/cpuinfo; "unknown" if it has none.
std::string cpu_model();
// The number of cores that this process may use by its affinity and its cgroup's quota; at least 1.
int usable_cores();

}  // namespace leat::cpu
