// Finds NCCL on this machine.
#include "devices/cuda/loaded_library.h"
#include "devices/cuda/nccl.h"

#if LEAT_HAS_NCCL

namespace leat::cuda {

Result<NcclFunctions> load_nccl() {
  LEAT_ASSIGN_OR_RETURN(
      LoadedLibrary library,
      LoadedLibrary::open({"libnccl.so.2", "/usr/local/cuda/lib64/libnccl.so.2"}));
  NcclFunctions found{};
  library.find(found.get_version, "ncclGetVersion");
  library.find(found.get_unique_id, "ncclGetUniqueId");
  library.find(found.init_rank, "ncclCommInitRankConfig");
  library.find(found.async_error, "ncclCommGetAsyncError");
  library.find(found.abort, "ncclCommAbort");
  library.find(found.send, "ncclSend");
  library.find(found.recv, "ncclRecv");
  library.find(found.error_string, "ncclGetErrorString");
  LEAT_RETURN_IF_ERROR(library.status());
  library.find(found.last_error, "ncclGetLastError");
  return found;
}

}  // namespace leat::cuda

#endif
