#include "daemon/chaos/flip_bit.h"

#include <chrono>
#include <cstddef>

#include "devices/base/failpoint.h"

namespace leat {
namespace {

constexpr auto kCopy = std::chrono::seconds(5);
constexpr std::byte kBit{0x10};

// The first pass flips: see leat.Digest.
void flip_next_gradient() {
  set_failpoint("digest/gradient",
                [](uint64_t pass) { return pass == 1 ? unavailable("chaos") : Status(); });
}

void flip_variable(Device& device, const Variable& variable) {
  std::byte* const at = static_cast<std::byte*>(variable.data()) + variable.bytes() / 2;
  std::byte value{};
  device.copy_to_host(&value, at, 1);
  // A device that does not answer fails the job by itself.
  (void)device.queue(QueueFor::copies_out).settle(std::chrono::steady_clock::now() + kCopy);
  value ^= kBit;
  device.copy_to_device(at, &value, 1);
  (void)device.queue(QueueFor::copies_in).settle(std::chrono::steady_clock::now() + kCopy);
}

}  // namespace

void flip_bit(const ChaosFault& fault, std::span<JobResources* const> tables) {
  if (fault.target == ChaosTarget::gradient) return flip_next_gradient();
  Device* device = nullptr;
  Variable* largest = nullptr;
  for (JobResources* table : tables) {
    for (Variable* variable : table->variables()) {
      if (!variable->trainable() || variable->bytes() == 0) continue;
      if (largest != nullptr && largest->bytes() >= variable->bytes()) continue;
      largest = variable;
      device = &table->device();
    }
  }
  if (largest != nullptr) flip_variable(*device, *largest);
}

}  // namespace leat
