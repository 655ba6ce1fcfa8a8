// Wires between GPUs of two processes of one machine, by CUDA IPC: the receiving end gives away a
// handle of its memory, by which the GPU of the other process writes into it.
//
// CUDA shares whole blocks of 2 MiB, so that a process which is given a handle of less than that
// may also see memory beside it, of the same process. CUDA opens no handle in the process that made
// it, nor between two GPUs that do not reach each other's memory.
#pragma once

#include <memory>
#include <string_view>

#include "devices/core/device_wire.h"
#include "devices/cuda/cuda_device.h"

namespace leat::cuda {

// Ok if the GPU can share its memory and open that of others, as far as it can tell by itself.
Status has_ipc_wires(CudaDevice& device);
// As CudaDevice makes them.
Result<std::unique_ptr<WireReceiver>> make_ipc_receiver(CudaDevice& device, Buffer& into);
Result<std::unique_ptr<WireSender>> make_ipc_sender(CudaDevice& device, std::string_view offer);

}  // namespace leat::cuda
