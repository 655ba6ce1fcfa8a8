#include "ops/cuda/cublaslt.h"

#include <cstdint>

#include "devices/base/text.h"

namespace leat::cuda {
namespace {

constexpr uint64_t kMostProductWorkspace = uint64_t{32} << 20;
constexpr uint32_t kProductAlignment = 16;  // of operands, in bytes

bool cublas_ok(cublasStatus_t status) { return status == CUBLAS_STATUS_SUCCESS; }

// cudaDataType_t(-1) for dtypes that the library does not have.
cudaDataType_t data_type_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return CUDA_R_32F;
    case DType::f16:
      return CUDA_R_16F;
    case DType::bf16:
      return CUDA_R_16BF;
    case DType::f64:
      return CUDA_R_64F;
    default:
      return static_cast<cudaDataType_t>(-1);
  }
}

}  // namespace

Result<std::unique_ptr<CublasLt>> CublasLt::open(CudaDevice& device) {
  LEAT_ASSIGN_OR_RETURN(const CublasLtFunctions functions, load_cublaslt());
  std::unique_ptr<CublasLt> library(new CublasLt(functions));
  if (const cublasStatus_t status = functions.create(&library->handle_); !cublas_ok(status))
    return internal_error(
        cat(device.name(), ": cublasLtCreate: status ", static_cast<int>(status)));
  return library;
}

const CublasLt* CublasLt::of(const Device& device) {
  return static_cast<const CublasLt*>(static_cast<const CudaDevice&>(device).library(kName));
}

CublasLt::~CublasLt() {
  if (handle_) (void)functions_.destroy(handle_);
}

// The library writes 13.1.0 as 130100.
std::string CublasLt::version() const {
  const size_t number = functions_.get_version();
  return cat(number / 10000, ".", number / 100 % 100, ".", number % 100);
}

LibraryProduct::LibraryProduct(const CublasLt& library, const ProductCall& call, DType dtype)
    : library_(library),
      in_double_(dtype == DType::f64),
      adds_matrix_(call.has_c && call.c_column == 1 && call.c_row == call.n && call.m > 1),
      adds_row_(call.has_c && call.c_column == 1 && !adds_matrix_ && call.beta == 1),
      alpha_(call.alpha),
      beta_(adds_matrix_ ? call.beta : 0) {}

LibraryProduct::~LibraryProduct() {
  const CublasLtFunctions& functions = library_.functions();
  for (cublasLtMatrixLayout_t layout : {a_, b_, y_}) {
    if (layout) (void)functions.destroy_layout(layout);
  }
  if (desc_) (void)functions.destroy_desc(desc_);
}

std::shared_ptr<LibraryProduct> LibraryProduct::make(const CublasLt& library,
                                                     const ProductCall& call,
                                                     const ProductLayout& layout) {
  if (!is_float(layout.dtype) || !is_float(layout.y_dtype)) return {};
  if (call.m < 1 || call.n < 1 || call.k < 1 || call.items < 1 || call.items > INT32_MAX) return {};
  std::shared_ptr<LibraryProduct> product(new LibraryProduct(library, call, layout.dtype));
  if (call.has_c && !product->adds_matrix_ && !product->adds_row_) return {};
  // Items share a C, which the library would look for at a distance.
  if (product->adds_matrix_ && call.items > 1) return {};
  if (!product->describe(call, layout) || !product->choose()) return {};
  return product;
}

// The library's matrices are stored by columns. A matrix by rows is its transposed one to it, so it
// is asked for Y' = op(B)' op(A)'.
bool LibraryProduct::describe(const ProductCall& call, const ProductLayout& layout) {
  const CublasLtFunctions& f = library_.functions();
  const cublasComputeType_t compute = in_double_ ? CUBLAS_COMPUTE_64F
                                      : layout.tf32 && layout.dtype == DType::f32
                                          ? CUBLAS_COMPUTE_32F_FAST_TF32
                                          : CUBLAS_COMPUTE_32F;
  if (!cublas_ok(f.create_desc(&desc_, compute, in_double_ ? CUDA_R_64F : CUDA_R_32F)))
    return false;
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, auto value) {
    return cublas_ok(f.set_desc(desc_, attribute, &value, sizeof value));
  };
  const auto operation = [](bool transposed) -> int32_t {
    return transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  };
  const auto epilogue = static_cast<uint32_t>(
      call.relu ? (adds_row_ ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU)
                : (adds_row_ ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT));
  if (!set(CUBLASLT_MATMUL_DESC_TRANSA, operation(call.trans_b)) ||
      !set(CUBLASLT_MATMUL_DESC_TRANSB, operation(call.trans_a)) ||
      !set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue))
    return false;
  const auto matrix = [&](cublasLtMatrixLayout_t& made, DType dtype, int64_t rows, int64_t columns,
                          int64_t ld, int64_t stride) {
    if (!cublas_ok(f.create_layout(&made, data_type_of(dtype), static_cast<uint64_t>(rows),
                                   static_cast<uint64_t>(columns), ld)))
      return false;
    if (call.items == 1) return true;
    const auto items = static_cast<int32_t>(call.items);
    return cublas_ok(
               f.set_layout(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &items, sizeof items)) &&
           cublas_ok(f.set_layout(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride,
                                  sizeof stride));
  };
  return matrix(b_, layout.dtype, call.trans_b ? call.k : call.n, call.trans_b ? call.n : call.k,
                call.ldb, layout.b_stride) &&
         matrix(a_, layout.dtype, call.trans_a ? call.m : call.k, call.trans_a ? call.k : call.m,
                call.lda, layout.a_stride) &&
         matrix(y_, layout.y_dtype, call.n, call.m, layout.ldy, layout.y_stride);
}

bool LibraryProduct::choose() {
  const CublasLtFunctions& f = library_.functions();
  cublasLtMatmulPreference_t preference = nullptr;
  if (!cublas_ok(f.create_preference(&preference))) return false;
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    return cublas_ok(f.set_preference(preference, attribute, &value, sizeof value));
  };
  // Parts of a sum are added up in a fixed order, in the type of the computation, or not made.
  constexpr uint32_t kSchemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  cublasLtMatmulHeuristicResult_t result{};
  int found = 0;
  const bool chosen = set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kMostProductWorkspace) &&
                      set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, kSchemes) &&
                      set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, kProductAlignment) &&
                      set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, kProductAlignment) &&
                      set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, kProductAlignment) &&
                      set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, kProductAlignment) &&
                      cublas_ok(f.get_heuristic(library_.handle(), desc_, b_, a_, y_, y_,
                                                preference, 1, &result, &found)) &&
                      found == 1 && cublas_ok(result.state) &&
                      result.workspaceSize <= kMostProductWorkspace;
  (void)f.destroy_preference(preference);
  algorithm_ = result.algo;
  workspace_bytes_ = result.workspaceSize;
  return chosen;
}

bool LibraryProduct::takes(const void* operand) {
  return reinterpret_cast<uintptr_t>(operand) % kProductAlignment == 0;
}

bool LibraryProduct::takes(const ProductCall& call) {
  return takes(call.a) && takes(call.b) && takes(call.y) && takes(call.c);
}

cudaError_t LibraryProduct::enqueue(const ProductCall& call, void* workspace,
                                    cudaStream_t stream) const {
  const CublasLtFunctions& f = library_.functions();
  if (adds_row_ &&
      !cublas_ok(f.set_desc(desc_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &call.c, sizeof call.c)))
    return cudaErrorInvalidValue;
  const float alpha = static_cast<float>(alpha_), beta = static_cast<float>(beta_);
  const cublasStatus_t status =
      f.matmul(library_.handle(), desc_, in_double_ ? static_cast<const void*>(&alpha_) : &alpha,
               call.b, b_, call.a, a_, in_double_ ? static_cast<const void*>(&beta_) : &beta,
               adds_matrix_ ? call.c : call.y, y_, call.y, y_, &algorithm_, workspace,
               workspace_bytes_, stream);
  if (cublas_ok(status)) return cudaSuccess;
  const cudaError_t error = cudaPeekAtLastError();
  return error == cudaSuccess ? cudaErrorLaunchFailure : error;
}

}  // namespace leat::cuda
