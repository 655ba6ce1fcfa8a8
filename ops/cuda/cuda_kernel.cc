#include "ops/cuda/cuda_kernel.h"

#include <chrono>
#include <cstring>

#include "devices/base/text.h"
#include "devices/cuda/cuda_status.h"

namespace leat::cuda {
namespace {

constexpr auto kCopyDeadline = std::chrono::seconds(60);

class EnqueuingKernel final : public Kernel {
 public:
  EnqueuingKernel(const KernelSetup& setup, Enqueue enqueue, size_t workspace)
      : enqueue_(std::move(enqueue)),
        workspace_(workspace),
        device_(*static_cast<CudaDevice*>(setup.device)),
        subject_(cat(device_.name(), ": to enqueue ", setup.subject)) {}
  // All that changes from step to step is in memory that the device reads.
  bool repeats() const override { return true; }
  size_t workspace_bytes() const override { return workspace_; }
  Progress run(KernelContext& context, int, int) override {
    const cudaError_t error = enqueue_(context, device_.stream());
    if (error == cudaSuccess) return Progress::pending;
    const Status status = cuda_status(error, subject_);
    // No memory now may be memory later; every other error stays.
    if (status.code() != Code::resource_exhausted) device_.fail(status);
    context.step->fail(context.instruction, status);
    return Progress::failed;
  }

 private:
  const Enqueue enqueue_;
  const size_t workspace_;
  CudaDevice& device_;
  const std::string subject_;
};

}  // namespace

std::unique_ptr<Kernel> make_cuda_kernel(const KernelSetup& setup, Enqueue enqueue,
                                         size_t workspace) {
  return std::make_unique<EnqueuingKernel>(setup, std::move(enqueue), workspace);
}

Result<std::shared_ptr<LentComplaint>> LentComplaint::make(
    const KernelSetup& setup, std::function<Status(const Complaint&)> describe) {
  auto& device = *static_cast<CudaDevice*>(setup.device);
  LEAT_ASSIGN_OR_RETURN(Complaint * complaint, device.lend_complaint(std::move(describe)));
  return std::make_shared<LentComplaint>(device, complaint);
}

Result<std::shared_ptr<Buffer>> copy_of(const KernelSetup& setup, const void* bytes, size_t size) {
  Device& device = *setup.device;
  LEAT_ASSIGN_OR_RETURN(std::unique_ptr<Buffer> staging, device.allocate_host(size));
  LEAT_ASSIGN_OR_RETURN(std::shared_ptr<Buffer> copy, device.allocate(size));
  if (size > 0) std::memcpy(staging->data(), bytes, size);
  device.copy_to_device(copy->data(), staging->data(), size);
  LEAT_RETURN_IF_ERROR(
      device.queue(QueueFor::copies_in).settle(std::chrono::steady_clock::now() + kCopyDeadline));
  return copy;
}

void count_way(const KernelSetup& setup, std::string_view subject, std::string_view way) {
  setup.device->ways()->add(subject, way);
}

Status no_kernel(const KernelSetup& setup, DType dtype) {
  return unimplemented(cat(setup.subject, ": no CUDA kernel for ", dtype));
}

}  // namespace leat::cuda
