#include "devices/cuda/ipc_wire.h"

#include <cstring>
#include <string>
#include <utility>

#include "devices/base/text.h"
#include "devices/cuda/cuda_status.h"
#include "devices/cuda/wire_end.h"
#include "devices/cuda/wire_offer.h"

namespace leat::cuda {
namespace {

//  0        4         8            16
//  +--------+---------+------------+--------------------------------------------+
//  | "LtIp" | version | bytes      | cudaIpcMemHandle_t, 64 bytes               |
//  +--------+---------+------------+--------------------------------------------+
// Both processes are of one machine, so that the number is in its order of bytes.
struct IpcOffer {
  OfferHead head;
  uint64_t bytes;
  cudaIpcMemHandle_t handle;
};
constexpr OfferHead kIpcHead{{'L', 't', 'I', 'p'}, {1, 0, 0, 0}};
static_assert(sizeof(IpcOffer) == 80 && sizeof(IpcOffer) <= kMostOfferBytes);

std::string ipc_subject(CudaDevice& device, std::string_view end) {
  return cat(device.name(), ": the ", end, " end of a wire by CUDA IPC");
}

// A call that CUDA refuses leaves the device as it was. An error that stays is the device's.
Status ipc_refusal(CudaDevice& device, cudaError_t error, std::string_view subject,
                   std::string_view call) {
  (void)cudaGetLastError();
  if (const cudaError_t stays = cudaGetLastError(); stays != cudaSuccess) {
    const Status lost = cuda_status(stays, cat(subject, ": ", call));
    device.fail(lost);
    return lost;
  }
  return unavailable(
      cat(subject, ": ", call, ": ", cudaGetErrorName(error), ": ", cudaGetErrorString(error)));
}

class IpcReceiver final : public WireReceiver {
 public:
  IpcReceiver(std::string subject, std::string offer, size_t bytes)
      : subject_(std::move(subject)), offer_(std::move(offer)), bytes_(bytes) {}

  // The other end needs no more than the offer.
  Status connect(std::chrono::steady_clock::time_point) override { return done_.status(); }
  Timeline& done() override { return done_; }
  void stop(const Status& cause) override { done_.fail(cause); }
  const std::string& offer() const override { return offer_; }
  // The value was there before the link has told so.
  void receive(size_t offset, size_t bytes) override {
    if (const Status within = check_within({nullptr, offset, bytes}, bytes_, subject_);
        !within.ok())
      return stop(within);
    if (!done_.failed()) done_.signal(done_.value() + 1);
  }

 private:
  const std::string subject_, offer_;
  const size_t bytes_;
  Timeline done_;
};

// Memory of another process, as long as it is open here.
class PeerMemory final : public WireCarrier {
 public:
  PeerMemory(CudaDevice& device, std::string subject, void* data, size_t bytes)
      : device_(device), subject_(std::move(subject)), data_(data), bytes_(bytes) {}
  ~PeerMemory() override { (void)cudaIpcCloseMemHandle(data_); }

  Status issue(const WireValue& value, cudaStream_t stream) override {
    LEAT_RETURN_IF_ERROR(check_within(value, bytes_, subject_));
    const cudaError_t error = cudaMemcpyAsync(static_cast<std::byte*>(data_) + value.offset,
                                              value.from, value.bytes, cudaMemcpyDefault, stream);
    if (error == cudaSuccess) return {};
    const Status status =
        cuda_status(error, cat(subject_, ": cudaMemcpyAsync of ", value.bytes, " bytes"));
    device_.fail(status);
    return status;
  }

 private:
  CudaDevice& device_;
  const std::string subject_;
  void* const data_;
  const size_t bytes_;
};

}  // namespace

Status has_ipc_wires(CudaDevice& device) {
  for (const auto& [attribute, what] :
       {std::pair(cudaDevAttrUnifiedAddressing, "unified addresses"),
        std::pair(cudaDevAttrIpcEventSupport, "IPC")}) {
    int value = 0;
    const cudaError_t error = cudaDeviceGetAttribute(&value, attribute, 0);
    if (error != cudaSuccess)
      return ipc_refusal(device, error, device.name(), "cudaDeviceGetAttribute");
    if (value == 0)
      return unavailable(
          cat(device.name(), ": expected a GPU with ", what, " for wires, received one without"));
  }
  return {};
}

Result<std::unique_ptr<WireReceiver>> make_ipc_receiver(CudaDevice& device, Buffer& into) {
  std::string subject = ipc_subject(device, "receiving");
  IpcOffer offer{kIpcHead, into.size(), {}};
  if (const cudaError_t error = cudaIpcGetMemHandle(&offer.handle, into.data()))
    return ipc_refusal(device, error, subject, "cudaIpcGetMemHandle");
  std::string text(reinterpret_cast<const char*>(&offer), sizeof offer);
  return std::unique_ptr<WireReceiver>(
      std::make_unique<IpcReceiver>(std::move(subject), std::move(text), into.size()));
}

Result<std::unique_ptr<WireSender>> make_ipc_sender(CudaDevice& device, std::string_view text) {
  const std::string subject = ipc_subject(device, "sending");
  LEAT_RETURN_IF_ERROR(check_offer(text, sizeof(IpcOffer), kIpcHead, "by CUDA IPC", subject));
  IpcOffer offer{};
  std::memcpy(&offer, text.data(), sizeof offer);
  void* data = nullptr;
  if (const cudaError_t error =
          cudaIpcOpenMemHandle(&data, offer.handle, cudaIpcMemLazyEnablePeerAccess))
    return ipc_refusal(device, error,
                       cat(subject, ": expected memory of another process that this GPU reaches"),
                       "cudaIpcOpenMemHandle");
  auto memory = std::make_unique<PeerMemory>(device, subject, data, offer.bytes);
  LEAT_ASSIGN_OR_RETURN(auto end, WireEnd::start(device, subject, std::move(memory)));
  return make_sender(std::move(end));
}

}  // namespace leat::cuda
