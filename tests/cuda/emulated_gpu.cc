#include "ops/catalogue.h"
#include "ops/cuda/cuda_kernels.h"
#include "tests/cuda/gpu_under_test.h"
#include "tests/cuda_emulation/emulator.h"
#include "tests/cuda_emulation/fake_runtime.h"

namespace leat::testing {

bool gpu_is_emulated() { return true; }

const Catalogue& gpu_catalogue() {
  static const Catalogue catalogue = [] {
    Catalogue all = standard_catalogue();
    cuda::add_cuda_kernels(all);
    return all;
  }();
  return catalogue;
}

Result<std::unique_ptr<Device>> open_gpu() { return cuda::open_cuda_device(0); }

void prepare_gpu(uint64_t seed, bool reverse) {
  fake_cuda::reset(seed);
  emulator::set_reverse(reverse);
}

}  // namespace leat::testing
