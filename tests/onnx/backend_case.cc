#include "tests/onnx/backend_case.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "devices/base/text.h"
#include "onnx.pb.h"
#include "ops/onnx/tensors.h"

namespace leat::testing {
namespace {

namespace fs = std::filesystem;

void collect_ops(const onnx_wire::GraphProto& graph, std::set<std::string>& ops) {
  for (const auto& node : graph.node()) {
    const bool standard = node.domain().empty() || node.domain() == "ai.onnx";
    ops.insert(standard ? node.op_type() : cat(node.domain(), ".", node.op_type()));
    for (const auto& attribute : node.attribute()) {
      if (attribute.has_g()) collect_ops(attribute.g(), ops);
    }
  }
}

// Operands whose values decide shapes.
constexpr struct {
  std::string_view op;
  int first, last;
} kParameters[] = {
    {"Reduce", 1, 1},  // all reductions
    {"Reshape", 1, 1},
    {"Expand", 1, 1},
    {"Tile", 1, 1},
    {"Pad", 1, 1},
    {"Pad", 3, 3},
    {"Slice", 1, 4},
    {"Squeeze", 1, 1},
    {"Unsqueeze", 1, 1},
    {"Split", 1, 1},
    {"Range", 0, 2},
    {"AffineGrid", 1, 1},
    {"Col2Im", 1, 2},
    {"HannWindow", 0, 0},
    {"HammingWindow", 0, 0},
    {"BlackmanWindow", 0, 0},
    {"Resize", 1, 3},
    {"Upsample", 1, 1},
    {"OneHot", 1, 1},
    {"TopK", 1, 1},
    {"ConstantOfShape", 0, 0},
    {"CenterCropPad", 1, 1},
    {"DFT", 1, 2},
    {"STFT", 1, 1},
    {"STFT", 3, 3},
    {"MelWeightMatrix", 0, 4},
    {"MaxUnpool", 2, 2},
    {"NonZero", 0, 0},
    {"Unique", 0, 0},
    {"Compress", 1, 1},
    {"NonMaxSuppression", 0, 4},
    {"ImageDecoder", 0, 0},
    {"SequenceAt", 1, 1},
    {"SequenceInsert", 2, 2},
    {"SequenceErase", 1, 1},
    {"SplitToSequence", 1, 1},
};

// The trip count of a Loop is a parameter, and so is all that it is computed from, and what an If
// computes its condition from.
void collect_conditions(const onnx_wire::GraphProto& graph, std::set<std::string>& names) {
  std::set<std::string> counts, fed;
  for (const auto& input : graph.input()) fed.insert(input.name());
  for (int i = graph.node_size(); i-- > 0;) {
    const auto& node = graph.node(i);
    if (node.op_type() == "Loop") {
      for (int k = 0; k < std::min(2, node.input_size()); ++k) counts.insert(node.input(k));
      continue;
    }
    // A condition that is fed is one that only a step knows.
    if (node.op_type() == "If" && !fed.contains(node.input(0))) counts.insert(node.input(0));
    for (const std::string& output : node.output()) {
      if (counts.contains(output)) counts.insert(node.input().begin(), node.input().end());
    }
  }
  names.insert(counts.begin(), counts.end());
}

std::set<std::string> parameter_names(const onnx_wire::GraphProto& graph) {
  std::set<std::string> names;
  collect_conditions(graph, names);
  for (const auto& node : graph.node()) {
    for (const auto& parameter : kParameters) {
      const bool reduces = parameter.op == "Reduce" && node.op_type().starts_with("Reduce");
      if (node.op_type() != parameter.op && !reduces) continue;
      for (int i = parameter.first; i <= parameter.last && i < node.input_size(); ++i) {
        names.insert(node.input(i));
      }
    }
  }
  return names;
}

// Adds the values from which those among `names` are computed. The sizes of a value are known
// without it.
void collect_sources(const onnx_wire::GraphProto& graph, std::set<std::string>& names) {
  for (int i = graph.node_size(); i-- > 0;) {
    const auto& node = graph.node(i);
    if (node.op_type() == "Shape" || node.op_type() == "Size") continue;
    for (const std::string& output : node.output()) {
      if (names.contains(output)) names.insert(node.input().begin(), node.input().end());
    }
  }
}

Result<Bytes> read(const fs::path& path) {
  return read_file(real_files(), path.string(), size_t{1} << 30);
}

// Reads input_0.pb, input_1.pb, ... while there is a next one.
Result<std::vector<Tensor>> tensors(const fs::path& folder, const char* kind) {
  std::vector<Tensor> out;
  for (int i = 0;; ++i) {
    const fs::path path = folder / cat(kind, "_", i, ".pb");
    if (!fs::exists(path)) return out;
    LEAT_ASSIGN_OR_RETURN(const Bytes bytes, read(path));
    onnx_wire::TensorProto proto;
    if (bytes.empty()) {  // an absent optional operand
      out.emplace_back();
      continue;
    }
    if (!proto.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
      return invalid_argument(cat(path.string(), ": expected a tensor"));
    }
    LEAT_ASSIGN_OR_RETURN(Tensor tensor, tensor_of(proto, {}));
    out.push_back(std::move(tensor));
  }
}

bool close(double actual, double expected, double relative) {
  if (std::isnan(expected)) return std::isnan(actual);
  if (std::isinf(expected)) return actual == expected;
  return std::abs(actual - expected) <= 1e-7 + relative * std::abs(expected);
}

// Types of 16 bits may differ by two units in the last place: an op of several parts rounds each.
bool same(const Tensor& actual, const Tensor& expected, int64_t i) {
  const double relative = expected.dtype() == DType::bf16  ? 2.0 / 128
                          : expected.dtype() == DType::f16 ? 2.0 / 1024
                                                           : 1e-3;
  if (is_narrow(expected.dtype())) return actual.data<uint8_t>()[i] == expected.data<uint8_t>()[i];
  if (is_float(expected.dtype())) return close(actual.at(i), expected.at(i), relative);
  return actual.int_at(i) == expected.int_at(i);
}

}  // namespace

bool has_other_cases() { return std::getenv("LEAT_ONNX_CASES") != nullptr; }

std::string backend_folder() {
  const char* other = std::getenv("LEAT_ONNX_CASES");
  return other ? other : "/usr/share/libonnx-testdata/data";
}

std::vector<BackendCase> backend_cases() {
  std::vector<BackendCase> cases;
  for (const char* group : {"node", "simple", "pytorch-operator", "pytorch-converted"}) {
    const fs::path folder = fs::path(backend_folder()) / group;
    if (!fs::is_directory(folder)) continue;
    for (const auto& entry : fs::directory_iterator(folder)) {
      BackendCase& next = cases.emplace_back();
      next.name = cat(group, "/", entry.path().filename().string());
      next.folder = entry.path().string();
      Result<Bytes> bytes = read(entry.path() / "model.onnx");
      onnx_wire::ModelProto model;
      if (!bytes.ok() || !model.ParseFromArray(bytes->data(), static_cast<int>(bytes->size())))
        continue;
      next.model = std::move(*bytes);
      collect_ops(model.graph(), next.ops);
    }
  }
  std::sort(cases.begin(), cases.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  return cases;
}

Result<std::vector<BackendData>> backend_data(const BackendCase& backend_case) {
  std::vector<BackendData> out;
  for (int i = 0;; ++i) {
    const fs::path folder = fs::path(backend_case.folder) / cat("test_data_set_", i);
    if (!fs::exists(folder)) break;
    BackendData data;
    data.name = folder.filename().string();
    data.folder = folder.string();
    LEAT_ASSIGN_OR_RETURN(data.inputs, tensors(folder, "input"));
    LEAT_ASSIGN_OR_RETURN(data.outputs, tensors(folder, "output"));
    out.push_back(std::move(data));
  }
  if (out.empty())
    return invalid_argument(cat(backend_case.folder, ": expected a test_data_set_0"));
  return out;
}

FixedCase fix_parameters(const BackendCase& backend_case, const BackendData& data, Fixing fixing) {
  onnx_wire::ModelProto model;
  model.ParseFromArray(backend_case.model.data(), static_cast<int>(backend_case.model.size()));
  std::set<std::string> names;
  if (fixing != Fixing::none) names = parameter_names(model.graph());
  if (fixing == Fixing::sources) collect_sources(model.graph(), names);
  FixedCase out;
  for (size_t i = 0; i < data.inputs.size(); ++i) {
    const auto& input = model.graph().input(static_cast<int>(i));
    if (!names.contains(input.name()) || !data.inputs[i].valid()) {
      out.fed.push_back(i);
      continue;
    }
    // Bits of bfloat16 in uint16: the model declares the type that they have.
    const DType declared = dtype_from_onnx_code(input.type().tensor_type().elem_type());
    out.fixed.emplace(input.name(), retyped(data.inputs[i], declared));
  }
  return out;
}

Tensor retyped(const Tensor& tensor, DType dtype) {
  if (tensor.dtype() != DType::u16 || dtype != DType::bf16) return tensor;
  const Tensor copy = tensor.clone();
  return Tensor::wrap(dtype, copy.shape(), copy.raw(), std::make_shared<Tensor>(copy));
}

std::string difference(const Tensor& actual, const Tensor& expected) {
  if (actual.dtype() != expected.dtype() || actual.shape() != expected.shape()) {
    return cat("expected ", dtype_name(expected.dtype()), expected.shape().to_string(),
               ", received ", dtype_name(actual.dtype()), actual.shape().to_string());
  }
  for (int64_t i = 0; i < expected.elements(); ++i) {
    if (!same(actual, expected, i)) {
      return cat("element ", i, ": expected ", expected.at(i), ", received ", actual.at(i));
    }
  }
  return "";
}

}  // namespace leat::testing
