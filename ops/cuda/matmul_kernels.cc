// The factories of the products of matrices on CUDA.
#include "devices/base/text.h"
#include "ops/cuda/cuda_kernel.h"
#include "ops/cuda/cuda_kernels.h"
#include "ops/cuda/matmul.h"
#include "ops/definitions/product.h"

namespace leat::cuda {
namespace {

template <DescribeProduct describe>
Result<std::unique_ptr<Kernel>> make_product(const KernelSetup& setup) {
  auto product = describe(setup.types);
  if (!product.ok()) return invalid_argument(cat(setup.subject, ": ", product.status().message()));
  ProductCall call;
  call.m = product->m;
  call.n = product->n;
  call.k = product->k;
  call.lda = product->lda;
  call.ldb = product->ldb;
  call.trans_a = product->trans_a;
  call.trans_b = product->trans_b;
  call.relu = product->relu;
  call.alpha = product->alpha;
  call.beta = product->beta;
  call.c_row = product->c_row;
  call.c_column = product->c_column;
  call.items = product->items();
  std::vector<int64_t> offsets = product->a_offsets;
  offsets.insert(offsets.end(), product->b_offsets.begin(), product->b_offsets.end());
  LEAT_ASSIGN_OR_RETURN(auto on_device,
                        copy_of(setup, offsets.data(), offsets.size() * sizeof(int64_t)));
  return make_cuda_kernel(setup,
                          [call, on_device, has_c = product->has_c, dtype = setup.input(0).dtype](
                              const KernelContext& context, cudaStream_t stream) {
                            ProductCall now = call;
                            now.a = context.inputs[0];
                            now.b = context.inputs[1];
                            now.c = has_c ? context.inputs[2] : nullptr;
                            now.y = context.outputs[0];
                            now.offsets = static_cast<const int64_t*>(on_device->data());
                            return launch_product(now, dtype, stream);
                          });
}

}  // namespace

void add_matmul_kernels(Catalogue& catalogue) {
  catalogue.add_kernel("MatMul", kKind, make_product<describe_matmul>);
  catalogue.add_kernel("leat.MatMul", kKind, make_product<describe_matmul>);
  catalogue.add_kernel("Gemm", kKind, make_product<describe_gemm>);
}

}  // namespace leat::cuda
