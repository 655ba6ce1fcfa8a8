// A device that is known by its facts alone: plans can be made for it on a machine that does not
// have it.
#pragma once

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "devices/core/device.h"

namespace leat {

// Threads: any. It allocates nothing, and has no queues: only plans may use it.
class DescribedDevice final : public Device {
 public:
  // `kind`: of its kernels; `name`: the last part of its full name, "gpu:0".
  DescribedDevice(std::string kind, std::string name)
      : kind_(std::move(kind)), name_(std::move(name)) {}

  std::string_view kind() const override { return kind_; }
  std::string name() const override { return name_; }
  std::string description() const override { return "not of this machine"; }
  // Not known, so that no plan is refused for it.
  uint64_t memory_bytes() const override { return 0; }
  bool host_visible() const override { return false; }
  size_t alignment() const override { return 256; }

  Result<std::unique_ptr<Buffer>> allocate(size_t) override { return none(); }
  Result<std::unique_ptr<Buffer>> allocate_host(size_t) override { return none(); }
  // REQUIRES, as for the copies: it is not called.
  Queue& queue(QueueFor) override { std::abort(); }
  void copy_to_device(void*, const void*, size_t) override { std::abort(); }
  void copy_to_host(void*, const void*, size_t) override { std::abort(); }
  void copy_within(void*, const void*, size_t) override { std::abort(); }

 private:
  Status none() const { return unavailable(name_ + ": a device for plans alone has no memory"); }

  const std::string kind_, name_;
};

}  // namespace leat
