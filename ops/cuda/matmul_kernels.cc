// The factories of the products of matrices on CUDA.
#include <optional>

#include "devices/base/text.h"
#include "ops/cuda/cublaslt.h"
#include "ops/cuda/cuda_kernel.h"
#include "ops/cuda/cuda_kernels.h"
#include "ops/cuda/matmul.h"
#include "ops/definitions/product.h"

namespace leat::cuda {
namespace {

// The distance from each item to the next, in elements; nothing if they are not evenly spaced, or
// do not begin with the operand.
std::optional<int64_t> stride_of(const std::vector<int64_t>& offsets) {
  const int64_t stride = offsets.size() > 1 ? offsets[1] : 0;
  for (size_t i = 0; i < offsets.size(); ++i) {
    if (offsets[i] != static_cast<int64_t>(i) * stride) return {};
  }
  return stride;
}

// By cuBLASLt, or null.
std::shared_ptr<LibraryProduct> library_product(const KernelSetup& setup, const Product& product,
                                                const ProductCall& call) {
  const CublasLt* library = CublasLt::of(*setup.device);
  const auto a = stride_of(product.a_offsets), b = stride_of(product.b_offsets);
  if (!library || !a || !b) return nullptr;
  const DType dtype = setup.input(0).dtype;
  return LibraryProduct::make(*library, call,
                              {dtype, dtype, *a, *b, call.m * call.n, call.n, setup.tf32});
}

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
  call.has_c = product->has_c;
  call.alpha = product->alpha;
  call.beta = product->beta;
  call.c_row = product->c_row;
  call.c_column = product->c_column;
  call.items = product->items();
  std::vector<int64_t> offsets = product->a_offsets;
  offsets.insert(offsets.end(), product->b_offsets.begin(), product->b_offsets.end());
  LEAT_ASSIGN_OR_RETURN(auto on_device,
                        copy_of(setup, offsets.data(), offsets.size() * sizeof(int64_t)));
  const std::shared_ptr<LibraryProduct> by_library = library_product(setup, *product, call);
  count_way(setup, "products", by_library ? CublasLt::kName : KernelWays::kOwn);
  return make_cuda_kernel(
      setup,
      [call, on_device, by_library, dtype = setup.input(0).dtype](const KernelContext& context,
                                                                  cudaStream_t stream) {
        ProductCall now = call;
        now.a = context.inputs[0];
        now.b = context.inputs[1];
        now.c = call.has_c ? context.inputs[2] : nullptr;
        now.y = context.outputs[0];
        now.offsets = static_cast<const int64_t*>(on_device->data());
        return by_library && LibraryProduct::takes(now)
                   ? by_library->enqueue(now, context.workspace, stream)
                   : launch_product(now, dtype, stream);
      },
      by_library ? by_library->workspace_bytes() : 0);
}

}  // namespace

void add_matmul_kernels(Catalogue& catalogue) {
  catalogue.add_kernel("MatMul", kKind, make_product<describe_matmul>);
  catalogue.add_kernel("leat.MatMul", kKind, make_product<describe_matmul>);
  catalogue.add_kernel("Gemm", kKind, make_product<describe_gemm>);
}

}  // namespace leat::cuda
