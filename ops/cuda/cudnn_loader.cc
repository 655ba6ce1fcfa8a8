// Finds cuDNN on this machine.
#include "ops/cuda/cudnn.h"

namespace leat::cuda {

Result<CudnnFunctions> load_cudnn() {
  // The toolkit's own folder is often missing in the loader's list.
  return load_cudnn_from({"libcudnn.so.9", "/usr/local/cuda/lib64/libcudnn.so.9"});
}

}  // namespace leat::cuda
