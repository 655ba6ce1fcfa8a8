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

// True if C is a row or a matrix. Of one column, its distance to the next does not count.
bool has_even_c(const ProductCall& call) {
  return call.has_c && (call.c_column == 1 || call.n == 1);
}

// The library's matrices are stored by columns. A matrix by rows is its transposed one to it, so it
// is asked for Y' = op(B)' op(A)': its A is our B.
ProductQuestion question_of(const ProductCall& call, const ProductLayout& layout, bool adds_row) {
  ProductQuestion q;
  q.type = data_type_of(layout.dtype);
  q.type_d = data_type_of(layout.y_dtype);
  q.compute = layout.dtype == DType::f64                  ? CUBLAS_COMPUTE_64F
              : layout.tf32 && layout.dtype == DType::f32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                          : CUBLAS_COMPUTE_32F;
  q.epilogue = static_cast<uint32_t>(
      call.relu ? (adds_row ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU)
                : (adds_row ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT));
  q.trans_a = call.trans_b;
  q.trans_b = call.trans_a;
  q.m = call.n;
  q.n = call.m;
  q.k = call.k;
  q.items = call.items;
  q.lda = call.ldb;
  q.ldb = call.lda;
  q.ldd = layout.ldy;
  if (call.items == 1) return q;
  q.stride_a = layout.b_stride;
  q.stride_b = layout.a_stride;
  q.stride_d = layout.y_stride;
  return q;
}

}  // namespace

Result<std::unique_ptr<CublasLt>> CublasLt::open(CudaDevice& device) {
  LEAT_ASSIGN_OR_RETURN(const CublasLtFunctions functions, load_cublaslt());
  std::unique_ptr<CublasLt> library(new CublasLt(functions));
  if (const cublasStatus_t status = functions.create(&library->handle_); !cublas_ok(status))
    return internal_error(
        cat(device.name(), ": cublasLtCreate: status ", static_cast<int>(status)));
  library->answers_ = ProductAnswers::of_environment(
      cat(kName, " ", library->version()), device.description(), functions.get_algorithm_config);
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
      adds_matrix_(has_even_c(call) && call.c_row == call.n && call.m > 1),
      adds_row_(has_even_c(call) && !adds_matrix_ && call.beta == 1),
      alpha_(call.alpha),
      beta_(adds_matrix_ ? call.beta : 0) {}

LibraryProduct::~LibraryProduct() {
  const CublasLtFunctions& functions = library_.functions();
  for (cublasLtMatrixLayout_t layout : {a_, b_, d_}) {
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
  const ProductQuestion question = question_of(call, layout, product->adds_row_);
  ProductAnswer answer;
  answer.status = product->describe(question);
  if (answer.status == CUBLAS_STATUS_SUCCESS) answer = product->choose();
  if (library.answers()) library.answers()->add(question, answer);
  if (!answer.accepted) return {};
  product->algorithm_ = answer.algorithm;
  product->workspace_bytes_ = answer.workspace;
  return product;
}

// The first status that is an error.
cublasStatus_t LibraryProduct::describe(const ProductQuestion& q) {
  const CublasLtFunctions& f = library_.functions();
  cublasStatus_t status = f.create_desc(&desc_, q.compute, in_double_ ? CUDA_R_64F : CUDA_R_32F);
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, auto value) {
    if (cublas_ok(status)) status = f.set_desc(desc_, attribute, &value, sizeof value);
  };
  const auto operation = [](bool transposed) -> int32_t {
    return transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  };
  set(CUBLASLT_MATMUL_DESC_TRANSA, operation(q.trans_a));
  set(CUBLASLT_MATMUL_DESC_TRANSB, operation(q.trans_b));
  set(CUBLASLT_MATMUL_DESC_EPILOGUE, q.epilogue);
  const auto set_items = [&](cublasLtMatrixLayout_t of, cublasLtMatrixLayoutAttribute_t attribute,
                             auto value) {
    if (cublas_ok(status)) status = f.set_layout(of, attribute, &value, sizeof value);
  };
  const auto matrix = [&](cublasLtMatrixLayout_t& made, cudaDataType_t type, int64_t rows,
                          int64_t columns, int64_t ld, int64_t stride) {
    if (!cublas_ok(status)) return;
    status = f.create_layout(&made, type, static_cast<uint64_t>(rows),
                             static_cast<uint64_t>(columns), ld);
    if (q.items == 1) return;
    set_items(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<int32_t>(q.items));
    set_items(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, stride);
  };
  matrix(a_, q.type, q.trans_a ? q.k : q.m, q.trans_a ? q.m : q.k, q.lda, q.stride_a);
  matrix(b_, q.type, q.trans_b ? q.n : q.k, q.trans_b ? q.k : q.n, q.ldb, q.stride_b);
  matrix(d_, q.type_d, q.m, q.n, q.ldd, q.stride_d);
  return status;
}

ProductAnswer LibraryProduct::choose() {
  const CublasLtFunctions& f = library_.functions();
  ProductAnswer answer{CUBLAS_STATUS_INTERNAL_ERROR};
  cublasLtMatmulPreference_t preference = nullptr;
  if (!cublas_ok(f.create_preference(&preference))) return answer;
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    return cublas_ok(f.set_preference(preference, attribute, &value, sizeof value));
  };
  // Parts of a sum are added up in a fixed order, in the type of the computation, or not made.
  constexpr uint32_t kSchemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  cublasLtMatmulHeuristicResult_t result{};
  if (set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kMostProductWorkspace) &&
      set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, kSchemes) &&
      set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, kProductAlignment) &&
      set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, kProductAlignment) &&
      set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, kProductAlignment) &&
      set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, kProductAlignment)) {
    answer.status = f.get_heuristic(library_.handle(), desc_, a_, b_, d_, d_, preference, 1,
                                    &result, &answer.found);
  }
  (void)f.destroy_preference(preference);
  answer.accepted = answer.status == CUBLAS_STATUS_SUCCESS && answer.found == 1 &&
                    cublas_ok(result.state) && result.workspaceSize <= kMostProductWorkspace;
  answer.workspace = result.workspaceSize;
  answer.algorithm = result.algo;
  return answer;
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
               call.b, a_, call.a, b_, in_double_ ? static_cast<const void*>(&beta_) : &beta,
               adds_matrix_ ? call.c : call.y, d_, call.y, d_, &algorithm_, workspace,
               workspace_bytes_, stream);
  if (cublas_ok(status)) return cudaSuccess;
  const cudaError_t error = cudaPeekAtLastError();
  return error == cudaSuccess ? cudaErrorLaunchFailure : error;
}

}  // namespace leat::cuda
