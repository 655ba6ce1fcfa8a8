#include "ops/text/composite_maker.h"

#include <map>
#include <memory>
#include <utility>

#include "devices/base/utf8.h"
#include "ops/graph/limits.h"

namespace leat {

namespace {

// The node as messages name it: by its name, or else by that of its first output.
std::string label_of(const DraftNode& node) {
  std::string name = node.name;
  for (size_t i = 0; name.empty() && i < node.outputs.size(); ++i) name = node.outputs[i].name;
  return name.empty() ? node.op : cat(node.op, " '", name, "'");
}

using NameMap = std::map<std::string, std::string>;

void rename_values(DraftNode& node, const NameMap& names);

// A value that the region defines itself hides one outside of it.
void rename_captures(DraftGraph& region, NameMap names) {
  for (const DraftValue& input : region.inputs) names.erase(input.name.name);
  for (const DraftConstant& constant : region.constants) names.erase(constant.name.name);
  for (DraftNode& node : region.nodes) {
    for (const DraftName& output : node.outputs) names.erase(output.name);
  }
  for (DraftNode& node : region.nodes) rename_values(node, names);
  for (DraftValue& output : region.outputs) {
    if (const auto found = names.find(output.name.name); found != names.end())
      output.name.name = found->second;
  }
}

// Gives the values of a node, and those that its regions take from around them, other names.
void rename_values(DraftNode& node, const NameMap& names) {
  for (auto* list : {&node.inputs, &node.outputs}) {
    for (DraftName& value : *list) {
      if (const auto found = names.find(value.name); found != names.end() && !value.name.empty())
        value.name = found->second;
    }
  }
  for (auto& [name, attr] : node.attrs) {
    auto* region = std::get_if<std::shared_ptr<DraftGraph>>(&attr);
    if (region == nullptr) continue;
    DraftGraph copy = **region;
    rename_captures(copy, names);
    *region = std::make_shared<DraftGraph>(std::move(copy));
  }
}

}  // namespace

CompositeMaker::CompositeMaker(const DraftNode& node, size_t& made, std::vector<DraftNode>& out)
    : node_(node), label_(label_of(node)), made_(made), out_(out) {}

DraftName CompositeMaker::in(int i) {
  if (has(i)) return node_.inputs[static_cast<size_t>(i)];
  fail(cat("expected at least ", i + 1, " inputs, received ", inputs()));
  return {"", node_.offset};
}

double CompositeMaker::number(std::string_view name, double fallback) {
  const Attr* attr = find(name);
  if (!attr) return fallback;
  if (const auto* real = std::get_if<double>(attr)) return *real;
  if (const auto* integer = std::get_if<int64_t>(attr)) return static_cast<double>(*integer);
  fail(cat("the attribute '", name, "': expected a float, received ", attr_kind(*attr)));
  return fallback;
}
int64_t CompositeMaker::integer(std::string_view name, int64_t fallback) {
  return get<int64_t>(name, fallback, "an int");
}
std::string CompositeMaker::text(std::string_view name, std::string fallback) {
  return get<std::string>(name, std::move(fallback), "a string");
}
std::vector<int64_t> CompositeMaker::integers(std::string_view name,
                                              std::vector<int64_t> fallback) {
  return get<std::vector<int64_t>>(name, std::move(fallback), "a list of ints");
}
std::vector<double> CompositeMaker::numbers(std::string_view name) {
  return get<std::vector<double>>(name, {}, "a list of floats");
}
std::vector<std::string> CompositeMaker::texts(std::string_view name) {
  return get<std::vector<std::string>>(name, {}, "a list of strings");
}

Tensor CompositeMaker::tensor(std::string_view name) {
  return get<Tensor>(name, Tensor(), "a tensor");
}

DraftName CompositeMaker::inlined(std::string_view name, const std::vector<DraftName>& inputs) {
  known_.emplace(name, true);
  const auto found = node_.attrs.find(name);
  const auto* region = found == node_.attrs.end()
                           ? nullptr
                           : std::get_if<std::shared_ptr<DraftGraph>>(&found->second);
  if (region == nullptr || (*region)->inputs.size() != inputs.size() ||
      (*region)->outputs.size() != 1) {
    fail(cat("the attribute '", name, "': expected a graph with ", inputs.size(),
             inputs.size() == 1 ? " input" : " inputs", " and one output"));
    return {"", node_.offset};
  }
  DraftGraph copy = **region;
  std::map<std::string, std::string> names;
  for (size_t i = 0; i < inputs.size(); ++i) names[copy.inputs[i].name.name] = inputs[i].name;
  const std::string prefix = cat("%region", made_++, "/");
  const auto own = [&](const std::string& value) { names[value] = prefix + value; };
  for (const DraftConstant& constant : copy.constants) own(constant.name.name);
  for (const DraftNode& node : copy.nodes) {
    for (const DraftName& output : node.outputs) own(output.name);
  }
  for (const DraftConstant& constant : copy.constants) {
    this->constant(constant.value);
    out_.back().outputs[0].name = names[constant.name.name];
  }
  for (DraftNode& node : copy.nodes) {
    rename_values(node, names);
    node.name = cut_utf8(cat("%", label_), limits::kNameLength);
    if (const auto device = node_.attrs.find("device"); device != node_.attrs.end())
      node.attrs.try_emplace("device", device->second);
    out_.push_back(std::move(node));
  }
  const auto output = names.find(copy.outputs[0].name.name);
  return {output == names.end() ? copy.outputs[0].name.name : output->second, node_.offset};
}

DraftName CompositeMaker::op(std::string_view op, std::vector<DraftName> inputs, Attributes attrs) {
  return ops(op, std::move(inputs), std::move(attrs), 1)[0];
}

std::vector<DraftName> CompositeMaker::ops(std::string_view op, std::vector<DraftName> inputs,
                                           Attributes attrs, int outputs) {
  DraftNode made;
  made.offset = node_.offset;
  const size_t dot = op.find('.');
  if (dot != std::string_view::npos) made.domain = op.substr(0, dot);
  made.op = op.substr(dot == std::string_view::npos ? 0 : dot + 1);
  made.inputs = std::move(inputs);
  made.attrs = std::move(attrs);
  made.name = cut_utf8(cat("%", label_), limits::kNameLength);
  // The constraint on the device holds for every part.
  if (const auto device = node_.attrs.find("device"); device != node_.attrs.end())
    made.attrs.insert_or_assign("device", device->second);
  for (int i = 0; i < outputs; ++i) made.outputs.push_back({cat("%part", made_++), node_.offset});
  out_.push_back(std::move(made));
  return out_.back().outputs;
}

void CompositeMaker::set_output(int i, const DraftName& value) {
  sets_outputs_ = true;
  if (!wants(i)) return;
  op("Identity", {value});
  out_.back().outputs = {node_.outputs[static_cast<size_t>(i)]};
}

void CompositeMaker::finish() {
  if (!status_.ok()) return;
  for (const auto& [name, attr] : node_.attrs) {
    if (!known_.contains(name) && !is_reserved_attribute(name))
      return fail(cat("unknown attribute '", name, "'"));
  }
  if (inputs() > asked_)
    return fail(cat("expected at most ", asked_, " inputs, received ", inputs()));
  if (sets_outputs_) return;
  if (node_.outputs.size() != 1)
    return fail(cat("expected one output, received ", node_.outputs.size()));
  out_.back().outputs = node_.outputs;
  if (!node_.name.empty()) out_.back().name = node_.name;
}

const Attr* CompositeMaker::find(std::string_view name) {
  known_.emplace(name, true);
  const auto found = node_.attrs.find(name);
  return found == node_.attrs.end() ? nullptr : std::get_if<Attr>(&found->second);
}

// An empty list does not show its kind.
template <typename T>
T CompositeMaker::get(std::string_view name, T fallback, std::string_view expected) {
  const Attr* attr = find(name);
  if (!attr) return fallback;
  if (const auto* value = std::get_if<T>(attr)) return *value;
  const auto* ints = std::get_if<std::vector<int64_t>>(attr);
  if (ints && ints->empty() && expected.starts_with("a list")) return fallback;
  fail(cat("the attribute '", name, "': expected ", expected, ", received ", attr_kind(*attr)));
  return fallback;
}

}  // namespace leat
