// The cases of the conformance suite that CUDA kernels leave to the CPU. The suite passes them over
// (cuda_conformance_test.cc), so that without this list a lost dtype would go unnoticed.
#include <map>
#include <string>
#include <vector>

#include "devices/base/text.h"
#include "ops/graph/validate.h"
#include "tests/catch.h"
#include "tests/cuda/gpu_under_test.h"
#include "tests/ops/conformance.h"

namespace leat {
namespace {

using testing::ConformanceCase;

struct RefusedCases {
  const char* op;
  const char* dtypes;  // of the first operand; "all " before one of which no case is taken
  const char* reason;
};
const std::vector<RefusedCases> kRefusedCases = {
    {"Attention", "bfloat16, double, float, float16",
     "earlier keys, scores as an output, masks with a gradient and wide heads are the CPU's"},
    {"Trilu",
     "bfloat16, bool, double, float, float16, int16, int32, int64, int8, uint16, uint32, "
     "uint64, uint8",
     "another diagonal than the main one is the CPU's"},
    {"leat.ApplyAdam", "float", "gradients of rows, and lazy updates, are the CPU's"},
    {"leat.ApplyAdamW", "float", "gradients of rows, and lazy updates, are the CPU's"},
    {"leat.ApplyMomentum", "float", "gradients of rows, and lazy updates, are the CPU's"},
    {"leat.ApplySgd", "float", "gradients of rows, and lazy updates, are the CPU's"},
    {"leat.AttentionGrad", "float", "a mask that has a gradient is the CPU's"},
};

DType first_dtype(const ConformanceCase& c) {
  for (const Tensor& input : c.inputs) {
    if (input.valid()) return input.dtype();
  }
  return DType::f32;
}

bool is_refused(const OpDef& op, const ConformanceCase& c) {
  const auto supports = op.supports.find("cuda");
  if (supports == op.supports.end()) return false;
  const Attrs attrs = with_defaults(op, c.attrs);
  return !supports->second(testing::types_of(c, attrs));
}

// Refused cases and all of them, by op and by dtype.
using CaseCounts = std::map<std::string, std::map<std::string, std::pair<int, int>>>;

void count_case(CaseCounts& counts, const ConformanceCase& c) {
  const OpDef* op = testing::gpu_catalogue().find(c.op);
  if (op == nullptr || !op->kernels.contains("cuda")) return;
  auto& [refused, all] = counts[c.op][std::string(dtype_name(first_dtype(c)))];
  ++all;
  refused += is_refused(*op, c);
}

// As lines "op: dtypes".
std::vector<std::string> refused_cases() {
  CaseCounts counts;
  for (const ConformanceCase& c : testing::conformance_cases()) {
    count_case(counts, c);
    for (const ConformanceCase& variant : testing::dtype_variants(c)) count_case(counts, variant);
  }
  std::vector<std::string> lines;
  for (const auto& [op, by_dtype] : counts) {
    std::vector<std::string> dtypes;
    for (const auto& [dtype, count] : by_dtype) {
      const auto [refused, all] = count;
      if (refused > 0) dtypes.push_back(cat(refused == all ? "all " : "", dtype));
    }
    if (!dtypes.empty()) lines.push_back(cat(op, ": ", join(dtypes, ", ")));
  }
  return lines;
}

}  // namespace

TEST_CASE("CUDA kernels leave those cases to the CPU that are listed, with a reason") {
  std::vector<std::string> listed;
  for (const RefusedCases& each : kRefusedCases) {
    CHECK_FALSE(std::string(each.reason).empty());
    listed.push_back(cat(each.op, ": ", each.dtypes));
  }
  const std::vector<std::string> found = refused_cases();
  INFO("the cases that are refused:\n" << join(found, "\n"));
  CHECK(found == listed);
}

}  // namespace leat
