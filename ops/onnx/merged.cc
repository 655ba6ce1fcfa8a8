#include "ops/onnx/merged.h"

#include <algorithm>
#include <array>
#include <set>

#include "ops/graph/limits.h"

namespace leat {
namespace {

// An argument of a call of aten, and the operand of the node that has its value.
struct Role {
  std::string_view function;
  size_t argument;
  std::string_view op;
  size_t operand;
};
constexpr std::array kRoles{
    Role{"linear", 1, "Gemm", 1},
    Role{"linear", 2, "Gemm", 2},
    Role{"addmm", 2, "Gemm", 1},
    Role{"addmm", 0, "Gemm", 2},
    Role{"conv1d", 1, "Conv", 1},
    Role{"conv1d", 2, "Conv", 2},
    Role{"conv2d", 1, "Conv", 1},
    Role{"conv2d", 2, "Conv", 2},
    Role{"conv3d", 1, "Conv", 1},
    Role{"conv3d", 2, "Conv", 2},
    Role{"convolution", 1, "Conv", 1},
    Role{"convolution", 2, "Conv", 2},
    Role{"convolution", 1, "ConvTranspose", 1},
    Role{"convolution", 2, "ConvTranspose", 2},
    Role{"conv_transpose1d", 2, "ConvTranspose", 2},
    Role{"conv_transpose2d", 2, "ConvTranspose", 2},
    Role{"conv_transpose3d", 2, "ConvTranspose", 2},
    Role{"layer_norm", 2, "LayerNormalization", 1},
    Role{"layer_norm", 3, "LayerNormalization", 2},
    Role{"rms_norm", 2, "RMSNormalization", 1},
    Role{"group_norm", 2, "GroupNormalization", 1},
    Role{"group_norm", 3, "GroupNormalization", 2},
    Role{"batch_norm", 1, "BatchNormalization", 1},
    Role{"batch_norm", 2, "BatchNormalization", 2},
    Role{"batch_norm", 3, "BatchNormalization", 3},
    Role{"batch_norm", 4, "BatchNormalization", 4},
    Role{"_native_batch_norm_legit_no_training", 1, "BatchNormalization", 1},
    Role{"_native_batch_norm_legit_no_training", 2, "BatchNormalization", 2},
    Role{"_native_batch_norm_legit_no_training", 3, "BatchNormalization", 3},
    Role{"_native_batch_norm_legit_no_training", 4, "BatchNormalization", 4},
    Role{"embedding", 0, "Gather", 0},
};

// Calls whose only constant is the only parameter among the arguments from `argument` on.
struct Sole {
  std::string_view function, op;
  size_t argument;
};
constexpr std::array kSoles{Sole{"linear", "Add", 2}, Sole{"add", "Add", 0}, Sole{"sub", "Sub", 0},
                            Sole{"mul", "Mul", 0}, Sole{"div", "Div", 0}};

constexpr int64_t kMostGroups = int64_t{1} << 20;

Tensor transposed(const Tensor& matrix) {
  const int64_t rows = matrix.shape()[0], columns = matrix.shape()[1];
  Tensor out(matrix.dtype(), Shape({columns, rows}));
  dispatch_dtype(matrix.dtype(), [&]<typename T>(T) {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < columns; ++c)
        out.data<T>()[c * rows + r] = matrix.data<T>()[r * columns + c];
    }
  });
  return out;
}

class Restorer {
 public:
  Restorer(const OnnxOrigin& origin, DraftGraph& graph) : origin_(origin), graph_(graph) {
    for (const DraftConstant& constant : graph.constants) {
      taken_.insert(constant.name.name);
      values_.emplace(constant.name.name, constant.value);
    }
    for (const DraftValue& input : graph.inputs) taken_.insert(input.name.name);
    for (const DraftNode& node : graph.nodes) {
      for (const DraftName& output : node.outputs) taken_.insert(output.name);
    }
  }

  RestoredMembers run() {
    std::vector<DraftNode> transposes;  // in front of all readers
    for (DraftNode& node : graph_.nodes) {
      const auto call = origin_.calls.find(node.offset);
      if (call == origin_.calls.end() || !node.domain.empty()) continue;
      restore_roles(node, call->second);
      restore_sole(node, call->second);
      turn(node, call->second, transposes);
    }
    graph_.nodes.insert(graph_.nodes.begin(), std::make_move_iterator(transposes.begin()),
                        std::make_move_iterator(transposes.end()));
    drop_unused();
    return restored_;
  }

 private:
  // The member that an argument was; "" if it was none.
  std::string member(const TorchCall& call, size_t argument) const {
    const auto name = origin_.names.find(call.named(argument));
    return name == origin_.names.end() ? "" : name->second;
  }

  // The float constant with a rank that an operand is; null if it is another value.
  const Tensor* constant(const DraftNode& node, size_t operand) const {
    if (operand >= node.inputs.size()) return nullptr;
    const auto value = values_.find(node.inputs[operand].name);
    if (value == values_.end() || !is_float(value->second.dtype())) return nullptr;
    return value->second.shape().rank() > 0 ? &value->second : nullptr;
  }

  void restore_roles(DraftNode& node, const TorchCall& call) {
    for (const Role& role : kRoles) {
      if (role.function != call.function || role.op != node.op) continue;
      const std::string own = member(call, role.argument);
      if (own.empty()) continue;
      if (constant(node, role.operand) != nullptr) {
        rename(node, role.operand, own);
      } else if (role.operand == 2 && node.inputs.size() == 2) {
        add_zeros(node, own);
      }
    }
  }

  void restore_sole(DraftNode& node, const TorchCall& call) {
    for (const Sole& sole : kSoles) {
      if (sole.function != call.function || sole.op != node.op || node.inputs.size() != 2) continue;
      std::vector<std::string> members;
      for (size_t i = sole.argument; i < call.arguments.size(); ++i) {
        if (std::string own = member(call, i); !own.empty()) members.push_back(std::move(own));
      }
      const size_t operand = constant(node, 0) != nullptr ? 0 : 1;
      if (members.size() == 1 && constant(node, operand) != nullptr &&
          constant(node, 1 - operand) == nullptr)
        rename(node, operand, members[0]);
    }
  }

  // Takes a member's name for a new constant. False if the name belongs to another value, or all
  // that was added would be larger than constants may be.
  bool take(const std::string& own, const Tensor& value) {
    if (own.size() > limits::kNameLength || taken_.contains(own)) return false;
    bytes_ += value.bytes();
    if (bytes_ > limits::kConstantBytes) return false;
    taken_.insert(own);
    values_.emplace(own, value);
    DraftConstant& constant = graph_.constants.emplace_back();
    constant.name.name = own;
    constant.value = value;
    return true;
  }

  // The operand is a member's constant that stood for this one, too. A constant that the exporter
  // computed may be another value than the member, so that it keeps its name.
  void rename(DraftNode& node, size_t operand, const std::string& own) {
    DraftName& input = node.inputs[operand];
    const std::string from = input.name;
    if (from == own || !origin_.members.contains(from)) return;
    const auto before = renamed_.find(own);  // by another node that shares it
    if (before == renamed_.end()) {
      if (!take(own, values_.at(from))) return;
      renamed_.emplace(own, from);
      ++restored_.merged;
    } else if (before->second != from) {
      return;
    }
    input.name = own;
  }

  static bool is_one(const DraftNode& node, std::string_view name) {
    const auto attr = node.attrs.find(name);
    if (attr == node.attrs.end()) return true;
    const auto* value = std::get_if<Attr>(&attr->second);
    const auto* number = value == nullptr ? nullptr : std::get_if<double>(value);
    return number != nullptr && *number == 1;
  }

  void add_zeros(DraftNode& node, const std::string& own) {
    const Tensor* weights = constant(node, 1);
    if (weights == nullptr || weights->shape().rank() < 2 || !is_one(node, "beta")) return;
    const auto number = [&](std::string_view name, int64_t otherwise) {
      const auto attr = node.attrs.find(name);
      if (attr == node.attrs.end() || !std::holds_alternative<Attr>(attr->second)) return otherwise;
      const auto* value = std::get_if<int64_t>(&std::get<Attr>(attr->second));
      return value == nullptr ? otherwise : *value;
    };
    int64_t size = weights->shape()[0];  // Conv
    if (node.op == "Gemm" && number("transB", 0) == 0) size = weights->shape()[1];
    if (node.op == "ConvTranspose") {
      const int64_t groups = number("group", 1);
      if (groups < 1 || groups > kMostGroups) return;
      size = weights->shape()[1] * groups;
    }
    // A bias is no larger than the weights, unless these have no elements.
    if (size > weights->elements()) return;
    if (!take(own, Tensor(weights->dtype(), Shape({size})))) return;
    node.inputs.push_back({own, node.offset});
    ++restored_.left_out;
  }

  // A MatMul by the transposed weights of a Linear gets a Transpose of the member in front.
  void turn(DraftNode& node, const TorchCall& call, std::vector<DraftNode>& transposes) {
    const Tensor* value = constant(node, 1);
    if (call.function != "linear" || node.op != "MatMul" || value == nullptr ||
        value->shape().rank() != 2 || origin_.members.contains(node.inputs[1].name))
      return;
    const std::string own = member(call, 1), from = node.inputs[1].name;
    if (own.empty() || turned_.contains(from) || !take(own, transposed(*value))) return;
    turned_.insert(from);
    ++restored_.transposed;
    DraftNode turns;
    turns.offset = node.offset;
    turns.op = "Transpose";
    turns.inputs = {{own, node.offset}};
    turns.outputs = {{from, node.offset}};
    turns.attrs["perm"] = Attr(std::vector<int64_t>{1, 0});
    transposes.push_back(std::move(turns));
  }

  // Transposes define the names of the constants that they replace. Others stay, since the member
  // of that name has a use of its own, except those that all nodes took another name for.
  void drop_unused() {
    std::set<std::string> used;
    note_uses(graph_, used);
    std::erase_if(graph_.constants, [&](const DraftConstant& constant) {
      const std::string& name = constant.name.name;
      if (turned_.contains(name)) return true;
      const bool was_renamed = std::any_of(renamed_.begin(), renamed_.end(),
                                           [&](const auto& pair) { return pair.second == name; });
      return was_renamed && !used.contains(name);
    });
  }

  static void note_uses(const DraftGraph& graph, std::set<std::string>& used) {
    for (const DraftValue& output : graph.outputs) used.insert(output.name.name);
    for (const DraftNode& node : graph.nodes) {
      for (const DraftName& input : node.inputs) used.insert(input.name);
      for (const auto& [name, attr] : node.attrs) {
        const auto* region = std::get_if<std::shared_ptr<DraftGraph>>(&attr);
        if (region != nullptr && *region != nullptr) note_uses(**region, used);
      }
    }
  }

  const OnnxOrigin& origin_;
  DraftGraph& graph_;
  std::map<std::string, Tensor> values_;        // of constants
  std::set<std::string> taken_;                 // names of all values
  std::map<std::string, std::string> renamed_;  // by member: the constant that stood for it
  std::set<std::string> turned_;                // transposed constants that a member replaces
  uint64_t bytes_ = 0;                          // of what was added
  RestoredMembers restored_;
};

}  // namespace

RestoredMembers restore_members(const OnnxOrigin& origin, DraftGraph& graph) {
  if (origin.calls.empty() || origin.names.empty()) return {};
  return Restorer(origin, graph).run();
}

}  // namespace leat
