// CPU kernels of ops/definitions/matmul.cc.
#include <algorithm>

#include "devices/base/text.h"
#include "ops/cpu/compute_in_f32.h"
#include "ops/cpu/cpu_kernels.h"
#include "ops/cpu/matmul_bf16.h"
#include "ops/cpu/matmul_kernel.h"
#include "ops/cpu/matmul_packed.h"
#include "ops/cpu/onednn.h"
#include "ops/definitions/product.h"

namespace leat {
namespace {

// One factory for the three ops: `describe` turns the node's types into a Product. For f16 and bf16
// the fastest kernel of this processor is chosen: products of bf16, else packed products. Without
// AVX-512, such operands come back here as float, with a result that the kernel rounds.
template <DescribeProduct describe>
Result<std::unique_ptr<Kernel>> product_kernel(const KernelSetup& setup) {
  auto product = describe(setup.types);
  if (!product.ok()) return invalid_argument(cat(setup.subject, ": ", product.status().message()));
  if (is_16bit_float(setup.input(0).dtype)) {
    if (setup.input(0).dtype == DType::bf16 && onednn::is_fast_in_bf16()) {
      auto kernel = make_bf16_product_kernel(setup, *product);
      if (kernel.ok()) return kernel;
    }
    auto kernel = make_packed_product_kernel(setup, *product);
    if (kernel.ok()) return kernel;
    return compute_in_f32(setup, product_kernel<describe>, {.rounded_outputs = 1});
  }
  return make_product_kernel(setup, std::move(*product));
}

}  // namespace

void add_matmul_kernels(Catalogue& catalogue) {
  catalogue.add_kernel("MatMul", "cpu", product_kernel<describe_matmul>);
  catalogue.add_kernel("leat.MatMul", "cpu", product_kernel<describe_matmul>);
  catalogue.add_kernel("Gemm", "cpu", product_kernel<describe_gemm>);
}

}  // namespace leat
