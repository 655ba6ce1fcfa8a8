#include "ops/onnx/sequences.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "devices/base/text.h"
#include "ops/graph/limits.h"

namespace leat {
namespace {

constexpr std::array<std::string_view, 11> kOps = {
    "SplitToSequence",    "SequenceConstruct",  "SequenceAt",        "SequenceLength",
    "ConcatFromSequence", "SequenceEmpty",      "SequenceInsert",    "SequenceErase",
    "Optional",           "OptionalGetElement", "OptionalHasElement"};

using Ints = std::vector<int64_t>;

class SequenceFolder {
 public:
  // `members` counts on, through all graphs of a file.
  SequenceFolder(DraftGraph& graph, const Locate& locate, size_t& members)
      : graph_(graph), locate_(locate), members_(members) {
    for (const DraftValue& input : graph.inputs) own_.insert(input.name.name);
    for (const DraftConstant& constant : graph.constants) own_.insert(constant.name.name);
    for (const DraftNode& node : graph.nodes) {
      for (const DraftName& output : node.outputs) own_.insert(output.name);
    }
  }

  Status run() {
    for (const DraftConstant& constant : graph_.constants) note(constant.name.name, constant.value);
    for (DraftNode& node : graph_.nodes) LEAT_RETURN_IF_ERROR(add(node));
    for (const DraftValue& output : graph_.outputs) {
      if (const std::string_view kind = kind_of(output.name.name); !kind.empty())
        return unimplemented(
            cat("output '", output.name.name, "': expected a tensor, received ", kind));
    }
    graph_.nodes = std::move(out_);
    return {};
  }

 private:
  // Keeps the integers of a small constant: indices and sizes of parts.
  void note(const std::string& name, const Tensor& value) {
    constexpr int64_t kMost = 4096;
    if (!value.valid() || !is_int(value.dtype()) || value.elements() > kMost) return;
    Known& known = known_[name];
    known.rank = value.shape().rank();
    for (int64_t i = 0; i < value.elements(); ++i) known.values.push_back(value.int_at(i));
  }

  Status add(DraftNode& node) {
    if (node.op == "Constant" && node.domain.empty()) {
      const auto value = node.attrs.find("value");
      const auto* attr = value == node.attrs.end() ? nullptr : std::get_if<Attr>(&value->second);
      const auto* tensor = attr ? std::get_if<Tensor>(attr) : nullptr;
      if (tensor && node.outputs.size() == 1) note(node.outputs[0].name, *tensor);
    }
    const bool passes_on = node.op == "Identity" && node.domain.empty() &&
                           node.inputs.size() == 1 && node.outputs.size() == 1;
    if (passes_on && !kind_of(node.inputs[0].name).empty()) {
      return pass_on(node.inputs[0].name, node);
    }
    if (!is_sequence_op(node.domain, node.op)) {
      for (const DraftName& input : node.inputs) {
        if (const std::string_view kind = kind_of(input.name); !kind.empty())
          return refuse(node, cat("expected a tensor, '", input.name, "' is ", kind));
      }
      out_.push_back(std::move(node));
      return {};
    }
    if (node.outputs.size() != 1) return refuse(node, "expected one output");
    if (node.op.starts_with("Optional")) return optional(node);
    if (node.op == "SplitToSequence" || node.op == "SequenceConstruct" ||
        node.op == "SequenceEmpty") {
      return keep(node, node);
    }
    const auto sequence =
        node.inputs.empty() ? sequences_.end() : sequences_.find(node.inputs[0].name);
    if (sequence == sequences_.end())
      return refuse(node, "expected a sequence that the graph makes");
    if (node.op == "SequenceInsert" || node.op == "SequenceErase")
      return change(node, sequence->second);
    if (node.op == "SequenceAt") return at(node, sequence->second);
    if (node.op == "SequenceLength") return length(node, sequence->second);
    return concatenate(node, sequence->second);
  }

  // "a sequence" or "an optional value"; "" for a tensor.
  std::string_view kind_of(const std::string& name) const {
    if (sequences_.contains(name)) return "a sequence";
    return optionals_.contains(name) ? "an optional value" : "";
  }

  // The output of `node` is a sequence, made by `maker`.
  Status keep(const DraftNode& node, const DraftNode& maker) {
    LEAT_RETURN_IF_ERROR(count_members(node, maker.inputs.size()));
    sequences_.emplace(node.outputs[0].name, maker);
    return {};
  }

  // A file of few bytes may name a long sequence many times.
  Status count_members(const DraftNode& node, size_t members) {
    members_ += members;
    if (members_ <= limits::kNodes) return {};
    return refuse(node, cat("expected sequences of ", limits::kNodes,
                            " tensors in all nodes together, received more"));
  }

  // The output of `node` is the value `name`.
  Status pass_on(const std::string& name, const DraftNode& node) {
    const std::string& output = node.outputs[0].name;
    if (const auto sequence = sequences_.find(name); sequence != sequences_.end())
      return keep(node, DraftNode(sequence->second));
    if (const auto optional = optionals_.find(name); optional != optionals_.end())
      optionals_.emplace(output, std::string(optional->second));
    else
      emit("Identity", {{name, node.offset}}, node);
    return {};
  }

  // A tensor counts as an optional value that is there.
  Status optional(const DraftNode& node) {
    const std::string given = node.inputs.empty() ? "" : node.inputs[0].name;
    if (node.op == "Optional") {
      optionals_.emplace(node.outputs[0].name, given);
      return {};
    }
    // The graph around a region knows whether the value is there.
    if (!given.empty() && !own_.contains(given))
      return refuse(node, cat("expected a value of its own graph, '", given, "' is of another"));
    const auto found = optionals_.find(given);
    const std::string held = found == optionals_.end() ? given : found->second;
    if (node.op == "OptionalHasElement") {
      DraftNode constant = make("Constant", {}, node);
      constant.attrs["value"] = Attr(Tensor::scalar<bool>(!held.empty()));
      constant.outputs = node.outputs;
      out_.push_back(std::move(constant));
      return {};
    }
    if (held.empty())
      return invalid_argument(
          cat(locate_(node.offset), ": expected an optional value that is there, it is not"));
    return pass_on(held, node);
  }

  // Makes a sequence with one tensor more or less than another one has.
  Status change(const DraftNode& node, const DraftNode& sequence) {
    if (sequence.op == "SplitToSequence")
      return refuse(node, "expected the tensors of a SequenceConstruct");
    const bool inserts = node.op == "SequenceInsert";
    const size_t place = inserts ? 2 : 1;
    const auto count = static_cast<int64_t>(sequence.inputs.size());
    int64_t at = inserts ? count : count - 1;
    const int64_t most = at;
    if (place < node.inputs.size() && !node.inputs[place].name.empty()) {
      const auto index = known_.find(node.inputs[place].name);
      if (index == known_.end() || index->second.values.size() != 1)
        return refuse(node, "expected an index that is a constant");
      const int64_t given = index->second.values[0];
      at = given < 0 ? given + count : given;
      if (at < 0 || at > most) return out_of_range(node, given, count);
    } else if (at < 0) {
      return out_of_range(node, at, count);
    }
    if (inserts && node.inputs.size() < 2) return refuse(node, "expected a tensor to insert");
    DraftNode changed = sequence;
    changed.op = "SequenceConstruct";
    if (inserts)
      changed.inputs.insert(changed.inputs.begin() + at, node.inputs[1]);
    else
      changed.inputs.erase(changed.inputs.begin() + at);
    return keep(node, changed);
  }

  // The sizes of the parts, if they are constants; one number stands for parts of equal size.
  struct Parts {
    Ints sizes;
    bool equal = false;
  };
  std::optional<Parts> parts_of(const DraftNode& split) const {
    if (split.inputs.size() < 2 || split.inputs[1].name.empty()) return Parts{{1}, true};
    const auto found = known_.find(split.inputs[1].name);
    if (found == known_.end()) return std::nullopt;
    const Known& known = found->second;
    const bool valid =
        !known.values.empty() && std::all_of(known.values.begin(), known.values.end(),
                                             [](int64_t size) { return size >= 0; });
    if (!valid) return std::nullopt;
    return Parts{known.values, known.rank == 0};
  }

  Status at(const DraftNode& node, const DraftNode& sequence) {
    const auto index = node.inputs.size() == 2 ? known_.find(node.inputs[1].name) : known_.end();
    if (index == known_.end() || index->second.values.size() != 1)
      return refuse(node, "expected an index that is a constant");
    const int64_t given = index->second.values[0];
    if (sequence.op != "SplitToSequence") {
      const auto count = static_cast<int64_t>(sequence.inputs.size());
      const int64_t i = given < 0 ? given + count : given;
      if (i < 0 || i >= count) return out_of_range(node, given, count);
      emit("Identity", {sequence.inputs[static_cast<size_t>(i)]}, node);
      return {};
    }
    const auto parts = parts_of(sequence);
    if (!parts) return refuse(node, "expected parts whose sizes are constants");
    return part(node, sequence, *parts, given);
  }

  // Part `given` of a split tensor is a Slice of it.
  Status part(const DraftNode& node, const DraftNode& split, const Parts& parts, int64_t given) {
    Ints begin, end;
    if (parts.equal) {
      if (given < 0) return refuse(node, "expected an index from the beginning");
      begin = {given * parts.sizes[0]};
      end = {begin[0] + parts.sizes[0]};
    } else {
      const auto count = static_cast<int64_t>(parts.sizes.size());
      const int64_t i = given < 0 ? given + count : given;
      if (i < 0 || i >= count) return out_of_range(node, given, count);
      const auto first = parts.sizes.begin();
      begin = {std::accumulate(first, first + i, int64_t{0})};
      end = {begin[0] + parts.sizes[static_cast<size_t>(i)]};
    }
    const int64_t axis = integer(split, "axis", 0);
    const bool whole = split.inputs.size() < 2 || split.inputs[1].name.empty();
    const bool squeezes = whole && integer(split, "keepdims", 1) == 0;
    const std::vector<DraftName> operands{split.inputs[0], ints(begin, node), ints(end, node),
                                          ints({axis}, node)};
    if (!squeezes) {
      emit("Slice", operands, node);
      return {};
    }
    DraftNode slice = make("Slice", operands, node);
    slice.outputs = {{cat("%sequence", made_++), node.offset}};
    const DraftName sliced = slice.outputs[0];
    out_.push_back(std::move(slice));
    emit("Squeeze", {sliced, ints({axis}, node)}, node);
    return {};
  }

  Status length(const DraftNode& node, const DraftNode& sequence) {
    const auto parts = sequence.op == "SplitToSequence" ? parts_of(sequence) : std::nullopt;
    const bool constructed = sequence.op != "SplitToSequence";
    if (!constructed && (!parts || parts->equal))
      return refuse(node, "expected a sequence whose length is known");
    const size_t count = constructed ? sequence.inputs.size() : parts->sizes.size();
    DraftNode constant = make("Constant", {}, node);
    constant.attrs["value"] = Attr(Tensor::scalar<int64_t>(static_cast<int64_t>(count)));
    note(node.outputs[0].name, Tensor::scalar<int64_t>(static_cast<int64_t>(count)));
    constant.outputs = node.outputs;
    out_.push_back(std::move(constant));
    return {};
  }

  Status concatenate(const DraftNode& node, const DraftNode& sequence) {
    const int64_t axis = integer(node, "axis", 0);
    const bool stacks = integer(node, "new_axis", 0) != 0;
    if (sequence.op == "SplitToSequence") {
      const bool same =
          !stacks && integer(sequence, "axis", 0) == axis && integer(sequence, "keepdims", 1) != 0;
      if (!same) return refuse(node, "expected the tensors of a SequenceConstruct");
      emit("Identity", {sequence.inputs[0]}, node);
      return {};
    }
    if (sequence.inputs.empty()) return refuse(node, "expected a sequence of at least one tensor");
    LEAT_RETURN_IF_ERROR(count_members(node, sequence.inputs.size()));
    std::vector<DraftName> tensors;
    for (const DraftName& tensor : sequence.inputs) {
      if (!stacks) {
        tensors.push_back(tensor);
        continue;
      }
      DraftNode wider = make("Unsqueeze", {tensor, ints({axis}, node)}, node);
      wider.outputs = {{cat("%sequence", made_++), node.offset}};
      tensors.push_back(wider.outputs[0]);
      out_.push_back(std::move(wider));
    }
    DraftNode joined = make("Concat", std::move(tensors), node);
    joined.attrs["axis"] = Attr(axis);
    joined.outputs = node.outputs;
    joined.name = node.name;
    out_.push_back(std::move(joined));
    return {};
  }

  static int64_t integer(const DraftNode& node, std::string_view name, int64_t fallback) {
    const auto found = node.attrs.find(name);
    const auto* attr = found == node.attrs.end() ? nullptr : std::get_if<Attr>(&found->second);
    const auto* value = attr ? std::get_if<int64_t>(attr) : nullptr;
    return value ? *value : fallback;
  }

  static DraftNode make(std::string op, std::vector<DraftName> inputs, const DraftNode& from) {
    DraftNode node;
    node.offset = from.offset;
    node.op = std::move(op);
    node.inputs = std::move(inputs);
    if (const auto device = from.attrs.find("device"); device != from.attrs.end())
      node.attrs.insert_or_assign("device", device->second);
    return node;
  }
  DraftName ints(const Ints& values, const DraftNode& from) {
    DraftNode constant = make("Constant", {}, from);
    constant.attrs["value"] =
        Attr(Tensor::of<int64_t>({static_cast<int64_t>(values.size())}, values));
    constant.outputs = {{cat("%sequence", made_++), from.offset}};
    out_.push_back(std::move(constant));
    return out_.back().outputs[0];
  }
  // A node in place of `from`, with its output and its name.
  void emit(std::string op, std::vector<DraftName> inputs, const DraftNode& from) {
    DraftNode node = make(std::move(op), std::move(inputs), from);
    node.outputs = from.outputs;
    node.name = from.name;
    out_.push_back(std::move(node));
  }
  Status refuse(const DraftNode& node, std::string_view why) const {
    return unimplemented(cat(locate_(node.offset), ": ", why));
  }
  Status out_of_range(const DraftNode& node, int64_t index, int64_t count) const {
    return invalid_argument(cat(locate_(node.offset), ": index: expected in [", -count, ", ",
                                count - 1, "], received ", index));
  }

  struct Known {
    Ints values;
    int rank = 0;
  };
  DraftGraph& graph_;
  const Locate& locate_;
  std::map<std::string, Known> known_;
  std::map<std::string, DraftNode> sequences_;  // by the sequence's name: the node that makes it
  // By the name of an optional value: that of the value that it holds, "" for none.
  std::map<std::string, std::string> optionals_;
  std::vector<DraftNode> out_;
  size_t made_ = 0;
  size_t& members_;  // of all sequences, and of all nodes that have members of one as inputs
  std::set<std::string> own_;  // the names of the graph
};

}  // namespace

bool is_sequence_op(std::string_view domain, std::string_view op) {
  return (domain.empty() || domain == "ai.onnx") &&
         std::find(kOps.begin(), kOps.end(), op) != kOps.end();
}

namespace {

Status fold(DraftGraph& graph, const Locate& locate, size_t& members) {
  for (DraftNode& node : graph.nodes) {
    for (auto& [name, attr] : node.attrs) {
      if (const auto* region = std::get_if<std::shared_ptr<DraftGraph>>(&attr))
        LEAT_RETURN_IF_ERROR(fold(**region, locate, members));
    }
  }
  const bool any = std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const DraftNode& node) {
    return is_sequence_op(node.domain, node.op);
  });
  if (!any) return {};
  return SequenceFolder(graph, locate, members).run();
}

}  // namespace

Status fold_sequences(DraftGraph& graph, const Locate& locate) {
  size_t members = 0;
  return fold(graph, locate, members);
}

}  // namespace leat
