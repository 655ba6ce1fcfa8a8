// The form of nodes in older opsets of ONNX: the reverse of ops/onnx/upgrade.cc.
//
// Source: the changelog of ONNX's operators. Opsets that only gave an op more types count as equal.
#include <algorithm>
#include <string_view>
#include <utility>

#include "devices/base/text.h"
#include "ops/onnx/export.h"
#include "ops/onnx/export_draft.h"

namespace leat {
namespace {

// Ops that came after kOldestExport.
constexpr std::pair<std::string_view, int64_t> kNewOps[] = {
    {"HardSwish", 14},
    {"Trilu", 14},
    {"Bernoulli", 15},
    {"CastLike", 15},
    {"GridSample", 16},
    {"LayerNormalization", 17},
    {"BitwiseAnd", 18},
    {"BitwiseNot", 18},
    {"BitwiseOr", 18},
    {"BitwiseXor", 18},
    {"Col2Im", 18},
    {"CenterCropPad", 18},
    {"Mish", 18},
    {"AffineGrid", 20},
    {"DFT", 20},  // the axis was an attribute before
    {"Gelu", 20},
    {"GroupNormalization", 21},
    {"Attention", 23},
    {"RMSNormalization", 23},
    {"RotaryEmbedding", 23},
    {"Swish", 24},
    {"TensorScatter", 24},
    {"BitCast", 26},
};

// Attributes that came later, with the value that means the same as no attribute.
struct NewAttribute {
  std::string_view op, name;
  int64_t since;
  int64_t fallback;
};
constexpr NewAttribute kNewAttributes[] = {
    {"Reshape", "allowzero", 14, 0},
    {"Shape", "start", 15, 0},
    {"BatchNormalization", "training_mode", 14, 0},
    {"Resize", "antialias", 18, 0},
    {"Cast", "saturate", 19, 1},
    {"Range", "stash_type", 27, 1},
    {"Attention", "left_window_size", 25, -1},
    {"Attention", "right_window_size", 25, -1},
};

// Other attributes that came later. Their defaults are texts or lists.
struct NewSetting {
  std::string_view op, name;
  int64_t since;
  std::string_view fallback;  // "-": a list, whose absence means something else
};
constexpr NewSetting kNewSettings[] = {
    {"Shape", "end", 15, "-"},
    {"AveragePool", "dilations", 19, "-"},
    {"Resize", "axes", 18, "-"},
    {"Resize", "keep_aspect_ratio_policy", 18, "stretch"},
    {"Cast", "round_mode", 24, "up"},
    {"ScatterElements", "reduction", 16, "none"},
    {"ScatterND", "reduction", 16, "none"},
};

// Values of attributes that came later than the attribute.
struct NewWord {
  std::string_view op, name, word;
  int64_t since;
};
constexpr NewWord kNewWords[] = {
    {"Pad", "mode", "wrap", 19},
    {"Resize", "coordinate_transformation_mode", "half_pixel_symmetric", 19},
    {"ScatterElements", "reduction", "max", 18},
    {"ScatterElements", "reduction", "min", 18},
    {"ScatterND", "reduction", "max", 18},
    {"ScatterND", "reduction", "min", 18},
};

// Reductions whose axes were an attribute before opset 18.
constexpr std::string_view kReductions[] = {"ReduceL1",        "ReduceL2",     "ReduceMax",
                                            "ReduceMean",      "ReduceMin",    "ReduceProd",
                                            "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp"};

// Fits the nodes of one graph, and of its regions by a call for each.
class OpsetFitter {
 public:
  OpsetFitter(int64_t opset, const std::map<std::string, int64_t>& least)
      : opset_(opset), least_(least) {}

  void fit(DraftGraph& graph) {
    for (DraftNode& node : graph.nodes) {
      if (node.op == "Constant") remember(node);
      fit_node(node);
      for (auto& [name, attr] : node.attrs) {
        if (auto* region = std::get_if<std::shared_ptr<DraftGraph>>(&attr)) fit(**region);
      }
    }
  }

  std::vector<std::string> lacking;
  int64_t needed = 0;

 private:
  void remember(const DraftNode& node) {
    const auto value = node.attrs.find("value");
    const Attr* attr = value == node.attrs.end() ? nullptr : std::get_if<Attr>(&value->second);
    const Tensor* tensor = attr == nullptr ? nullptr : std::get_if<Tensor>(attr);
    if (tensor != nullptr && tensor->dtype() == DType::i64)
      constants_[node.outputs[0].name] = *tensor;
  }

  void need(const DraftNode& node, int64_t opset) {
    if (opset <= opset_) return;
    needed = std::max(needed, opset);
    const std::string& name = node.name.empty() ? node.outputs[0].name : node.name;
    lacking.push_back(cat(node.op, " '", name, "' needs opset ", opset));
  }

  // Sizes that the graph computes are 0 only of tensors without elements, which older opsets cannot
  // reshape.
  void drop_allowzero(DraftNode& node) {
    const auto sizes = constants_.find(node.inputs[1].name);
    if (sizes != constants_.end()) {
      for (const int64_t size : sizes->second.span<int64_t>()) {
        if (size == 0) return;
      }
    }
    node.attrs.erase("allowzero");
  }

  void fit_node(DraftNode& node) {
    for (const auto& [op, since] : kNewOps) {
      if (node.op == op) need(node, since);
    }
    if (const auto found = least_.find(node.outputs[0].name); found != least_.end())
      need(node, found->second);
    if (node.op == "Reshape" && opset_ < 14) drop_allowzero(node);
    for (const NewAttribute& each : kNewAttributes) drop(node, each);
    for (const NewSetting& each : kNewSettings) drop(node, each);
    for (const NewWord& each : kNewWords) {
      if (node.op == each.op && text(node, each.name) == each.word) need(node, each.since);
    }
    if (node.op == "GridSample") name_mode(node);
    if (node.op == "RoiAlign" && opset_ < 16) drop_coordinates(node);
    if (node.op == "Attention" && node.inputs.size() > 6) need(node, 24);
    if (node.op == "Split" && node.attrs.contains("num_outputs")) need(node, 18);
    if (node.op == "Pad" && node.inputs.size() > 3) need(node, 18);
    const bool reduces =
        std::find(std::begin(kReductions), std::end(kReductions), node.op) != std::end(kReductions);
    if (reduces && opset_ < 18) fit_reduction(node);
  }

  const Attr* find(const DraftNode& node, std::string_view name) const {
    const auto found = node.attrs.find(name);
    return found == node.attrs.end() ? nullptr : std::get_if<Attr>(&found->second);
  }

  // A text attribute; "" if the node has none of this name.
  std::string_view text(const DraftNode& node, std::string_view name) const {
    const Attr* attr = find(node, name);
    const auto* value = attr == nullptr ? nullptr : std::get_if<std::string>(attr);
    return value == nullptr ? std::string_view() : *value;
  }

  // Opset 20 renamed two modes, and Leat takes both names.
  void name_mode(DraftNode& node) const {
    const std::string_view mode = text(node, "mode");
    const bool old = opset_ < 20;
    if (mode == "linear" || mode == "bilinear")
      node.attrs.insert_or_assign("mode", Attr(std::string(old ? "bilinear" : "linear")));
    else if (mode == "cubic" || mode == "bicubic")
      node.attrs.insert_or_assign("mode", Attr(std::string(old ? "bicubic" : "cubic")));
  }

  // Before opset 16, there was one kind of coordinates, which is not the default of today.
  void drop_coordinates(DraftNode& node) {
    constexpr const char* kName = "coordinate_transformation_mode";
    if (text(node, kName) != "output_half_pixel") return need(node, 16);
    node.attrs.erase(kName);
  }

  void drop(DraftNode& node, const NewAttribute& of) {
    if (node.op != of.op || opset_ >= of.since) return;
    const Attr* attr = find(node, of.name);
    if (attr == nullptr) return;
    const auto* value = std::get_if<int64_t>(attr);
    if (value == nullptr || *value != of.fallback) return need(node, of.since);
    node.attrs.erase(node.attrs.find(of.name));
  }
  void drop(DraftNode& node, const NewSetting& of) {
    if (node.op != of.op || opset_ >= of.since) return;
    const Attr* attr = find(node, of.name);
    if (attr == nullptr) return;
    const auto* value = std::get_if<std::string>(attr);
    if (value == nullptr || *value != of.fallback) return need(node, of.since);
    node.attrs.erase(node.attrs.find(of.name));
  }

  void fit_reduction(DraftNode& node) {
    const Attr* noop = find(node, "noop_with_empty_axes");
    const bool may_do_nothing = noop != nullptr && std::get<int64_t>(*noop) != 0;
    const bool has_axes = node.inputs.size() > 1 && !node.inputs[1].name.empty();
    if (!has_axes) {
      if (may_do_nothing) return need(node, 18);
    } else {
      const auto axes = constants_.find(node.inputs[1].name);
      // An attribute without axes means all of them.
      if (axes == constants_.end() || axes->second.elements() == 0) return need(node, 18);
      const auto values = axes->second.span<int64_t>();
      node.attrs.insert_or_assign("axes", Attr(std::vector<int64_t>(values.begin(), values.end())));
    }
    node.inputs.resize(1);
    node.attrs.erase("noop_with_empty_axes");
  }

  const int64_t opset_;
  const std::map<std::string, int64_t>& least_;
  std::map<std::string, Tensor> constants_;
};

}  // namespace

std::vector<std::string> fit_to_opset(ExportDraft& from, int64_t opset, int64_t& needed) {
  OpsetFitter fitter(opset, from.least_opsets);
  fitter.fit(from.draft);
  needed = std::max(needed, fitter.needed);
  return std::move(fitter.lacking);
}

}  // namespace leat
