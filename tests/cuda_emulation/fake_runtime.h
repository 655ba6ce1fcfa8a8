// A CUDA runtime that needs no GPU, in place of libcudart: one GPU, which is a thread that runs
// kernels with emulator.h. It knows what Leat calls, and no more.
//
// It is as unkind as CUDA allows. The thread takes, by a seeded choice, the next operation of any
// stream that may go on, so that work which does not wait for what it needs gives wrong numbers for
// some seed. Memory of the device ends at a page that no thread may touch, holds NaNs at first, and
// cannot be touched by the host. An error stays.
//
// It behaves as its author believes that CUDA does. Only a GPU can tell whether that is so.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>

#include "devices/base/clock.h"

namespace fake_cuda {

// Forgets errors, limits and counts, and draws schedules from `seed` on. REQUIRES: no stream and no
// memory of the device is in use.
void reset(uint64_t seed = 0);
// The memory of the device: 1 GiB unless it is set.
void limit_memory(size_t bytes);
// No GPU is found from now on, as without a driver.
void hide_device();
// The launch number `nth` from now, counted from 1, fails when its turn comes.
void fail_launch(uint64_t nth, cudaError_t error);
// The call number `nth` from now, counted from 1, of this function of CUDA does nothing and returns
// the error. The device stays as it is.
void fail_call(const char* function, uint64_t nth, cudaError_t error);
// The launch number `nth` from now, counted from 1, finds that the device has left its bus: it is
// not done, nor is what was enqueued behind it, and every call returns cudaErrorDevicesUnavailable
// until the next reset().
void lose_device(uint64_t nth);
// The same at the call number `nth` from now of this function of CUDA.
void lose_device_at(const char* function, uint64_t nth);
// The version of CUDA that the driver supports, as 12040 for 12.4: that of the headers unless it is
// set.
void set_driver(int version);
// The compute capability, 10 times the major number plus the minor one: 90 unless it is set.
void set_capability(int capability);
// The clock that events read, until the next reset(); it outlives that. The system's unless it is
// set.
void set_clock(const leat::Clock& clock);
// The capture number `nth` from now, counted from 1, is refused.
void refuse_capture(uint64_t nth);
// The device does not share its memory with other processes from now on, or does so again.
void share_memory(bool shares);

// Limits and faults for a plugin in another process, from its environment; see
// fake_environment.cc. Called when a process takes the device.
void take_faults_of_environment();

// Enqueues work that reads and writes the device's memory, as the libraries of the fake do.
cudaError_t enqueue(cudaStream_t stream, std::function<cudaError_t()> work);
// The same for work that waits for something else than work of this device: the stream goes on once
// `ready` is true, and the other streams meanwhile. `ready` is asked when the work is the next of
// its stream and again after look_again(), under a lock: it calls nothing of CUDA.
cudaError_t enqueue_when(cudaStream_t stream, std::function<bool()> ready,
                         std::function<cudaError_t()> work);
void look_again();

struct Counts {
  uint64_t launches = 0;  // of kernels, those within graphs too
  uint64_t graph_launches = 0;
  // Copies between the device and memory of the host that is not pinned: CUDA makes them slowly,
  // and holds up the caller.
  uint64_t unpinned_copies = 0;
  uint64_t allocations = 0;  // of device memory
  size_t bytes_in_use = 0;
};
Counts counts();

}  // namespace fake_cuda
