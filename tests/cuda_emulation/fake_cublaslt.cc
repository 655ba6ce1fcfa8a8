#include "tests/cuda_emulation/fake_cublaslt.h"

#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <atomic>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "ops/cuda/cublaslt.h"
#include "ops/cuda/cudnn.h"
#include "tests/cuda_emulation/fake_runtime.h"

namespace {

std::atomic<bool> is_hidden{false};
std::atomic<uint64_t> products_enqueued{0};
std::atomic<uint64_t> refused_rows{0};

// The attributes that the fake knows, with the bytes of each. It refuses all others: to ignore one
// would give another product than the library's.
using Known = std::map<int, size_t>;
const Known kOfProduct = {{CUBLASLT_MATMUL_DESC_TRANSA, sizeof(int32_t)},
                          {CUBLASLT_MATMUL_DESC_TRANSB, sizeof(int32_t)},
                          {CUBLASLT_MATMUL_DESC_EPILOGUE, sizeof(uint32_t)},
                          {CUBLASLT_MATMUL_DESC_BIAS_POINTER, sizeof(void*)}};
const Known kOfLayout = {{CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, sizeof(int32_t)},
                         {CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, sizeof(int64_t)}};
const Known kOfPreference = {{CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, sizeof(uint64_t)},
                             {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, sizeof(uint32_t)},
                             {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, sizeof(uint32_t)},
                             {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, sizeof(uint32_t)},
                             {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, sizeof(uint32_t)},
                             {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, sizeof(uint32_t)}};
// The alignment of addresses that the library assumes unless a preference says less.
constexpr uint32_t kUsualAlignment = 256;
constexpr uint64_t kWorkspaceAlignment = 256;

// Attributes as the bytes that were set.
class Attributes {
 public:
  cublasStatus_t set(const Known& known, int attribute, const void* value, size_t bytes) {
    const auto at = known.find(attribute);
    if (at == known.end()) return CUBLAS_STATUS_NOT_SUPPORTED;
    if (!value || bytes != at->second) return CUBLAS_STATUS_INVALID_VALUE;
    const auto* begin = static_cast<const std::byte*>(value);
    values_[attribute].assign(begin, begin + bytes);
    return CUBLAS_STATUS_SUCCESS;
  }
  template <typename T>
  T get(int attribute, T otherwise) const {
    const auto at = values_.find(attribute);
    if (at == values_.end() || at->second.size() != sizeof(T)) return otherwise;
    T value;
    std::memcpy(&value, at->second.data(), sizeof value);
    return value;
  }

 private:
  std::map<int, std::vector<std::byte>> values_;
};

struct Description {
  cublasComputeType_t compute;
  cudaDataType_t scale;
  Attributes attributes;
  bool transposes(cublasLtMatmulDescAttributes_t operand) const {
    return attributes.get<int32_t>(operand, CUBLAS_OP_N) == CUBLAS_OP_T;
  }
};
struct Layout {
  cudaDataType_t type;
  uint64_t rows, columns;
  int64_t ld;
  Attributes attributes;
  int32_t items() const { return attributes.get<int32_t>(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, 1); }
  int64_t stride() const {
    return attributes.get<int64_t>(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, 0);
  }
};

// The product of a chosen algorithm: another one must not use it.
struct Product {
  uint64_t m, n, k;
  int32_t items;
  uint32_t epilogue;
  bool operator==(const Product&) const = default;
};
// A chosen algorithm, and what it needs of a call.
struct Chosen {
  Product product;
  uint64_t workspace;
  uint16_t align_a, align_b, align_c, align_d;
};

template <typename T>
const T& of(const void* handle) {
  return *static_cast<const T*>(handle);
}

double element(const void* data, cudaDataType_t type, int64_t i) {
  switch (type) {
    case CUDA_R_32F:
      return static_cast<const float*>(data)[i];
    case CUDA_R_64F:
      return static_cast<const double*>(data)[i];
    case CUDA_R_16F:
      return __half2float(static_cast<const __half*>(data)[i]);
    default:
      return __bfloat162float(static_cast<const __nv_bfloat16*>(data)[i]);
  }
}
// The nearest number of 10 bits behind the point, of two the one further from zero. Infinities and
// NaNs stay.
double as_tf32(double value) {
  const auto single = static_cast<float>(value);
  if (!std::isfinite(single)) return value;
  const auto bits = std::bit_cast<uint32_t>(single);
  return std::bit_cast<float>((bits + 0x1000u) & ~0x1fffu);
}
void set_element(void* data, cudaDataType_t type, int64_t i, double value) {
  switch (type) {
    case CUDA_R_32F:
      static_cast<float*>(data)[i] = static_cast<float>(value);
      return;
    case CUDA_R_64F:
      static_cast<double*>(data)[i] = value;
      return;
    case CUDA_R_16F:
      static_cast<__half*>(data)[i] = __float2half(static_cast<float>(value));
      return;
    default:
      static_cast<__nv_bfloat16*>(data)[i] = __float2bfloat16(static_cast<float>(value));
  }
}

// One product of matrices that are stored by columns, D = epilogue(alpha op(A) op(B) + beta C).
struct Call {
  Description description;
  Layout a, b, c, d;
  double alpha, beta;
  const void *at_a, *at_b, *at_c;
  void* at_d;
  void* at_workspace = nullptr;
  size_t workspace_bytes = 0;

  uint64_t m() const { return transposes_a() ? a.columns : a.rows; }
  uint64_t k() const { return transposes_a() ? a.rows : a.columns; }
  uint64_t n() const { return transposes_b() ? b.rows : b.columns; }
  uint64_t k_of_b() const { return transposes_b() ? b.columns : b.rows; }
  bool transposes_a() const { return description.transposes(CUBLASLT_MATMUL_DESC_TRANSA); }
  bool transposes_b() const { return description.transposes(CUBLASLT_MATMUL_DESC_TRANSB); }
  uint32_t epilogue() const {
    return description.attributes.get<uint32_t>(CUBLASLT_MATMUL_DESC_EPILOGUE,
                                                CUBLASLT_EPILOGUE_DEFAULT);
  }
  Product product() const { return {m(), n(), k(), a.items(), epilogue()}; }
  // As for an algorithm that adds up parts of the sums: each gets a matrix of f32.
  uint64_t wanted_workspace() const {
    const uint64_t bytes = m() * n() * static_cast<uint64_t>(a.items()) * sizeof(float);
    return (bytes + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment;
  }
  bool adds_bias() const {
    return epilogue() == CUBLASLT_EPILOGUE_BIAS || epilogue() == CUBLASLT_EPILOGUE_RELU_BIAS;
  }
  bool clips() const {
    return epilogue() == CUBLASLT_EPILOGUE_RELU || epilogue() == CUBLASLT_EPILOGUE_RELU_BIAS;
  }
  bool in_tf32() const { return description.compute == CUBLAS_COMPUTE_32F_FAST_TF32; }
  double factor(const void* data, cudaDataType_t type, int64_t i) const {
    return in_tf32() ? as_tf32(element(data, type, i)) : element(data, type, i);
  }
  const void* bias() const {
    return description.attributes.get<const void*>(CUBLASLT_MATMUL_DESC_BIAS_POINTER, nullptr);
  }

  cublasStatus_t check() const {
    // Gelu, gradients and sums of a bias are not among what the fake computes.
    if (epilogue() != CUBLASLT_EPILOGUE_DEFAULT && !adds_bias() && !clips())
      return CUBLAS_STATUS_NOT_SUPPORTED;
    for (const auto operand : {CUBLASLT_MATMUL_DESC_TRANSA, CUBLASLT_MATMUL_DESC_TRANSB}) {
      const auto value = description.attributes.get<int32_t>(operand, CUBLAS_OP_N);
      if (value != CUBLAS_OP_N && value != CUBLAS_OP_T) return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    if (a.items() < 1) return CUBLAS_STATUS_INVALID_VALUE;
    const auto fits = [](const Layout& x, uint64_t rows, uint64_t columns) {
      return x.rows == rows && x.columns == columns && x.ld >= static_cast<int64_t>(x.rows);
    };
    if (k() != k_of_b() || !fits(d, m(), n()) || !fits(c, m(), n()) ||
        !fits(a, a.rows, a.columns) || !fits(b, b.rows, b.columns) || b.items() != a.items() ||
        d.items() != a.items())
      return CUBLAS_STATUS_INVALID_VALUE;
    const bool in_double = a.type == CUDA_R_64F;
    const cublasComputeType_t usual = in_double ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F;
    const bool widens = a.type != CUDA_R_64F && d.type == CUDA_R_32F;  // of half precision
    if (a.type != b.type || c.type != d.type || (a.type != d.type && !widens) ||
        (description.compute != usual && !(in_tf32() && a.type == CUDA_R_32F)) ||
        description.scale != (in_double ? CUDA_R_64F : CUDA_R_32F))
      return CUBLAS_STATUS_NOT_SUPPORTED;
    return in_double && epilogue() != CUBLASLT_EPILOGUE_DEFAULT ? CUBLAS_STATUS_NOT_SUPPORTED
                                                                : CUBLAS_STATUS_SUCCESS;
  }

  cudaError_t run() const {
    // Another product that uses the same bytes meanwhile would be wrong.
    if (workspace_bytes > 0) std::memset(at_workspace, 0xff, workspace_bytes);
    const auto rows = static_cast<int64_t>(m()), columns = static_cast<int64_t>(n()),
               depth = static_cast<int64_t>(k());
    for (int64_t item = 0; item < a.items(); ++item) {
      for (int64_t j = 0; j < columns; ++j) {
        for (int64_t i = 0; i < rows; ++i) {
          double sum = 0;
          for (int64_t l = 0; l < depth; ++l) {
            sum += factor(at_a, a.type,
                          item * a.stride() + (transposes_a() ? l + i * a.ld : i + l * a.ld)) *
                   factor(at_b, b.type,
                          item * b.stride() + (transposes_b() ? j + l * b.ld : l + j * b.ld));
          }
          sum *= alpha;
          if (beta != 0) sum += beta * element(at_c, c.type, item * c.stride() + i + j * c.ld);
          if (adds_bias()) sum += element(bias(), d.type, i);
          if (clips()) sum = sum > 0 || sum != sum ? sum : 0;
          set_element(at_d, d.type, item * d.stride() + i + j * d.ld, sum);
        }
      }
    }
    return cudaSuccess;
  }
};

// Answers of a real library, from a file.
struct Recorded {
  cublasStatus_t status;
  int found;
  uint64_t workspace;
};
class RecordedAnswers {
 public:
  int load(const std::string& path) {
    std::map<Key, Recorded> answers;
    if (!path.empty() && !read(path, answers)) return -1;
    const std::lock_guard lock(mutex_);
    answers_ = std::move(answers);
    loaded_ = true;
    return static_cast<int>(answers_.size());
  }
  // Of the file that the environment names, unless a test has chosen one.
  void load_once() {
    const char* path = std::getenv("LEAT_FAKE_CUBLASLT_ANSWERS");
    if (path && !is_loaded() && load(path) < 0) std::abort();
  }
  std::optional<Recorded> find(const Call& call) {
    const std::lock_guard lock(mutex_);
    if (answers_.empty()) return {};
    const auto at = answers_.find(key_of(call));
    if (at == answers_.end()) return {};
    ++replayed_;
    return at->second;
  }
  uint64_t replayed() {
    const std::lock_guard lock(mutex_);
    return replayed_;
  }

 private:
  using Key = std::vector<int64_t>;
  // False if a line is not as ProductAnswers writes them.
  static bool read(const std::string& path, std::map<Key, Recorded>& answers) {
    std::ifstream file(path);
    if (!file) return false;
    try {
      for (std::string line; std::getline(file, line);) {
        const auto json = nlohmann::json::parse(line);
        if (!json.is_object()) return false;
        if (json.contains("library")) continue;
        answers[key_of(json)] = answer_of(json);
      }
    } catch (const std::exception&) {
      return false;
    }
    return !file.bad();
  }
  // get<>() would take a number of another kind, too.
  static int64_t integer_of(const nlohmann::json& json, const char* name) {
    if (!json.at(name).is_number_integer()) throw std::invalid_argument(name);
    return json.at(name).get<int64_t>();
  }
  static Recorded answer_of(const nlohmann::json& json) {
    Recorded answer{static_cast<cublasStatus_t>(integer_of(json, "status")),
                    static_cast<int>(integer_of(json, "found")), 0};
    if (answer.found > 0) answer.workspace = static_cast<uint64_t>(integer_of(json, "workspace"));
    if (!json.at("accepted").get<bool>()) answer.found = 0;
    return answer;
  }
  static Key key_of(const nlohmann::json& json) {
    Key key;
    for (const char* name : {"type", "type_d", "compute", "epilogue", "m", "n", "k", "items", "lda",
                             "ldb", "ldd", "stride_a", "stride_b", "stride_d"})
      key.push_back(integer_of(json, name));
    for (const char* name : {"trans_a", "trans_b"}) key.push_back(json.at(name).get<bool>());
    return key;
  }
  static Key key_of(const Call& call) {
    const auto number = [](auto value) { return static_cast<int64_t>(value); };
    return {number(call.a.type),
            number(call.d.type),
            number(call.description.compute),
            number(call.epilogue()),
            number(call.m()),
            number(call.n()),
            number(call.k()),
            call.a.items(),
            call.a.ld,
            call.b.ld,
            call.d.ld,
            call.a.stride(),
            call.b.stride(),
            call.d.stride(),
            call.transposes_a(),
            call.transposes_b()};
  }
  bool is_loaded() {
    const std::lock_guard lock(mutex_);
    return loaded_;
  }

  std::mutex mutex_;
  bool loaded_ = false;
  std::map<Key, Recorded> answers_;
  uint64_t replayed_ = 0;
};
RecordedAnswers recorded_answers;

size_t get_version() { return 130100; }
cublasStatus_t create(cublasLtHandle_t* handle) {
  *handle = reinterpret_cast<cublasLtHandle_t>(new int);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t destroy(cublasLtHandle_t handle) {
  delete reinterpret_cast<int*>(handle);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t create_desc(cublasLtMatmulDesc_t* desc, cublasComputeType_t compute,
                           cudaDataType_t scale) {
  *desc = reinterpret_cast<cublasLtMatmulDesc_t>(new Description{compute, scale, {}});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t destroy_desc(cublasLtMatmulDesc_t desc) {
  delete reinterpret_cast<Description*>(desc);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t set_desc(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute,
                        const void* value, size_t bytes) {
  return reinterpret_cast<Description*>(desc)->attributes.set(kOfProduct, attribute, value, bytes);
}
cublasStatus_t create_layout(cublasLtMatrixLayout_t* layout, cudaDataType_t type, uint64_t rows,
                             uint64_t columns, int64_t ld) {
  if (rows == refused_rows) return CUBLAS_STATUS_ALLOC_FAILED;
  *layout = reinterpret_cast<cublasLtMatrixLayout_t>(new Layout{type, rows, columns, ld, {}});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t destroy_layout(const cublasLtMatrixLayout_t layout) {
  delete reinterpret_cast<Layout*>(layout);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t set_layout(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute,
                          const void* value, size_t bytes) {
  return reinterpret_cast<Layout*>(layout)->attributes.set(kOfLayout, attribute, value, bytes);
}
cublasStatus_t create_preference(cublasLtMatmulPreference_t* preference) {
  *preference = reinterpret_cast<cublasLtMatmulPreference_t>(new Attributes);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t destroy_preference(cublasLtMatmulPreference_t preference) {
  delete reinterpret_cast<Attributes*>(preference);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t set_preference(cublasLtMatmulPreference_t preference,
                              cublasLtMatmulPreferenceAttributes_t attribute, const void* value,
                              size_t bytes) {
  return reinterpret_cast<Attributes*>(preference)->set(kOfPreference, attribute, value, bytes);
}

Call call_of(const void* desc, const void* a, const void* b, const void* c, const void* d) {
  return {of<Description>(desc),
          of<Layout>(a),
          of<Layout>(b),
          of<Layout>(c),
          of<Layout>(d),
          0,
          0,
          nullptr,
          nullptr,
          nullptr,
          nullptr};
}

cublasStatus_t get_heuristic(cublasLtHandle_t, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                             cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                             cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t preference, int,
                             cublasLtMatmulHeuristicResult_t* result, int* found) {
  *found = 0;
  const Call call = call_of(desc, a, b, c, d);
  if (const cublasStatus_t status = call.check(); status != CUBLAS_STATUS_SUCCESS) return status;
  const std::optional<Recorded> recorded = recorded_answers.find(call);
  if (recorded && (recorded->status != CUBLAS_STATUS_SUCCESS || recorded->found == 0))
    return recorded->status;
  // An algorithm that adds up with atomics would come back.
  const auto schemes = of<Attributes>(preference)
                           .get<uint32_t>(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                          CUBLASLT_REDUCTION_SCHEME_MASK);
  if ((schemes & CUBLASLT_REDUCTION_SCHEME_INPLACE) != 0) return CUBLAS_STATUS_NOT_SUPPORTED;
  *result = {};
  static_assert(sizeof(Chosen) <= sizeof result->algo);
  const auto alignment = [&](cublasLtMatmulPreferenceAttributes_t operand) {
    return static_cast<uint16_t>(
        of<Attributes>(preference).get<uint32_t>(operand, kUsualAlignment));
  };
  // Without room for parts, another algorithm sums in one go.
  const auto room =
      of<Attributes>(preference).get<uint64_t>(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, 0);
  const uint64_t wanted = recorded ? recorded->workspace : call.wanted_workspace();
  const Chosen chosen = {call.product(),
                         wanted <= room ? wanted : 0,
                         alignment(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES),
                         alignment(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES),
                         alignment(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES),
                         alignment(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES)};
  result->workspaceSize = chosen.workspace;
  std::memcpy(&result->algo, &chosen, sizeof chosen);
  result->state = CUBLAS_STATUS_SUCCESS;
  *found = 1;
  return CUBLAS_STATUS_SUCCESS;
}

// The fake's algorithms have no configuration.
cublasStatus_t get_algorithm_config(const cublasLtMatmulAlgo_t*,
                                    cublasLtMatmulAlgoConfigAttributes_t, void*, size_t, size_t*) {
  return CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t matmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void* alpha, const void* a,
                      cublasLtMatrixLayout_t layout_a, const void* b,
                      cublasLtMatrixLayout_t layout_b, const void* beta, const void* c,
                      cublasLtMatrixLayout_t layout_c, void* d, cublasLtMatrixLayout_t layout_d,
                      const cublasLtMatmulAlgo_t* algorithm, void* workspace, size_t bytes,
                      cudaStream_t stream) {
  Call call = call_of(desc, layout_a, layout_b, layout_c, layout_d);
  if (const cublasStatus_t status = call.check(); status != CUBLAS_STATUS_SUCCESS) return status;
  Chosen chosen{};
  std::memcpy(&chosen, algorithm, sizeof chosen);
  const auto aligned = [](const void* address, uint64_t to) {
    return reinterpret_cast<uintptr_t>(address) % to == 0;
  };
  if (!(chosen.product == call.product()) || bytes < chosen.workspace ||
      (chosen.workspace > 0 && !workspace) || !aligned(workspace, kWorkspaceAlignment) ||
      !aligned(a, chosen.align_a) || !aligned(b, chosen.align_b) || !aligned(c, chosen.align_c) ||
      !aligned(d, chosen.align_d) || (call.adds_bias() && !call.bias()))
    return CUBLAS_STATUS_INVALID_VALUE;
  const cudaDataType_t scale = call.description.scale;
  call.alpha = element(alpha, scale, 0);
  call.beta = element(beta, scale, 0);
  call.at_a = a;
  call.at_b = b;
  call.at_c = c;
  call.at_d = d;
  call.at_workspace = workspace;
  call.workspace_bytes = chosen.workspace;
  ++products_enqueued;
  return fake_cuda::enqueue(stream, [call] { return call.run(); }) == cudaSuccess
             ? CUBLAS_STATUS_SUCCESS
             : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // namespace

namespace fake_cublaslt {

void hide(bool hidden) { is_hidden = hidden; }
void refuse_layouts(uint64_t rows) { refused_rows = rows; }
uint64_t products() { return products_enqueued; }
int replay(const std::string& path) { return recorded_answers.load(path); }
uint64_t replayed() { return recorded_answers.replayed(); }

}  // namespace fake_cublaslt

namespace leat::cuda {

Result<CublasLtFunctions> load_cublaslt() {
  if (is_hidden) return unavailable("libcublasLt.so.13: the fake is hidden");
  recorded_answers.load_once();
  return CublasLtFunctions{get_version,
                           create,
                           destroy,
                           matmul,
                           get_heuristic,
                           create_desc,
                           destroy_desc,
                           set_desc,
                           create_layout,
                           destroy_layout,
                           set_layout,
                           create_preference,
                           destroy_preference,
                           set_preference,
                           get_algorithm_config};
}

// cuDNN has no fake: to execute its graphs of operations would take a second library.
Result<CudnnFunctions> load_cudnn() { return unavailable("libcudnn.so.9: the fake has none"); }

}  // namespace leat::cuda
