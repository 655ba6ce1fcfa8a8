// Shared by the kernels of all op families on CUDA: a Kernel that enqueues work in the device's
// stream, operands as kernels see them, and the way in which a kernel reports a bad operand.
//
// A family is a pair of files: <family>.cu has the device code and the functions that launch it, in
// terms of addresses and sizes; <family>_kernels.cc has the factories, which know nodes. Both are
// compiled twice: by nvcc for GPUs, and by the C++ compiler for the emulated GPU of the tests.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "devices/cuda/cuda_device.h"
#include "ops/graph/kernel.h"

namespace leat::cuda {

inline constexpr const char* kKind = "cuda";

// Enqueues the work of one step, which may be recorded and enqueued again in later ones: it follows
// from the addresses of the operands alone. The error is that of a launch.
using Enqueue = std::function<cudaError_t(const KernelContext&, cudaStream_t)>;

// A kernel of one phase and one tile that enqueues work and returns pending. `workspace` is in
// bytes of the device's memory.
std::unique_ptr<Kernel> make_cuda_kernel(const KernelSetup& setup, Enqueue enqueue,
                                         size_t workspace = 0);

// A Complaint that is the kernel's for its life.
class LentComplaint {
 public:
  static Result<std::shared_ptr<LentComplaint>> make(
      const KernelSetup& setup, std::function<Status(const Complaint&)> describe);
  LentComplaint(CudaDevice& device, Complaint* complaint)
      : device_(device), complaint_(complaint) {}
  LentComplaint(const LentComplaint&) = delete;
  LentComplaint& operator=(const LentComplaint&) = delete;
  ~LentComplaint() { device_.forget(complaint_); }
  Complaint* get() const { return complaint_; }

 private:
  CudaDevice& device_;
  Complaint* complaint_;
};

// A buffer of the device with a copy of these bytes. It returns when the copy is made: for what a
// kernel is made of, not for its steps.
Result<std::shared_ptr<Buffer>> copy_of(const KernelSetup& setup, const void* bytes, size_t size);

// Counts the way that a kernel takes: KernelWays::add() of its device.
void count_way(const KernelSetup& setup, std::string_view subject, std::string_view way);

// unimplemented: "MatMul 'a': no CUDA kernel for int8".
Status no_kernel(const KernelSetup& setup, DType dtype);

}  // namespace leat::cuda
