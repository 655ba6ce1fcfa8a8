// Runs ONNX's own cases of every op that this build has: imports them, checks them with the gate,
// interprets them and runs them as plans.
#include <algorithm>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <set>
#include <span>

#include "devices/base/text.h"
#include "ops/catalogue.h"
#include "ops/graph/interpret.h"
#include "ops/graph/validate.h"
#include "ops/layers/control_flow.h"
#include "ops/onnx/import.h"
#include "ops/onnx/sequences.h"
#include "ops/onnx/upgrade.h"
#include "ops/text/composites.h"
#include "ops/text/refused_ops.h"
#include "tests/catch.h"
#include "tests/onnx/backend_case.h"
#include "tests/onnx/run_plan.h"

using namespace leat;
using namespace leat::testing;

namespace {

// The least number of cases that must run.
constexpr int kFloor = 1013;

// The ops that the project promises. Their cases run because the ops are in the catalogue.
constexpr const char* kCore[] = {
    "Abs",          "Add",
    "ArgMax",       "AveragePool",
    "Cast",         "BatchNormalization",
    "Concat",       "Constant",
    "Conv",         "ConstantOfShape",
    "Div",          "ConvTranspose",
    "Dropout",      "Equal",
    "Exp",          "Expand",
    "Flatten",      "Gather",
    "Gelu",         "Gemm",
    "Greater",      "GlobalAveragePool",
    "Identity",     "GreaterOrEqual",
    "LeakyRelu",    "LayerNormalization",
    "Less",         "LessOrEqual",
    "Log",          "LogSoftmax",
    "MatMul",       "Max",
    "MaxPool",      "Min",
    "Mul",          "Neg",
    "Pad",          "Pow",
    "RandomNormal", "RandomUniform",
    "ReduceMax",    "ReduceMean",
    "ReduceMin",    "ReduceSum",
    "Relu",         "Reshape",
    "Sigmoid",      "Slice",
    "Softmax",      "SoftmaxCrossEntropyLoss",
    "Split",        "Sqrt",
    "Squeeze",      "Sub",
    "Tanh",         "Transpose",
    "Unsqueeze",    "Where",
};

struct Skip {
  const char* pattern;  // of names; '*' is any text
  const char* op;
  const char* reason;
};
constexpr const char* kSequences =
    "a value of the type sequence; sequences are supported where they fold away on import";
constexpr const char* kOptionals =
    "a value of the type optional; such values are supported where they fold away on import";
constexpr const char* kDrawn = "the expected values are drawn by numpy's generator";
constexpr Skip kSkipped[] = {
    {"node/test_cast*STRING*", "Cast", "tensors of strings"},
    {"node/test_cast*FLOAT_to_BFLOAT16*", "Cast",
     "expects bits cut off; the standard rounds to nearest"},
    {"node/test_identity_opt", "Identity", kOptionals},
    {"node/test_identity_sequence", "Identity", kSequences},
    {"node/test_bernoulli*", "Bernoulli", kDrawn},
    {"node/test_training_dropout", "Dropout", kDrawn},
    {"node/test_training_dropout_mask", "Dropout", kDrawn},
    {"node/test_training_dropout_default", "Dropout", kDrawn},
    {"node/test_training_dropout_default_mask", "Dropout", kDrawn},
};

constexpr const char* kFormats = "formats of images other than JPEG, PNG and WebP";

// Of the package's cases, but not of later ones.
constexpr Skip kSkippedHere[] = {
    {"node/test_adam_multiple", "ai.onnx.preview.training.Adam",
     "the file lacks the epsilon of its expected values"},
};
// Of cases that the package does not have.
constexpr Skip kSkippedElsewhere[] = {
    {"node/test_image_decoder_decode_bmp_rgb", "ImageDecoder", kFormats},
    {"node/test_image_decoder_decode_jpeg2k_rgb", "ImageDecoder", kFormats},
    {"node/test_image_decoder_decode_pnm_rgb", "ImageDecoder", kFormats},
    {"node/test_image_decoder_decode_tiff_rgb", "ImageDecoder", kFormats},
    {"node/test_dft_inverse*", "DFT", "expects the rounding errors of float32 where values are 0"},
};

// The cases that do not run, by reason: a table for docs/models.md.
class LeftOut {
 public:
  void add(const std::string& reason, const std::string& op) {
    Row& row = rows_[reason];
    ++row.cases;
    row.ops.insert(op);
  }
  int cases() const {
    int all = 0;
    for (const auto& [_, row] : rows_) all += row.cases;
    return all;
  }
  std::string table() const {
    std::string out = "| reason | cases | ops |\n| --- | --- | --- |\n";
    for (const auto& [reason, row] : rows_) {
      std::vector<std::string> ops;
      for (const std::string& op : row.ops)
        ops.push_back(op.find(' ') == std::string::npos ? cat('`', op, '`') : op);
      out += cat("| ", reason, " | ", row.cases, " | ", join(ops, ", "), " |\n");
    }
    return out;
  }

 private:
  struct Row {
    int cases = 0;
    std::set<std::string> ops;
  };
  std::map<std::string, Row> rows_;
};

// Why this build lacks an op.
std::string reason_of(const std::string& op) {
  if (const std::string_view refusal = refusal_of(op); !refusal.empty())
    return std::string(refusal);
  return op.find('.') == std::string::npos ? "not in Leat" : "ops of ONNX's other domains";
}

bool matches(std::string_view pattern, std::string_view text) {
  const size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == text;
  if (text.substr(0, star) != pattern.substr(0, star)) return false;
  for (size_t at = star; at <= text.size(); ++at) {
    if (matches(pattern.substr(star + 1), text.substr(at))) return true;
  }
  return false;
}

bool is_known(const std::string& op, const Catalogue& catalogue) {
  const size_t dot = op.rfind('.');
  const bool standard = dot == std::string::npos;
  const std::string domain = standard ? "" : op.substr(0, dot);
  return catalogue.find(op) != nullptr ||
         is_composite(domain, standard ? op : op.substr(dot + 1)) || is_renamed_op("", op) ||
         is_sequence_op("", op);
}

bool concerns(const BackendCase& backend_case, const Catalogue& catalogue) {
  return !backend_case.ops.empty() &&
         std::all_of(backend_case.ops.begin(), backend_case.ops.end(),
                     [&](const std::string& op) { return is_known(op, catalogue); });
}

// The result of a case, or of an attempt.
struct Outcome {
  std::string failure;  // empty: passed
  bool wrong = false;   // it computed something else than expected
  bool fixed = false;   // inputs were fixed at import
};

// Finds the first output that differs.
Outcome compare(const Result<std::vector<Tensor>>& actual, const BackendData& data) {
  if (!actual.ok()) return {actual.status().to_string()};
  for (size_t i = 0; i < data.outputs.size(); ++i) {
    const Tensor& output = (*actual)[i];
    const std::string differs = difference(output, retyped(data.outputs[i], output.dtype()));
    if (!differs.empty()) return {cat(data.name, ", output ", i, ": ", differs), true};
  }
  return {};
}

// Interprets the graph on the data's inputs that are fed, and runs its plan.
Outcome run(const Graph& graph, const BackendData& data, const std::vector<size_t>& fed) {
  if (fed.size() != graph.inputs().size() || data.outputs.size() != graph.outputs().size()) {
    return {cat("expected ", fed.size(), " inputs and ", data.outputs.size(), " outputs, received ",
                graph.inputs().size(), " and ", graph.outputs().size()),
            true};
  }
  std::map<ValueId, Tensor> feeds;
  for (size_t i = 0; i < fed.size(); ++i) {
    const ValueId input = graph.inputs()[i];
    feeds[input] = retyped(data.inputs[fed[i]], graph.value(input).type.dtype);
  }
  Outcome interpreted = compare(interpret(graph, feeds, graph.outputs()), data);
  if (!interpreted.failure.empty()) return {interpreted.failure, true};
  Outcome planned = compare(run_plan(graph, feeds), data);
  if (!planned.failure.empty()) planned.failure = "as a plan: " + planned.failure;
  return planned;
}

Result<Graph> load(const Bytes& bytes, const Catalogue& catalogue, const FixedInputs& fixed) {
  LEAT_ASSIGN_OR_RETURN(OnnxModel model,
                        import_onnx(bytes, catalogue, "model.onnx", {.fixed = fixed}));
  LEAT_ASSIGN_OR_RETURN(Graph graph, expand_control_flow(model.graph));
  LEAT_RETURN_IF_ERROR(validate(graph));
  return graph;
}

// Runs the case with all inputs fed, and then, until a plan can be made of it, with more and more
// of them fixed at import. A graph that loads must compute the values that are expected, whether a
// plan can be made of it or not.
Outcome run(const BackendCase& backend_case, const BackendData& data, const Catalogue& catalogue) {
  Outcome outcome{"none of it ran"};
  size_t before = 0;
  for (const Fixing fixing : {Fixing::none, Fixing::parameters, Fixing::sources}) {
    const FixedCase fixed = fix_parameters(backend_case, data, fixing);
    if (fixing != Fixing::none && fixed.fixed.size() == before) continue;
    before = fixed.fixed.size();
    const auto graph = load(backend_case.model, catalogue, fixed.fixed);
    outcome = graph.ok() ? run(*graph, data, fixed.fed) : Outcome{graph.status().to_string()};
    outcome.fixed = fixing != Fixing::none;
    if (outcome.failure.empty() || outcome.wrong) return outcome;
  }
  return outcome;
}

Outcome run(const BackendCase& backend_case, const Catalogue& catalogue) {
  const auto data = backend_data(backend_case);
  if (!data.ok()) return {data.status().to_string()};
  Outcome all;
  for (const BackendData& set : *data) {
    const Outcome outcome = run(backend_case, set, catalogue);
    if (!outcome.failure.empty()) return outcome;
    all.fixed |= outcome.fixed;
  }
  return all;
}

// The first op on values that Leat has only where they fold away; "" if there is none.
std::string folded_op(const BackendCase& backend_case) {
  const auto found = std::ranges::find_if(
      backend_case.ops, [](const std::string& op) { return is_sequence_op("", op); });
  return found == backend_case.ops.end() ? "" : *found;
}

}  // namespace

TEST_CASE("the ops of the core are in the catalogue") {
  const Catalogue catalogue = standard_catalogue();
  for (const char* op : kCore) {
    INFO(op);
    CHECK(catalogue.find(op) != nullptr);
  }
}

TEST_CASE("ONNX's own cases of our ops pass") {
  const Catalogue catalogue = standard_catalogue();
  const std::vector<BackendCase> cases = backend_cases();
  INFO("expected ONNX's cases in " << backend_folder() << ": install libonnx-testdata");
  REQUIRE(!cases.empty());
  std::map<std::string_view, int> skips;
  for (const Skip& skip : kSkipped) skips[skip.pattern] = 0;
  LeftOut left_out;
  int ran = 0, failed = 0, fixed = 0;
  for (const BackendCase& backend_case : cases) {
    if (!concerns(backend_case, catalogue)) {
      const auto unknown = std::ranges::find_if_not(
          backend_case.ops, [&](const std::string& op) { return is_known(op, catalogue); });
      if (unknown == backend_case.ops.end())
        left_out.add("no nodes", "none of them");
      else
        left_out.add(reason_of(*unknown), *unknown);
      continue;
    }
    const auto of_case = [&](const Skip& s) { return matches(s.pattern, backend_case.name); };
    const std::span<const Skip> own =
        has_other_cases() ? std::span<const Skip>(kSkippedElsewhere) : kSkippedHere;
    if (const auto found = std::ranges::find_if(own, of_case); found != own.end()) {
      left_out.add(found->reason, found->op);
      continue;
    }
    const auto skip = std::ranges::find_if(kSkipped, of_case);
    if (skip != std::end(kSkipped)) {
      ++skips[skip->pattern];
      left_out.add(skip->reason, skip->op);
      continue;
    }
    const Outcome outcome = run(backend_case, catalogue);
    const std::string folded = folded_op(backend_case);
    if (!outcome.failure.empty() && !outcome.wrong && !folded.empty()) {
      left_out.add(reason_of(folded), folded);
      continue;
    }
    ++ran;
    if (outcome.fixed) ++fixed;
    if (outcome.failure.empty()) continue;
    ++failed;
    FAIL_CHECK(backend_case.name << ": " << outcome.failure);
  }
  const std::string with_fixed = cat(fixed, " of them with inputs fixed at import");
  std::cout << "ONNX cases: " << ran << " ran, " << ran - failed << " passed, " << with_fixed
            << ", " << left_out.cases() << " left out\n"
            << left_out.table();
  CHECK(ran + left_out.cases() == static_cast<int>(cases.size()));
  if (has_other_cases()) return;
  for (const auto& [pattern, times] : skips) {
    INFO("the skipped case " << pattern << " is none of ours: remove it");
    CHECK(times > 0);
  }
  CHECK(ran >= kFloor);
  // docs/models.md has this table.
  std::ifstream page(LEAT_SOURCE_DIR "/docs/models.md");
  const std::string text(std::istreambuf_iterator<char>(page), {});
  CHECK(text.find(left_out.table()) != std::string::npos);
  CHECK(text.find(with_fixed) != std::string::npos);
}
