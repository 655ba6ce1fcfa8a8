// NCCL, NVIDIA's library for values between GPUs of any machines. The plugin is not linked with it:
// load_nccl() finds it at run time, and a machine may lack it. Without nccl.h the plugin is built
// without it.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "devices/base/status.h"

#if __has_include(<nccl.h>)
#define LEAT_HAS_NCCL 1
#include <nccl.h>
#else
#define LEAT_HAS_NCCL 0
#endif

namespace leat::cuda {

// The version of the library that load_nccl() finds, as "2.28.9"; "none" if it finds none.
std::string nccl_version();

#if LEAT_HAS_NCCL

// The functions of NCCL that Leat uses.
struct NcclFunctions {
  ncclResult_t (*get_version)(int*);
  ncclResult_t (*get_unique_id)(ncclUniqueId*);
  ncclResult_t (*init_rank)(ncclComm_t*, int, ncclUniqueId, int, ncclConfig_t*);
  ncclResult_t (*async_error)(ncclComm_t, ncclResult_t*);
  ncclResult_t (*abort)(ncclComm_t);
  ncclResult_t (*send)(const void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t);
  ncclResult_t (*recv)(void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t);
  const char* (*error_string)(ncclResult_t);
  const char* (*last_error)(ncclComm_t);  // null in old versions
};

// unavailable, with the reason, if this machine has no NCCL that does what Leat needs. A build for
// the emulated GPU takes tests/cuda_emulation/fake_nccl.h.
Result<NcclFunctions> load_nccl();

#endif

}  // namespace leat::cuda
