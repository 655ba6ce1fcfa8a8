// Wires between GPUs of two processes by NCCL, which chooses the way: memory of the peer, that of
// the host, or a network. A wire is a communicator of two ranks, of which the receiving end is
// rank 0. Its values travel in the order in which both ends were given them.
//
// A transfer that waits for the other end occupies a part of the GPU, and calls of CUDA that wait
// for the whole GPU, such as cudaFree(), wait for it, too. The limit on a value's time ends that.
//
// NCCL refuses two ranks on one GPU. Its ends find each other over the network: their sockets ask
// for no password, so that the network must keep strangers away.
#pragma once

#include <chrono>
#include <memory>
#include <string_view>

#include "devices/core/device_wire.h"
#include "devices/cuda/cuda_device.h"
#include "devices/cuda/wire_end.h"

namespace leat::cuda {

// Ok if NCCL was found.
Status has_nccl_wires(CudaDevice& device);
// As CudaDevice makes them. A value that is not done after `stall` fails its wire.
Result<std::unique_ptr<WireReceiver>> make_nccl_receiver(
    CudaDevice& device, Buffer& into, std::chrono::milliseconds stall = kWireStall);
Result<std::unique_ptr<WireSender>> make_nccl_sender(CudaDevice& device, std::string_view offer,
                                                     std::chrono::milliseconds stall = kWireStall);

}  // namespace leat::cuda
