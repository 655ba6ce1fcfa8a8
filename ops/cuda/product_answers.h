// The answers of cuBLASLt to the products that it was asked for, in a file.
//
// The file shows on which shapes a real library refuses, and the workspaces that it wants; the fake
// of the tests gives the same answers from it (tests/cuda_emulation). A line is a JSON object: the
// first of each device has `library` and `gpu`, each other one a product with its answer.
#pragma once

#include <cublasLt.h>

#include <cstddef>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "ops/cuda/matmul.h"

namespace leat::cuda {

// A product in the library's own terms: matrices by columns, D = epilogue(op(A) op(B)).
struct ProductQuestion {
  cudaDataType_t type = CUDA_R_32F, type_d = CUDA_R_32F;  // of A and B; of D and C
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  bool trans_a = false, trans_b = false;
  int64_t m = 0, n = 0, k = 0, items = 1;
  int64_t lda = 0, ldb = 0, ldd = 0;                 // from one column to the next
  int64_t stride_a = 0, stride_b = 0, stride_d = 0;  // from one item to the next; 0 with one item
};

struct ProductAnswer {
  int status = 0;         // of cublasLtMatmulAlgoGetHeuristic(), or of what describes the product
  int found = 0;          // algorithms
  bool accepted = false;  // what was found is used
  size_t workspace = 0;   // bytes
  cublasLtMatmulAlgo_t algorithm{};
};

// Reads a value of an algorithm's configuration; a status other than success: it has none.
using GetAlgorithmConfig = decltype(&cublasLtMatmulAlgoConfigGetAttribute);

// Threads: any.
class ProductAnswers {
 public:
  // Appends to the file that LEAT_CUBLASLT_ANSWERS names. Null if the variable is not set, or if
  // the file cannot be opened, which a line on stderr tells.
  static std::unique_ptr<ProductAnswers> of_environment(const std::string& library,
                                                        const std::string& gpu,
                                                        GetAlgorithmConfig get_config);
  ~ProductAnswers();
  ProductAnswers(const ProductAnswers&) = delete;
  ProductAnswers& operator=(const ProductAnswers&) = delete;

  // Writes an answer, unless the same line was written before. After a write that fails, or writes
  // a part of a line, nothing more is written; a line on stderr tells it once.
  void add(const ProductQuestion& question, const ProductAnswer& answer);

 private:
  ProductAnswers(int file, GetAlgorithmConfig get_config) : file_(file), get_config_(get_config) {}
  std::string config_of(const cublasLtMatmulAlgo_t& algorithm) const;
  void write_line(const std::string& line);

  const int file_;
  const GetAlgorithmConfig get_config_;
  std::mutex mutex_;
  std::set<std::string> written_;
  bool failed_ = false;
};

}  // namespace leat::cuda
