#include "ops/onnx/parameters.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "devices/base/text.h"
#include "ops/onnx/batch_rows.h"
#include "ops/onnx/merged.h"

namespace leat {
namespace {

constexpr size_t kShown = 3;  // names in a note
constexpr std::string_view kAdvice =
    "PyTorch keeps all of them, and Dropout, with torch.onnx.export(model.train(), args, path, "
    "optimize=False); where that makes ops that this build lacks, with dynamo=False, "
    "training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False";

// Only float tensors with a rank can become variables: scalars are constants such as epsilons.
bool is_variable(const Tensor& value) {
  return is_float(value.dtype()) && value.shape().rank() > 0;
}

// The copy shares the bytes of `value`, since nothing writes to constants.
void add_constant(DraftGraph& graph, const std::string& name, const Tensor& value) {
  DraftConstant& constant = graph.constants.emplace_back();
  constant.name.name = name;
  constant.value = value;
}

// The range [first, end) of the weights among an op's operands.
struct Operands {
  std::string_view op;
  size_t first, end;
};
constexpr std::array<Operands, 10> kWeights{{{"Conv", 1, 3},
                                             {"ConvTranspose", 1, 3},
                                             {"Gemm", 1, 3},
                                             {"MatMul", 0, 2},
                                             {"BatchNormalization", 1, 3},
                                             {"LayerNormalization", 1, 3},
                                             {"Gather", 0, 1},
                                             {"LSTM", 1, 4},
                                             {"GRU", 1, 4},
                                             {"RNN", 1, 4}}};
// The first states of recurrent ops, which modules make of zeros unless the caller gives others.
constexpr std::array<Operands, 3> kStates{{{"LSTM", 5, 7}, {"GRU", 5, 6}, {"RNN", 5, 6}}};

// Operands that describe an op, and are no data.
constexpr std::array<Operands, 3> kSettings{
    {{"Resize", 1, 4}, {"Upsample", 1, 2}, {"OneHot", 2, 3}}};

bool is_zero(const Tensor& value) {
  for (int64_t i = 0; i < value.elements(); ++i) {
    if (value.at(i) != 0) return false;
  }
  return true;
}

// A normalization with its running statistics, inputs 3 and 4.
bool is_norm(const DraftNode& node) {
  return node.domain.empty() && node.op == "BatchNormalization" && node.inputs.size() == 5;
}

// True if a matrix of floats is the other one transposed. Matrices of one value tell nothing.
bool is_transposed(const Tensor& a, const Tensor& b) {
  if (!is_variable(a) || a.dtype() != b.dtype() || a.shape().rank() != 2 || b.shape().rank() != 2)
    return false;
  const int64_t rows = a.shape()[0], columns = a.shape()[1];
  if (b.shape()[0] != columns || b.shape()[1] != rows) return false;
  bool varies = false;
  for (int64_t i = 0; i < a.elements(); ++i) {
    const double value = a.at(i);
    if (value != b.at(i % columns * rows + i / columns)) return false;
    varies = varies || value != a.at(0);
  }
  return varies;
}

// True for a constant with an infinity, or a number that stands for one: it masks what an op must
// not see, and is no weight. The mask of an example that hides nothing is all zeros; then its name
// tells, which the exporter gives it after the function that chooses between two values.
bool is_mask(const std::string& name, const Tensor& value) {
  if (name.starts_with("where") && is_zero(value)) return true;
  const double most = value.dtype() == DType::f16 ? 6e4 : 1e30;
  for (int64_t i = 0; i < value.elements(); ++i) {
    if (!(std::abs(value.at(i)) < most)) return true;
  }
  return false;
}

// The nodes of the graph and its regions, in their order.
void list_nodes(const DraftGraph& graph, std::vector<const DraftNode*>& nodes) {
  for (const DraftNode& node : graph.nodes) {
    nodes.push_back(&node);
    for (const auto& [name, attr] : node.attrs) {
      const auto* region = std::get_if<std::shared_ptr<DraftGraph>>(&attr);
      if (region != nullptr) list_nodes(**region, nodes);
    }
  }
}

// PyTorch's exporter names a constant after the function that computed it, "zeros_3". These have no
// parameters.
bool is_made_of_nothing(std::string_view name) {
  constexpr std::array<std::string_view, 8> kMakers{"arange",   "eye",  "full",      "full_like",
                                                    "linspace", "ones", "ones_like", "zeros"};
  const std::string_view function = name.substr(0, name.find_last_not_of("_0123456789") + 1);
  return std::find(kMakers.begin(), kMakers.end(), function) != kMakers.end();
}

// "3 things ('a', 'b', 'c')", "5 things ('a', 'b', 'c' and others)".
std::string counted(const std::vector<std::string>& names, std::string_view one,
                    std::string_view many) {
  const size_t shown = std::min(names.size(), kShown);
  return cat(names.size(), " ", names.size() == 1 ? one : many, " ('",
             join(std::span(names).first(shown), "', '"), "'",
             names.size() > shown ? " and others" : "", ")");
}

}  // namespace

std::map<std::string, bool, std::less<>> read_signature(std::string_view text) {
  std::map<std::string, bool, std::less<>> members;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    // A line of another form has no member and is skipped.
    for (const std::string_view kind : {"PARAMETER", "BUFFER", "CONSTANT_TENSOR"}) {
      const std::string key = cat(": ", kind, " target='");
      const size_t at = line.find(key);
      if (at == std::string_view::npos) continue;
      const std::string_view rest = line.substr(at + key.size());
      const size_t end = rest.find('\'');
      if (end != std::string_view::npos && end > 0)
        members.emplace(rest.substr(0, end), kind == "PARAMETER");
    }
  }
  return members;
}

OnnxParameters::OnnxParameters(OnnxOrigin origin, DraftGraph& graph)
    : origin_(std::move(origin)), graph_(graph) {}

// The order matters: the roles are those of the names after the aliases are apart, and uses refer
// to the final names.
void OnnxParameters::separate() {
  separate_aliases();
  const RestoredMembers restored = restore_members(origin_, graph_);
  separated_ += restored.merged;
  left_out_ = restored.left_out;
  restore_transposed();
  separate_roles();
  find_uses();
  find_missing();
  separate_modules();
  share_rows(graph_, origin_.ranks, [this](const std::string& constant) {
    // The mask of a batch serves one of any size.
    const bool mask = masks_.contains(constant);
    if (!is_computed(constant) || !(mask || trains(constant))) return std::string();
    // One that is missing is the one that was expanded.
    const bool named = !mask && missing_.size() == 1;
    const std::string own = named ? missing_[0] : cat(constant, "/row");
    if (named) missing_.clear();
    if (near_.contains(constant)) near_.insert(own);
    if (mask) masks_.insert(own);
    shared_ += !mask;
    return own;
  });
}

void OnnxParameters::take_all() {
  for (const DraftNode& node : graph_.nodes) {
    if (node.op != "BatchNormalization") continue;
    for (size_t i = 3; i < node.inputs.size(); ++i) statistics_.insert(node.inputs[i].name);
  }
}

// The names that the older exporter makes up are "onnx::Conv_12", "/block/Identity_output_0" and
// "12".
bool OnnxParameters::is_parameter_name(const std::string& name) const {
  if (origin_.knows()) return origin_.members.contains(name);
  const bool number =
      std::all_of(name.begin(), name.end(), [](char c) { return '0' <= c && c <= '9'; });
  return origin_.producer == "pytorch" && !number && !name.starts_with("onnx::") &&
         !name.starts_with("/");
}

// An Identity from a constant to a parameter's name was a parameter of its own before the export.
// It is replaced with a constant of that name, unless the name is an output of the model.
void OnnxParameters::separate_aliases() {
  std::map<std::string, Tensor> values;
  std::set<std::string> outputs;
  for (const DraftValue& output : graph_.outputs) outputs.insert(output.name.name);
  for (const DraftConstant& constant : graph_.constants) {
    if (is_variable(constant.value)) values.emplace(constant.name.name, constant.value);
  }
  std::erase_if(graph_.nodes, [&](const DraftNode& node) {
    if (node.op != "Identity" || !node.domain.empty() || node.inputs.size() != 1 ||
        node.outputs.size() != 1 || !is_parameter_name(node.outputs[0].name) ||
        outputs.contains(node.outputs[0].name)) {
      return false;
    }
    const auto value = values.find(node.inputs[0].name);
    if (value == values.end() || values.contains(node.outputs[0].name)) return false;
    add_constant(graph_, node.outputs[0].name, value->second);
    values.emplace(node.outputs[0].name, value->second);
    ++separated_;
    return true;
  });
}

// A constant of the exporter's that has the transposed values of a parameter was made from it, as
// for the output layer of a language model that shares the weights of its embedding.
void OnnxParameters::restore_transposed() {
  if (!origin_.knows()) return;
  const auto is_parameter = [&](const std::string& name) {
    const auto member = origin_.members.find(name);
    return member != origin_.members.end() && member->second;
  };
  std::vector<DraftNode> nodes;
  std::set<std::string> made;
  for (const DraftConstant& constant : graph_.constants) {
    if (origin_.members.contains(constant.name.name)) continue;
    const auto source = std::find_if(
        graph_.constants.begin(), graph_.constants.end(), [&](const DraftConstant& other) {
          return is_parameter(other.name.name) && is_transposed(constant.value, other.value);
        });
    if (source == graph_.constants.end()) continue;
    DraftNode node;
    node.op = "Transpose";
    node.inputs = {source->name};
    node.outputs = {constant.name};
    node.attrs["perm"] = Attr(std::vector<int64_t>{1, 0});
    nodes.push_back(std::move(node));
    made.insert(constant.name.name);
  }
  restored_ = made.size();
  std::erase_if(graph_.constants,
                [&](const DraftConstant& constant) { return made.contains(constant.name.name); });
  graph_.nodes.insert(graph_.nodes.begin(), std::make_move_iterator(nodes.begin()),
                      std::make_move_iterator(nodes.end()));
}

// A constant with several roles (weights of an op, running mean, running variance) must become
// several: weights are trained, and statistics are updated.
void OnnxParameters::separate_roles() {
  std::set<std::string> names;
  std::map<std::string, Tensor> values;
  std::map<std::string, std::set<Role>> roles;
  for (const DraftConstant& constant : graph_.constants) {
    names.insert(constant.name.name);
    if (is_variable(constant.value)) values.emplace(constant.name.name, constant.value);
  }
  const auto role_of = [](const DraftNode& node, size_t input) {
    if (!is_norm(node) || input < 3) return Role::weights;
    return input == 3 ? Role::mean : Role::variance;
  };
  // First finds all roles of each constant, then renames it in the normalizations.
  for (const DraftNode& node : graph_.nodes) {
    for (const DraftName& output : node.outputs) names.insert(output.name);
    if (node.op == "Identity" && node.domain.empty())
      continue;  // the reader of its output has the role
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (values.contains(node.inputs[i].name)) roles[node.inputs[i].name].insert(role_of(node, i));
    }
  }
  // Normalizations that shared a statistic still share it afterwards: one new name per (constant,
  // role).
  std::map<std::pair<std::string, Role>, std::string> apart;
  for (DraftNode& node : graph_.nodes) {
    for (size_t i = 3; is_norm(node) && i < 5; ++i) {
      DraftName& input = node.inputs[i];
      const auto used = roles.find(input.name);
      const Role role = role_of(node, i);
      // The first role keeps the name.
      if (used == roles.end() || role == *used->second.begin()) continue;
      auto [own, fresh] = apart.try_emplace({input.name, role});
      if (fresh) {
        own->second = cat(input.name, role == Role::mean ? "/running_mean" : "/running_var");
        while (!names.insert(own->second).second) own->second += "_";
        add_constant(graph_, own->second, values.at(input.name));
        ++separated_;
      }
      input.name = own->second;
    }
  }
}

// Identities are followed back, so that a use through one counts for the constant itself. The nodes
// of regions count as well, by the names that they capture.
void OnnxParameters::find_uses() {
  std::vector<const DraftNode*> nodes;
  list_nodes(graph_, nodes);
  std::map<std::string, std::string> passed;  // by an Identity's output: its input
  std::set<std::string> zeros;
  const auto origin = [&](const std::string& name) {
    const auto at = passed.find(name);
    return at == passed.end() ? name : at->second;
  };
  for (const DraftConstant& constant : graph_.constants) {
    if (!is_variable(constant.value)) continue;
    if (is_mask(constant.name.name, constant.value)) masks_.insert(constant.name.name);
    if (is_zero(constant.value)) zeros.insert(constant.name.name);
  }
  for (const DraftNode* each : nodes) {
    const DraftNode& node = *each;
    if (!node.domain.empty()) continue;
    if (node.op == "Identity" && node.inputs.size() == 1 && node.outputs.size() == 1)
      passed.emplace(node.outputs[0].name, origin(node.inputs[0].name));
    norms_ += is_norm(node);
    for (size_t i = 3; is_norm(node) && i < 5; ++i) statistics_.insert(origin(node.inputs[i].name));
    for (const Operands& weights : kWeights) {
      if (weights.op != node.op) continue;
      for (size_t i = weights.first; i < std::min(weights.end, node.inputs.size()); ++i)
        weights_.insert(origin(node.inputs[i].name));
    }
    for (const Operands& settings : kSettings) {
      if (settings.op != node.op) continue;
      for (size_t i = settings.first; i < std::min(settings.end, node.inputs.size()); ++i)
        settings_.insert(origin(node.inputs[i].name));
    }
    for (const Operands& states : kStates) {
      if (states.op != node.op) continue;
      for (size_t i = states.first; i < std::min(states.end, node.inputs.size()); ++i) {
        const std::string state = origin(node.inputs[i].name);
        if (zeros.contains(state)) states_.insert(state);
      }
    }
  }
}

// The exporter computes new weights from a folded normalization's own. folded_note() reports it, so
// these parameters do not count as missing.
void OnnxParameters::find_missing() {
  std::set<std::string> there;
  for (const DraftConstant& constant : graph_.constants) there.insert(constant.name.name);
  const bool folded = folded_norms() > 0;
  for (const auto& [name, parameter] : origin_.members) {
    const std::string module = name.substr(0, name.rfind('.') + 1);
    const bool of_folded = folded && origin_.members.contains(module + "running_mean");
    if (parameter && !of_folded && !there.contains(name)) missing_.push_back(name);
  }
  for (const DraftNode& node : graph_.nodes) {
    const auto call = origin_.calls.find(node.offset);
    // The exporter makes up scales of ones and biases of zeros for these.
    const bool made_up = call != origin_.calls.end() && call->second.function == "group_norm" &&
                         node.op == "InstanceNormalization";
    for (const DraftName& input : node.inputs) {
      // A module hands a parameter that it expanded, such as a class token, to those inside it.
      const bool expanded = input.name.starts_with("expand");
      const auto may_read = [&](const std::string& parameter) {
        return call == origin_.calls.end() || may_use(call->second, parameter) ||
               (expanded && is_inside(call->second, parameter));
      };
      if (!made_up && std::any_of(missing_.begin(), missing_.end(), may_read))
        near_.insert(input.name);
    }
  }
}

// Constants that the exporter computed from equal parameters of several modules are equal, and
// written once.
void OnnxParameters::separate_modules() {
  std::vector<std::string> trained;
  for (const DraftConstant& constant : graph_.constants) {
    const std::string& name = constant.name.name;
    if (is_variable(constant.value) && is_computed(name) && trains(name)) trained.push_back(name);
  }
  for (const std::string& own : split_by_module(origin_.calls, trained, missing_, graph_)) {
    near_.insert(own);
    ++separated_;
  }
}

// True if the module has no such member and the constant has no role that only a parameter has.
bool OnnxParameters::is_computed(const std::string& constant) const {
  return origin_.knows() && !origin_.members.contains(constant) && !weights_.contains(constant);
}

// A computed constant may have been computed from a parameter that is missing, if the node that
// reads it belongs to the parameter's module or to one around it.
bool OnnxParameters::trains(const std::string& constant) const {
  if (statistics_.contains(constant) || settings_.contains(constant)) return false;
  if (is_computed(constant))
    return near_.contains(constant) && !masks_.contains(constant) && !states_.contains(constant) &&
           !is_made_of_nothing(constant);
  const auto member = origin_.members.find(constant);
  return member == origin_.members.end() || member->second;
}

std::vector<std::string> OnnxParameters::notes() const {
  std::vector<std::string> notes;
  for (const std::string& note : {trained_note(), folded_note(), missing_note()}) {
    if (!note.empty()) notes.push_back(note);
  }
  // The advice helps only if something is folded or missing; trained_note() is always there.
  const bool advises = notes.size() > 1;
  if (separated_ > 0) {
    const bool one = separated_ == 1;
    notes.push_back(
        cat(separated_, one ? " initializer" : " initializers",
            " that the exporter had written as one with others, because they were "
            "equal, ",
            one ? "is a variable of its own again" : "are variables of their own again"));
  }
  if (shared_ > 0) {
    notes.push_back(
        cat(shared_, shared_ == 1 ? " constant" : " constants",
            " with a row for each of the example's ",
            shared_ == 1 ? "is one variable for all rows" : "are one variable each for all rows"));
  }
  if (left_out_ > 0) {
    notes.push_back(cat(left_out_, left_out_ == 1 ? " bias" : " biases",
                        " that the exporter had left out, because all values were zero, ",
                        left_out_ == 1 ? "is a variable again" : "are variables again"));
  }
  if (restored_ > 0) {
    notes.push_back(
        cat(restored_, restored_ == 1 ? " initializer" : " initializers",
            " that the exporter had transposed, from a parameter that the file has, too, ",
            restored_ == 1 ? "is" : "are", " that parameter again"));
  }
  if (advises) notes.push_back(std::string(kAdvice));
  return notes;
}

std::string OnnxParameters::trained_note() const {
  size_t trained = 0, statistics = 0;
  int64_t values = 0;
  std::vector<std::string> buffers, computed, perhaps, masks, states;
  for (const DraftConstant& constant : graph_.constants) {
    const std::string& name = constant.name.name;
    if (!is_variable(constant.value) || stays_constant(name)) continue;
    if (trains(name)) {
      ++trained;
      values += constant.value.elements();
    }
    // Tells statistics, constants that the exporter computed, and buffers apart. A computed one may
    // be trained all the same.
    if (statistics_.contains(name)) {
      ++statistics;
    } else if (is_computed(name)) {
      const bool known = near_.contains(name);  // by its values
      (trains(name)                      ? perhaps
       : known && states_.contains(name) ? states
       : known && masks_.contains(name)  ? masks
                                         : computed)
          .push_back(name);
    } else if (!trains(name)) {
      buffers.push_back(name);
    }
  }
  std::vector<std::string> fixed;
  if (statistics > 0) fixed.push_back(cat(statistics, " running statistics"));
  if (!buffers.empty()) fixed.push_back(counted(buffers, "buffer", "buffers"));
  if (!masks.empty()) fixed.push_back(counted(masks, "mask", "masks"));
  if (!states.empty()) fixed.push_back(counted(states, "first state", "first states"));
  const auto constants = [](const std::vector<std::string>& names) {
    return counted(names, "constant that the exporter computed",
                   "constants that the exporter computed");
  };
  if (!computed.empty()) fixed.push_back(constants(computed));
  return cat(
      "trains ", trained, trained == 1 ? " variable" : " variables", " of ", values,
      " values in all",
      perhaps.empty() ? "" : cat(", with them ", constants(perhaps), ", perhaps from parameters"),
      fixed.empty() ? "" : cat("; does not train ", join(fixed, ", ")));
}

// The number of normalizations in the signature that the graph lacks. For files of the older
// exporter, it counts the nodes whose weights the exporter computed from a normalization.
size_t OnnxParameters::folded_norms() const {
  size_t had = 0, folded = 0;
  for (const auto& [name, parameter] : origin_.members) had += name.ends_with("running_mean");
  if (origin_.knows()) return had > norms_ ? had - norms_ : 0;
  for (const DraftNode& node : graph_.nodes) {
    const bool computed = node.inputs.size() == 3 && origin_.producer == "pytorch" &&
                          node.inputs[1].name.starts_with("onnx::") &&
                          node.inputs[2].name.starts_with("onnx::");
    folded += computed && (node.op == "Conv" || node.op == "ConvTranspose" || node.op == "Gemm");
  }
  return folded;
}

std::string OnnxParameters::folded_note() const {
  const size_t folded = folded_norms();
  if (folded == 0) return "";
  return cat("the exporter folded ", folded, " BatchNormalization", folded == 1 ? "" : "s",
             " into the weights before: training goes on without them");
}

std::string OnnxParameters::missing_note() const {
  if (missing_.empty()) return "";
  size_t parameters = 0;
  for (const auto& [name, parameter] : origin_.members) parameters += parameter;
  return cat("lacks ", counted(missing_, "parameter", "parameters"), " of the module's ",
             parameters,
             ": the module shares them, or the exporter merged them with equal ones, which train "
             "as one now, or computed constants from them");
}

}  // namespace leat
