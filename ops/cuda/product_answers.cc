#include "ops/cuda/product_answers.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "devices/base/sha256.h"
#include "devices/base/text.h"

namespace leat::cuda {
namespace {

// The whole of a string for JSON: these are names of libraries and GPUs.
std::string quoted_name(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) >= ' ') out += c;
  }
  return out + "\"";
}

void tell(const std::string& what) {
  std::fputs(cat("LEAT_CUBLASLT_ANSWERS: ", what, "\n").c_str(), stderr);
}

const char* truth(bool value) { return value ? "true" : "false"; }

std::string hex_of(const cublasLtMatmulAlgo_t& algorithm) {
  return to_hex({reinterpret_cast<const uint8_t*>(&algorithm), sizeof algorithm});
}

std::string json_of(const ProductQuestion& q) {
  return cat(R"("type": )", static_cast<int>(q.type), R"(, "type_d": )", static_cast<int>(q.type_d),
             R"(, "compute": )", static_cast<int>(q.compute), R"(, "epilogue": )", q.epilogue,
             R"(, "trans_a": )", truth(q.trans_a), R"(, "trans_b": )", truth(q.trans_b),
             R"(, "m": )", q.m, R"(, "n": )", q.n, R"(, "k": )", q.k, R"(, "items": )", q.items,
             R"(, "lda": )", q.lda, R"(, "ldb": )", q.ldb, R"(, "ldd": )", q.ldd,
             R"(, "stride_a": )", q.stride_a, R"(, "stride_b": )", q.stride_b, R"(, "stride_d": )",
             q.stride_d);
}

}  // namespace

std::unique_ptr<ProductAnswers> ProductAnswers::of_environment(const std::string& library,
                                                               const std::string& gpu,
                                                               GetAlgorithmConfig get_config) {
  const char* path = std::getenv("LEAT_CUBLASLT_ANSWERS");
  if (!path || !*path) return nullptr;
  const int file = ::open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (file < 0) {
    tell(cat("opening '", path, "': ", std::strerror(errno)));
    return nullptr;
  }
  std::unique_ptr<ProductAnswers> answers(new ProductAnswers(file, get_config));
  answers->write_line(
      cat(R"({"library": )", quoted_name(library), R"(, "gpu": )", quoted_name(gpu), "}\n"));
  return answers;
}

ProductAnswers::~ProductAnswers() { ::close(file_); }

std::string ProductAnswers::config_of(const cublasLtMatmulAlgo_t& algorithm) const {
  constexpr std::pair<const char*, cublasLtMatmulAlgoConfigAttributes_t> kValues[] = {
      {"id", CUBLASLT_ALGO_CONFIG_ID},
      {"tile", CUBLASLT_ALGO_CONFIG_TILE_ID},
      {"stages", CUBLASLT_ALGO_CONFIG_STAGES_ID},
      {"split_k", CUBLASLT_ALGO_CONFIG_SPLITK_NUM},
      {"reduction", CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME},
      {"swizzle", CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING},
      {"custom", CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION}};
  std::string text;
  for (const auto& [name, attribute] : kValues) {
    uint32_t value = 0;
    size_t written = 0;
    if (get_config_(&algorithm, attribute, &value, sizeof value, &written) == CUBLAS_STATUS_SUCCESS)
      text += cat(text.empty() ? "" : ", ", "\"", name, "\": ", value);
  }
  return text;
}

void ProductAnswers::add(const ProductQuestion& question, const ProductAnswer& answer) {
  std::string line = cat("{", json_of(question), R"(, "status": )", answer.status, R"(, "found": )",
                         answer.found, R"(, "accepted": )", truth(answer.accepted));
  if (answer.found > 0) {
    line += cat(R"(, "workspace": )", answer.workspace, R"(, "algorithm": ")",
                hex_of(answer.algorithm), R"(", "config": {)", config_of(answer.algorithm), "}");
  }
  write_line(line + "}\n");
}

// One call for a line: several processes may write to the file.
void ProductAnswers::write_line(const std::string& line) {
  const std::lock_guard lock(mutex_);
  if (failed_ || !written_.insert(line).second) return;
  const ssize_t written = ::write(file_, line.data(), line.size());
  if (written == static_cast<ssize_t>(line.size())) return;
  failed_ = true;
  tell(cat(written < 0 ? std::string(std::strerror(errno))
                       : cat("wrote ", written, " of ", line.size(), " bytes"),
           ": no more answers are recorded"));
}

}  // namespace leat::cuda
