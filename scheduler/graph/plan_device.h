// The devices that a plan may use.
#pragma once

#include <cstdint>
#include <string>

namespace leat {

// A device as compile() knows it.
struct PlanDevice {
  // The full name, "job:worker/task:0/gpu:0". The devices of one task belong to one worker.
  std::string name;
  // The kind of its kernels, as Device::kind() says: "cpu", "cuda".
  std::string kind = "cpu";
  uint64_t memory_bytes = 0;  // that a plan may use; 0: unknown, not checked
  // Every value in the device's memory begins at a multiple of this many bytes, a power of two.
  uint64_t alignment = 64;

  bool is_cpu() const { return kind == "cpu"; }
};

}  // namespace leat
