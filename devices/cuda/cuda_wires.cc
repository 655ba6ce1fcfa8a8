// The wires of a GPU, by kind.
#include "devices/base/text.h"
#include "devices/core/device_wire.h"
#include "devices/cuda/cuda_device.h"
#include "devices/cuda/ipc_wire.h"
#include "devices/cuda/nccl_wire.h"
#include "devices/cuda/plain_ways.h"

namespace leat::cuda {

Status CudaDevice::has_wires(WireKind kind) {
  if (goes_plain_way(name_of(kind)))
    return unavailable(cat(name_, ": LEAT_GPU_PLAIN turns wires of kind ", name_of(kind), " off"));
  return kind == WireKind::ipc ? has_ipc_wires(*this) : has_nccl_wires(*this);
}

Result<std::unique_ptr<WireReceiver>> CudaDevice::make_wire_receiver(WireKind kind, Buffer& into) {
  LEAT_RETURN_IF_ERROR(has_wires(kind));
  return kind == WireKind::ipc ? make_ipc_receiver(*this, into) : make_nccl_receiver(*this, into);
}

Result<std::unique_ptr<WireSender>> CudaDevice::make_wire_sender(WireKind kind,
                                                                 std::string_view offer) {
  LEAT_RETURN_IF_ERROR(has_wires(kind));
  return kind == WireKind::ipc ? make_ipc_sender(*this, offer) : make_nccl_sender(*this, offer);
}

}  // namespace leat::cuda
