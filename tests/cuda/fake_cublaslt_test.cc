// The fake of cuBLASLt: products by hand, and what it refuses rather than ignores.
#include <cublasLt.h>
#include <cuda_fp16.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <vector>

#include "devices/cuda/cuda_device.h"
#include "ops/cuda/cublaslt.h"
#include "tests/catch.h"
#include "tests/cuda_emulation/fake_runtime.h"
#include "tests/must.h"

namespace leat {
namespace {

using cuda::CublasLtFunctions;
using cuda::CudaDevice;

constexpr auto kProductDeadline = std::chrono::seconds(60);
constexpr size_t kRoom = 64;         // elements of each operand
constexpr size_t kWorkspace = 4096;  // bytes

// One product of small matrices by columns: A of m by k, B of k by n, D and C of m by n.
class TryProduct {
 public:
  explicit TryProduct(cudaDataType_t type = CUDA_R_32F, cudaDataType_t of_result = CUDA_R_32F,
                      cublasComputeType_t compute = CUBLAS_COMPUTE_32F,
                      cudaDataType_t scale = CUDA_R_32F)
      : lt_(must(cuda::load_cublaslt())), type_(type), of_result_(of_result) {
    fake_cuda::reset();
    device_ = must(CudaDevice::open(0));
    for (auto* buffer : {&a_, &b_, &c_, &d_, &bias_})
      *buffer = must(device_->allocate(kRoom * sizeof(double)));
    workspace_ = must(device_->allocate(kWorkspace));
    host_ = must(device_->allocate_host(kRoom * sizeof(double)));
    REQUIRE(lt_.create_desc(&desc_, compute, scale) == CUBLAS_STATUS_SUCCESS);
    REQUIRE(lt_.create_preference(&preference_) == CUBLAS_STATUS_SUCCESS);
    prefer<uint32_t>(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                     CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
  }
  TryProduct(const TryProduct&) = delete;
  TryProduct& operator=(const TryProduct&) = delete;
  ~TryProduct() {
    for (cublasLtMatrixLayout_t layout : {layout_a_, layout_b_, layout_d_}) {
      if (layout) (void)lt_.destroy_layout(layout);
    }
    (void)lt_.destroy_preference(preference_);
    (void)lt_.destroy_desc(desc_);
  }

  template <typename T>
  cublasStatus_t set(cublasLtMatmulDescAttributes_t attribute, T value) {
    return lt_.set_desc(desc_, attribute, &value, sizeof value);
  }
  template <typename T>
  cublasStatus_t prefer(cublasLtMatmulPreferenceAttributes_t attribute, T value) {
    return lt_.set_preference(preference_, attribute, &value, sizeof value);
  }
  template <typename T>
  cublasStatus_t set_layout(cublasLtMatrixLayoutAttribute_t attribute, T value) {
    for (cublasLtMatrixLayout_t layout : {layout_a_, layout_b_, layout_d_}) {
      if (const auto status = lt_.set_layout(layout, attribute, &value, sizeof value);
          status != CUBLAS_STATUS_SUCCESS)
        return status;
    }
    return CUBLAS_STATUS_SUCCESS;
  }
  // The sizes of the matrices as they are stored; `ld` is the distance of columns of A.
  void shapes(uint64_t a_rows, uint64_t a_columns, uint64_t b_rows, uint64_t b_columns,
              uint64_t d_rows, uint64_t d_columns, int64_t ld = 0) {
    make(layout_a_, type_, a_rows, a_columns, ld == 0 ? static_cast<int64_t>(a_rows) : ld);
    make(layout_b_, type_, b_rows, b_columns, static_cast<int64_t>(b_rows));
    make(layout_d_, of_result_, d_rows, d_columns, static_cast<int64_t>(d_rows));
  }
  template <typename T>
  void give(const std::unique_ptr<Buffer>& to, const std::vector<T>& values) {
    std::memcpy(host_->data(), values.data(), values.size() * sizeof(T));
    device_->copy_to_device(to->data(), host_->data(), values.size() * sizeof(T));
    settle(QueueFor::copies_in);
  }
  template <typename T>
  void give_a(const std::vector<T>& values) {
    give(a_, values);
  }
  template <typename T>
  void give_b(const std::vector<T>& values) {
    give(b_, values);
  }
  void give_c(const std::vector<float>& values) { give(c_, values); }
  void give_bias(const std::vector<float>& values) {
    give(bias_, values);
    REQUIRE(set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias_->data()) == CUBLAS_STATUS_SUCCESS);
  }
  cublasStatus_t choose() {
    int found = 0;
    const cublasStatus_t status = lt_.get_heuristic(nullptr, desc_, layout_a_, layout_b_, layout_d_,
                                                    layout_d_, preference_, 1, &result_, &found);
    CHECK(found == (status == CUBLAS_STATUS_SUCCESS ? 1 : 0));
    return status;
  }
  size_t wanted_workspace() const { return result_.workspaceSize; }
  // With `bytes` of workspace, and with A this much off an address that is aligned.
  template <typename T = float>
  cublasStatus_t compute(T alpha, T beta, size_t bytes = kWorkspace, size_t off = 0) {
    const cublasStatus_t status = lt_.matmul(
        nullptr, desc_, &alpha, static_cast<std::byte*>(a_->data()) + off, layout_a_, b_->data(),
        layout_b_, &beta, c_->data(), layout_d_, d_->data(), layout_d_, &result_.algo,
        bytes > 0 ? workspace_->data() : nullptr, bytes, device_->stream());
    if (status == CUBLAS_STATUS_SUCCESS) settle(QueueFor::compute);
    return status;
  }
  template <typename T = float>
  std::vector<T> take(size_t count) {
    device_->copy_to_host(host_->data(), d_->data(), count * sizeof(T));
    settle(QueueFor::copies_out);
    const auto* begin = static_cast<const T*>(host_->data());
    return {begin, begin + count};
  }

 private:
  void make(cublasLtMatrixLayout_t& layout, cudaDataType_t type, uint64_t rows, uint64_t columns,
            int64_t ld) {
    if (layout) (void)lt_.destroy_layout(layout);
    REQUIRE(lt_.create_layout(&layout, type, rows, columns, ld) == CUBLAS_STATUS_SUCCESS);
  }
  void settle(QueueFor use) {
    must(device_->queue(use).settle(std::chrono::steady_clock::now() + kProductDeadline));
  }

  const CublasLtFunctions lt_;
  const cudaDataType_t type_, of_result_;
  std::unique_ptr<CudaDevice> device_;
  std::unique_ptr<Buffer> a_, b_, c_, d_, bias_, workspace_, host_;
  cublasLtMatmulDesc_t desc_ = nullptr;
  cublasLtMatmulPreference_t preference_ = nullptr;
  cublasLtMatrixLayout_t layout_a_ = nullptr, layout_b_ = nullptr, layout_d_ = nullptr;
  cublasLtMatmulHeuristicResult_t result_{};
};

using Floats = std::vector<float>;

// A = [1 3 5; 2 4 6] and B = [1 0; 1 1; 0 2], by columns: AB = [4 13; 6 16].
const Floats kA = {1, 2, 3, 4, 5, 6}, kB = {1, 1, 0, 0, 1, 2}, kProduct = {4, 6, 13, 16};

void small_product(TryProduct& product) {
  product.shapes(2, 3, 3, 2, 2, 2);
  product.give_a(kA);
  product.give_b(kB);
}

}  // namespace

TEST_CASE("the fake cuBLASLt multiplies with alpha, beta and either operand transposed") {
  TryProduct product;
  small_product(product);
  REQUIRE(product.choose() == CUBLAS_STATUS_SUCCESS);
  REQUIRE(product.compute(1.0f, 0.0f) == CUBLAS_STATUS_SUCCESS);
  CHECK(product.take(4) == kProduct);
  product.give_c({1, 1, 2, 2});
  REQUIRE(product.compute(2.0f, 10.0f) == CUBLAS_STATUS_SUCCESS);
  CHECK(product.take(4) == Floats{18, 22, 46, 52});

  product.shapes(3, 2, 2, 3, 2, 2);
  product.give_a(Floats{1, 3, 5, 2, 4, 6});
  product.give_b(Floats{1, 0, 1, 1, 0, 2});
  REQUIRE(product.set<int32_t>(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T) == CUBLAS_STATUS_SUCCESS);
  REQUIRE(product.set<int32_t>(CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_T) == CUBLAS_STATUS_SUCCESS);
  REQUIRE(product.choose() == CUBLAS_STATUS_SUCCESS);
  REQUIRE(product.compute(1.0f, 0.0f) == CUBLAS_STATUS_SUCCESS);
  CHECK(product.take(4) == kProduct);
}

TEST_CASE("the fake cuBLASLt does not read a C whose beta is zero") {
  TryProduct product;
  small_product(product);
  product.give_c(Floats(4, std::numeric_limits<float>::quiet_NaN()));
  REQUIRE(product.choose() == CUBLAS_STATUS_SUCCESS);
  REQUIRE(product.compute(1.0f, 0.0f) == CUBLAS_STATUS_SUCCESS);
  CHECK(product.take(4) == kProduct);
}

TEST_CASE("the fake cuBLASLt has the epilogues that Leat uses, and refuses the others") {
  TryProduct product;
  small_product(product);
  product.give_bias({-20, 1});
  const auto epilogue = [&](cublasLtEpilogue_t wanted) {
    REQUIRE(product.set<uint32_t>(CUBLASLT_MATMUL_DESC_EPILOGUE, wanted) == CUBLAS_STATUS_SUCCESS);
    return product.choose();
  };
  REQUIRE(epilogue(CUBLASLT_EPILOGUE_BIAS) == CUBLAS_STATUS_SUCCESS);
  REQUIRE(product.compute(1.0f, 0.0f) == CUBLAS_STATUS_SUCCESS);
  CHECK(product.take(4) == Floats{-16, 7, -7, 17});
  REQUIRE(epilogue(CUBLASLT_EPILOGUE_RELU_BIAS) == CUBLAS_STATUS_SUCCESS);
  REQUIRE(product.compute(1.0f, 0.0f) == CUBLAS_STATUS_SUCCESS);
  CHECK(product.take(4) == Floats{0, 7, 0, 17});
  // The algorithm of one epilogue is not that of another.
  REQUIRE(product.set<uint32_t>(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_RELU) ==
          CUBLAS_STATUS_SUCCESS);
  CHECK(product.compute(1.0f, 0.0f) == CUBLAS_STATUS_INVALID_VALUE);
  REQUIRE(epilogue(CUBLASLT_EPILOGUE_RELU) == CUBLAS_STATUS_SUCCESS);
  REQUIRE(product.compute(-1.0f, 0.0f) == CUBLAS_STATUS_SUCCESS);
  CHECK(product.take(4) == Floats{0, 0, 0, 0});
  for (const auto unknown :
       {CUBLASLT_EPILOGUE_GELU, CUBLASLT_EPILOGUE_GELU_BIAS, CUBLASLT_EPILOGUE_RELU_AUX,
        CUBLASLT_EPILOGUE_DRELU, CUBLASLT_EPILOGUE_BGRADA, CUBLASLT_EPILOGUE_BGRADB}) {
    INFO("epilogue " << unknown);
    CHECK(epilogue(unknown) == CUBLAS_STATUS_NOT_SUPPORTED);
    CHECK(product.compute(1.0f, 0.0f) == CUBLAS_STATUS_NOT_SUPPORTED);
  }
}

TEST_CASE("the fake cuBLASLt refuses a bias that has no address") {
  TryProduct product;
  small_product(product);
  REQUIRE(product.set<uint32_t>(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS) ==
          CUBLAS_STATUS_SUCCESS);
  REQUIRE(product.choose() == CUBLAS_STATUS_SUCCESS);
  CHECK(product.compute(1.0f, 0.0f) == CUBLAS_STATUS_INVALID_VALUE);
}

TEST_CASE("the fake cuBLASLt refuses attributes that it does not know, or of another size") {
  TryProduct product;
  small_product(product);
  CHECK(product.set<int32_t>(CUBLASLT_MATMUL_DESC_POINTER_MODE, 1) == CUBLAS_STATUS_NOT_SUPPORTED);
  CHECK(product.set<float*>(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, nullptr) ==
        CUBLAS_STATUS_NOT_SUPPORTED);
  CHECK(product.set<int64_t>(CUBLASLT_MATMUL_DESC_TRANSA, 0) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(product.set_layout<int32_t>(CUBLASLT_MATRIX_LAYOUT_ORDER, CUBLASLT_ORDER_ROW) ==
        CUBLAS_STATUS_NOT_SUPPORTED);
  CHECK(product.set_layout<int64_t>(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, 2) ==
        CUBLAS_STATUS_INVALID_VALUE);
  CHECK(product.prefer<uint32_t>(CUBLASLT_MATMUL_PREF_SEARCH_MODE, 0) ==
        CUBLAS_STATUS_NOT_SUPPORTED);
  CHECK(product.set<int32_t>(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_C) == CUBLAS_STATUS_SUCCESS);
  CHECK(product.choose() == CUBLAS_STATUS_NOT_SUPPORTED);
}

TEST_CASE("the fake cuBLASLt asks for a workspace within the preference, and needs it") {
  TryProduct product;
  small_product(product);
  REQUIRE(product.choose() == CUBLAS_STATUS_SUCCESS);
  CHECK(product.wanted_workspace() == 0);  // the library's own default
  REQUIRE(product.prefer<uint64_t>(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspace) ==
          CUBLAS_STATUS_SUCCESS);
  REQUIRE(product.choose() == CUBLAS_STATUS_SUCCESS);
  const size_t wanted = product.wanted_workspace();
  CHECK(wanted > 0);
  CHECK(wanted <= kWorkspace);
  CHECK(product.compute(1.0f, 0.0f, wanted - 1) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(product.compute(1.0f, 0.0f, 0) == CUBLAS_STATUS_INVALID_VALUE);
  REQUIRE(product.compute(1.0f, 0.0f, wanted) == CUBLAS_STATUS_SUCCESS);
  CHECK(product.take(4) == kProduct);
}

TEST_CASE("the fake cuBLASLt refuses addresses that are less aligned than was promised") {
  TryProduct product;
  small_product(product);
  REQUIRE(product.choose() == CUBLAS_STATUS_SUCCESS);
  CHECK(product.compute(1.0f, 0.0f, kWorkspace, 16) == CUBLAS_STATUS_INVALID_VALUE);
  REQUIRE(product.prefer<uint32_t>(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, 16) ==
          CUBLAS_STATUS_SUCCESS);
  REQUIRE(product.choose() == CUBLAS_STATUS_SUCCESS);
  CHECK(product.compute(1.0f, 0.0f, kWorkspace, 16) == CUBLAS_STATUS_SUCCESS);
  CHECK(product.compute(1.0f, 0.0f, kWorkspace, 8) == CUBLAS_STATUS_INVALID_VALUE);
}

TEST_CASE("the fake cuBLASLt knows distances of columns, items, and shapes that do not fit") {
  TryProduct product;
  product.shapes(2, 3, 3, 2, 2, 2, 4);
  product.give_a(Floats{1, 2, 0, 0, 3, 4, 0, 0, 5, 6, 0, 0});
  product.give_b(kB);
  REQUIRE(product.choose() == CUBLAS_STATUS_SUCCESS);
  REQUIRE(product.compute(1.0f, 0.0f) == CUBLAS_STATUS_SUCCESS);
  CHECK(product.take(4) == kProduct);
  product.shapes(2, 3, 3, 2, 2, 2, 1);
  CHECK(product.choose() == CUBLAS_STATUS_INVALID_VALUE);
  product.shapes(2, 3, 4, 2, 2, 2);
  CHECK(product.choose() == CUBLAS_STATUS_INVALID_VALUE);
  product.shapes(2, 3, 3, 2, 3, 2);
  CHECK(product.choose() == CUBLAS_STATUS_INVALID_VALUE);

  // Two items of 1 by 1, at a distance of 3 elements.
  product.shapes(1, 1, 1, 1, 1, 1);
  product.give_a(Floats{2, 0, 0, 5});
  product.give_b(Floats{3, 0, 0, 7});
  REQUIRE(product.set_layout<int32_t>(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, 2) ==
          CUBLAS_STATUS_SUCCESS);
  REQUIRE(product.set_layout<int64_t>(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, 3) ==
          CUBLAS_STATUS_SUCCESS);
  REQUIRE(product.choose() == CUBLAS_STATUS_SUCCESS);
  REQUIRE(product.compute(1.0f, 0.0f) == CUBLAS_STATUS_SUCCESS);
  const Floats items = product.take(4);
  CHECK(items[0] == 6);
  CHECK(items[3] == 35);
}

TEST_CASE("the fake cuBLASLt computes doubles and halves, and refuses mixtures") {
  {
    TryProduct product(CUDA_R_64F, CUDA_R_64F, CUBLAS_COMPUTE_64F, CUDA_R_64F);
    product.shapes(1, 2, 2, 1, 1, 1);
    product.give_a(std::vector<double>{1, 1e-12});
    product.give_b(std::vector<double>{1, 1});
    REQUIRE(product.choose() == CUBLAS_STATUS_SUCCESS);
    REQUIRE(product.compute(1.0, 0.0) == CUBLAS_STATUS_SUCCESS);
    CHECK(product.take<double>(1)[0] == 1 + 1e-12);
    REQUIRE(product.set<uint32_t>(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_RELU) ==
            CUBLAS_STATUS_SUCCESS);
    CHECK(product.choose() == CUBLAS_STATUS_NOT_SUPPORTED);
  }
  {
    // The sum of 2048 and 1 is no f16, and is one of f32.
    TryProduct product(CUDA_R_16F, CUDA_R_32F);
    product.shapes(1, 2, 2, 1, 1, 1);
    product.give_a(std::vector<__half>{__float2half(2048), __float2half(1)});
    product.give_b(std::vector<__half>{__float2half(1), __float2half(1)});
    REQUIRE(product.choose() == CUBLAS_STATUS_SUCCESS);
    REQUIRE(product.compute(1.0f, 0.0f) == CUBLAS_STATUS_SUCCESS);
    CHECK(product.take(1)[0] == 2049);
  }
  const auto chosen = [](TryProduct& product) {
    product.shapes(2, 3, 3, 2, 2, 2);
    return product.choose();
  };
  TryProduct narrows(CUDA_R_32F, CUDA_R_16F);
  CHECK(chosen(narrows) == CUBLAS_STATUS_NOT_SUPPORTED);
  TryProduct tf32(CUDA_R_16F, CUDA_R_16F, CUBLAS_COMPUTE_32F_FAST_TF32);
  CHECK(chosen(tf32) == CUBLAS_STATUS_NOT_SUPPORTED);
  TryProduct as_bf16(CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_16BF);
  CHECK(chosen(as_bf16) == CUBLAS_STATUS_NOT_SUPPORTED);
  TryProduct scaled(CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F, CUDA_R_64F);
  CHECK(chosen(scaled) == CUBLAS_STATUS_NOT_SUPPORTED);
}

TEST_CASE("the fake cuBLASLt rounds factors to 10 bits for TF32, and adds up more") {
  // 1 + 2^-10 is a number of TF32, 1 + 2^-11 is halfway to it, and less is rounded to 1.
  const float ulp = 0x1p-10f;
  const Floats factors = {1 + ulp, 1 + ulp / 2, 1 + ulp / 4, -1 - ulp / 2, 3e38f, 0};
  const auto sums = [&](cublasComputeType_t compute) {
    TryProduct product(CUDA_R_32F, CUDA_R_32F, compute);
    product.shapes(1, 1, 1, 6, 1, 6);
    product.give_a(Floats{1});
    product.give_b(factors);
    REQUIRE(product.choose() == CUBLAS_STATUS_SUCCESS);
    REQUIRE(product.compute(1.0f, 0.0f) == CUBLAS_STATUS_SUCCESS);
    return product.take(6);
  };
  CHECK(sums(CUBLAS_COMPUTE_32F) == factors);
  const Floats rounded = sums(CUBLAS_COMPUTE_32F_FAST_TF32);
  CHECK(Floats(rounded.begin(), rounded.begin() + 4) == Floats{1 + ulp, 1 + ulp, 1, -1 - ulp});
  CHECK(rounded[4] != 3e38f);
  CHECK(std::abs(rounded[4] / 3e38f - 1) < ulp);
  CHECK(rounded[5] == 0);
  // A product of two such numbers has more bits, which the sum keeps.
  TryProduct product(CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32);
  product.shapes(1, 1, 1, 1, 1, 1);
  product.give_a(Floats{1 + ulp});
  product.give_b(Floats{1 + ulp});
  REQUIRE(product.choose() == CUBLAS_STATUS_SUCCESS);
  REQUIRE(product.compute(1.0f, 0.0f) == CUBLAS_STATUS_SUCCESS);
  CHECK(product.take(1)[0] == 1 + 2 * ulp + ulp * ulp);
}

TEST_CASE("the fake cuBLASLt refuses an algorithm that adds up with atomics") {
  TryProduct product;
  small_product(product);
  REQUIRE(product.prefer<uint32_t>(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                   CUBLASLT_REDUCTION_SCHEME_MASK) == CUBLAS_STATUS_SUCCESS);
  CHECK(product.choose() == CUBLAS_STATUS_NOT_SUPPORTED);
}

}  // namespace leat
