#include "devices/core/device.h"

#include "devices/base/text.h"
#include "devices/core/device_wire.h"

namespace leat {

Status Device::has_wires(WireKind kind) {
  return unavailable(cat(name(), ": expected a device with wires of kind ", name_of(kind),
                         ", received one of kind ", this->kind(), " without"));
}

Result<std::unique_ptr<WireReceiver>> Device::make_wire_receiver(WireKind kind, Buffer&) {
  return has_wires(kind);
}

Result<std::unique_ptr<WireSender>> Device::make_wire_sender(WireKind kind, std::string_view) {
  return has_wires(kind);
}

}  // namespace leat
