// Measures the time of a run's steps by instruction. Only a program that was made with `profile`
// measures; other programs run their kernels without a wrapper.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "devices/core/device.h"
#include "ops/cpu/element_kernel.h"
#include "ops/graph/kernel.h"
#include "ops/graph/kernel_note.h"

namespace leat {

class Program;

// A kernel that wraps another one and adds up the time of its calls: CPU time, which is what the
// kernel costs even while other programs use the machine, and leaves out waits between tiles; or,
// of a device with a clock of its own, the time of what the kernel enqueues. The first step is not
// counted, because it touches memory for the first time.
//
// It does not repeat: a device does not record it, and kernels are launched one by one.
//
// Threads: as Kernel says. Any thread may read the sums of CPU time at any time, but they are
// complete only between steps; those of a device are read between steps alone.
class TimedKernel final : public Kernel, public ElementTiles, public NotedKernel {
 public:
  // `queue` is that of the device, and outlives the kernel.
  TimedKernel(std::unique_ptr<Kernel> kernel, Queue& queue);

  int phases() const override { return kernel_->phases(); }
  int tiles(int phase) const override { return kernel_->tiles(phase); }
  int row_phase() const override { return kernel_->row_phase(); }
  bool may_block() const override { return kernel_->may_block(); }
  int64_t tile_elements() const override { return leat::tile_elements(*kernel_); }
  size_t workspace_bytes() const override { return kernel_->workspace_bytes(); }
  size_t scratch_bytes() const override { return kernel_->scratch_bytes(); }
  std::string note() const override { return kernel_note(*kernel_); }
  Progress run(KernelContext& context, int phase, int tile) override;

  // True if the device measures.
  bool by_device() const { return sums_[0].stopwatch != nullptr; }
  // The seconds of a phase, over all steps but the first.
  double seconds(int phase) const;
  // The number of calls of a phase that were counted.
  uint64_t calls(int phase) const;

 private:
  struct Sum {
    std::atomic<uint64_t> calls{0}, nanoseconds{0};
    std::unique_ptr<Stopwatch> stopwatch;  // null: CPU time is measured
  };
  std::unique_ptr<Kernel> kernel_;
  std::unique_ptr<Sum[]> sums_;  // by phase
};

// A table of the program's instructions, the most expensive first: time of a step and its share;
// GFLOP/s of matrix products and convolutions; GB/s, with each operand's bytes counted once; tiles
// and share of each phase; and the kernel's note. One line stands for instructions whose kernels
// are joined, and one for all instructions below 0.1 %. "" if the program does not measure, or
// before its second step.
std::string profile_text(const Program& program);

}  // namespace leat
