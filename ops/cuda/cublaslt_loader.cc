// Finds cuBLASLt on this machine.
#include "devices/cuda/loaded_library.h"
#include "ops/cuda/cublaslt.h"

namespace leat::cuda {

Result<CublasLtFunctions> load_cublaslt() {
  // The toolkit's own folder is often missing in the loader's list.
  LEAT_ASSIGN_OR_RETURN(
      LoadedLibrary library,
      LoadedLibrary::open({"libcublasLt.so.13", "/usr/local/cuda/lib64/libcublasLt.so.13"}));
  CublasLtFunctions found{};
  library.find(found.get_version, "cublasLtGetVersion");
  library.find(found.create, "cublasLtCreate");
  library.find(found.destroy, "cublasLtDestroy");
  library.find(found.matmul, "cublasLtMatmul");
  library.find(found.get_heuristic, "cublasLtMatmulAlgoGetHeuristic");
  library.find(found.create_desc, "cublasLtMatmulDescCreate");
  library.find(found.destroy_desc, "cublasLtMatmulDescDestroy");
  library.find(found.set_desc, "cublasLtMatmulDescSetAttribute");
  library.find(found.create_layout, "cublasLtMatrixLayoutCreate");
  library.find(found.destroy_layout, "cublasLtMatrixLayoutDestroy");
  library.find(found.set_layout, "cublasLtMatrixLayoutSetAttribute");
  library.find(found.create_preference, "cublasLtMatmulPreferenceCreate");
  library.find(found.destroy_preference, "cublasLtMatmulPreferenceDestroy");
  library.find(found.set_preference, "cublasLtMatmulPreferenceSetAttribute");
  library.find(found.get_algorithm_config, "cublasLtMatmulAlgoConfigGetAttribute");
  LEAT_RETURN_IF_ERROR(library.status());
  return found;
}

}  // namespace leat::cuda
