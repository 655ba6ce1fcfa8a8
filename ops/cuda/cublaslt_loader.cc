// Finds cuBLASLt on this machine.
#include <dlfcn.h>

#include <string>

#include "devices/base/text.h"
#include "ops/cuda/cublaslt.h"

namespace leat::cuda {

Result<CublasLtFunctions> load_cublaslt() {
  // The toolkit's own folder is often missing in the loader's list. The library is never unloaded.
  void* library = nullptr;
  std::string error;
  for (const char* path : {"libcublasLt.so.13", "/usr/local/cuda/lib64/libcublasLt.so.13"}) {
    library = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library) break;
    const char* why = ::dlerror();
    if (error.empty() && why) error = why;
  }
  if (!library) return unavailable(error);
  CublasLtFunctions found{};
  std::string missing;
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(::dlsym(library, name));
    if (!function && missing.empty()) missing = name;
  };
  find(found.get_version, "cublasLtGetVersion");
  find(found.create, "cublasLtCreate");
  find(found.destroy, "cublasLtDestroy");
  find(found.matmul, "cublasLtMatmul");
  find(found.get_heuristic, "cublasLtMatmulAlgoGetHeuristic");
  find(found.create_desc, "cublasLtMatmulDescCreate");
  find(found.destroy_desc, "cublasLtMatmulDescDestroy");
  find(found.set_desc, "cublasLtMatmulDescSetAttribute");
  find(found.create_layout, "cublasLtMatrixLayoutCreate");
  find(found.destroy_layout, "cublasLtMatrixLayoutDestroy");
  find(found.set_layout, "cublasLtMatrixLayoutSetAttribute");
  find(found.create_preference, "cublasLtMatmulPreferenceCreate");
  find(found.destroy_preference, "cublasLtMatmulPreferenceDestroy");
  find(found.set_preference, "cublasLtMatmulPreferenceSetAttribute");
  if (!missing.empty())
    return unavailable(cat("libcublasLt.so.13: expected the function ", missing));
  return found;
}

}  // namespace leat::cuda
