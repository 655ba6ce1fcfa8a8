// The other process of tests/cuda/cuda_wires_test.cc, with an emulated GPU of its own.
//
//   wire_peer KIND SEED_OUT SEED_IN COUNT [FAULT NTH]
//
// Descriptor 3 is a socket: see Talk. The process makes wires in both directions and exchanges
// COUNT values. Then it waits until the test says something, and ends. FAULT is one of
// fake_nccl::plant().
#include <cstdlib>
#include <iostream>
#include <string>

#include "devices/cuda/cuda_device.h"
#include "tests/cuda/wire_traffic.h"
#include "tests/cuda_emulation/fake_nccl.h"
#include "tests/cuda_emulation/fake_runtime.h"

using namespace leat;

static Status run(int count, char** arguments) {
  const auto number = [&](int i) { return std::strtoull(arguments[i], nullptr, 10); };
  const WireKind kind = arguments[1] == name_of(WireKind::ipc) ? WireKind::ipc : WireKind::nccl;
  fake_cuda::reset(number(2));
  fake_nccl::reset(number(2));
  if (count > 6) fake_nccl::plant(arguments[5], number(6));
  testing::Talk talk(3);
  LEAT_ASSIGN_OR_RETURN(auto device, cuda::CudaDevice::open(0));
  LEAT_ASSIGN_OR_RETURN(auto wires, testing::make_wires(*device, kind, talk, false));
  LEAT_RETURN_IF_ERROR(
      testing::exchange_values(*device, wires, talk, {kind, number(2), number(3), number(4)}));
  return talk.hear().status();
}

int main(int count, char** arguments) {
  if (count < 5) return 2;
  const Status status = run(count, arguments);
  if (!status.ok()) std::cerr << status << "\n";
  return status.ok() ? 0 : 1;
}
