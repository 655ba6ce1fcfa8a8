// cuBLASLt, NVIDIA's library of matrix products, where a machine has it.
//
// It is loaded when a device is opened and not linked, so that the plugin also works without it.
// Its version and the model of the GPU decide the bits of its results: both are in the description
// of the device.
#pragma once

#include <cublasLt.h>

#include <memory>
#include <string>

#include "devices/base/dtype.h"
#include "devices/cuda/cuda_device.h"
#include "ops/cuda/matmul.h"
#include "ops/cuda/product_answers.h"

namespace leat::cuda {

// The functions that Leat calls.
struct CublasLtFunctions {
  decltype(&cublasLtGetVersion) get_version;
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtDestroy) destroy;
  decltype(&cublasLtMatmul) matmul;
  decltype(&cublasLtMatmulAlgoGetHeuristic) get_heuristic;
  decltype(&cublasLtMatmulDescCreate) create_desc;
  decltype(&cublasLtMatmulDescDestroy) destroy_desc;
  decltype(&cublasLtMatmulDescSetAttribute) set_desc;
  decltype(&cublasLtMatrixLayoutCreate) create_layout;
  decltype(&cublasLtMatrixLayoutDestroy) destroy_layout;
  decltype(&cublasLtMatrixLayoutSetAttribute) set_layout;
  decltype(&cublasLtMatmulPreferenceCreate) create_preference;
  decltype(&cublasLtMatmulPreferenceDestroy) destroy_preference;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference;
  decltype(&cublasLtMatmulAlgoConfigGetAttribute) get_algorithm_config;
};
// unavailable if the machine has no such library, or one that lacks a function. The tests have a
// fake in its place.
Result<CublasLtFunctions> load_cublaslt();

// The library on one device.
class CublasLt final : public CudaLibrary {
 public:
  // unavailable as above; internal_error if the library does not start.
  static Result<std::unique_ptr<CublasLt>> open(CudaDevice& device);
  // The device's; null if it has none.
  static const CublasLt* of(const Device& device);
  ~CublasLt() override;
  static constexpr std::string_view kName = "cuBLASLt";
  std::string_view name() const override { return kName; }
  std::string version() const override;

  const CublasLtFunctions& functions() const { return functions_; }
  cublasLtHandle_t handle() const { return handle_; }
  // Null unless the answers are recorded.
  ProductAnswers* answers() const { return answers_.get(); }

 private:
  explicit CublasLt(const CublasLtFunctions& functions) : functions_(functions) {}
  const CublasLtFunctions functions_;
  cublasLtHandle_t handle_ = nullptr;
  std::unique_ptr<ProductAnswers> answers_;
};

// A product that the library is asked for, as ProductCall, with what that leaves open. Items are
// evenly spaced; all distances are in elements.
struct ProductLayout {
  DType dtype = DType::f32;                          // of A and B
  DType y_dtype = DType::f32;                        // of Y and C
  int64_t a_stride = 0, b_stride = 0, y_stride = 0;  // from one item to the next
  int64_t ldy = 0;                                   // from one row of Y to the next
  bool tf32 = false;                                 // A and B of f32 may be rounded to TF32
};

// A product that the library has agreed to compute. The algorithm is the library's first choice for
// the shapes, never one that was found by timing; those that add up parts with atomics are left
// out. f32 is computed in f32, and in TF32 only where the layout allows it; f16, bf16 and TF32 add
// up in f32.
//
// Threads: enqueue() on the thread that enqueues the device's work.
class LibraryProduct {
 public:
  // Null if the library does not compute it: other dtypes, a C that is neither a row nor a matrix
  // like Y, or sizes that it refuses. `library` outlives the product.
  static std::shared_ptr<LibraryProduct> make(const CublasLt& library, const ProductCall& call,
                                              const ProductLayout& layout);
  ~LibraryProduct();
  LibraryProduct(const LibraryProduct&) = delete;
  LibraryProduct& operator=(const LibraryProduct&) = delete;

  // True if an operand, or all of a call, are as aligned as the algorithms need. Null is aligned.
  static bool takes(const void* operand);
  static bool takes(const ProductCall& call);
  // The bytes of the device that enqueue() needs. Products have workspaces of their own, because
  // the device may compute several at a time.
  size_t workspace_bytes() const { return workspace_bytes_; }
  // Reads the addresses of `call` alone.
  cudaError_t enqueue(const ProductCall& call, void* workspace, cudaStream_t stream) const;

 private:
  LibraryProduct(const CublasLt& library, const ProductCall& call, DType dtype);
  cublasStatus_t describe(const ProductQuestion& question);
  ProductAnswer choose();

  const CublasLt& library_;
  const bool in_double_;
  const bool adds_matrix_, adds_row_;  // of C
  const double alpha_, beta_;
  cublasLtMatmulDesc_t desc_ = nullptr;
  cublasLtMatrixLayout_t a_ = nullptr, b_ = nullptr, d_ = nullptr;  // the library's own
  cublasLtMatmulAlgo_t algorithm_{};
  size_t workspace_bytes_ = 0;
};

}  // namespace leat::cuda
