// The host's processors as a device: work runs where it is enqueued, tiles run on the pool.
#pragma once

#include <memory>
#include <string>

#include "devices/core/device.h"
#include "devices/cpu/pool.h"

namespace leat::cpu {

class CpuDevice final : public Device {
 public:
  // `threads` compute threads, the driver's included; the index makes the name, "cpu:<index>".
  CpuDevice(int index, int threads);

  std::string_view kind() const override { return "cpu"; }
  std::string name() const override { return "cpu:" + std::to_string(index_); }
  std::string description() const override;
  uint64_t memory_bytes() const override;
  bool host_visible() const override { return true; }
  size_t alignment() const override { return 64; }
  Result<std::unique_ptr<Buffer>> allocate(size_t bytes) override;
  Queue& queue() override { return *queue_; }
  void copy_to_device(void* device, const void* host, size_t bytes) override;
  void copy_to_host(void* host, const void* device, size_t bytes) override;

  Pool& pool() { return pool_; }

 private:
  const int index_;
  Pool pool_;
  std::unique_ptr<Queue> queue_;
};

// The processor's model name, from /proc/cpuinfo; "unknown" if there is none.
std::string cpu_model();
// Cores that this process may use (affinity and cgroup quota).
int usable_cores();

}  // namespace leat::cpu
