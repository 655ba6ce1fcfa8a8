#include <algorithm>
#include <set>

#include "devices/base/text.h"
#include "ops/graph/limits.h"
#include "ops/onnx/merged.h"

namespace leat {
namespace {

// The operands of nodes that are one constant, by the module of the node.
using Readers = std::map<std::string, std::vector<DraftName*>>;

std::map<std::string, Readers> readers_of(const std::map<size_t, TorchCall>& calls,
                                          const std::vector<std::string>& constants,
                                          DraftGraph& graph) {
  std::map<std::string, Readers> readers;
  for (const std::string& name : constants) readers.emplace(name, Readers());
  for (DraftNode& node : graph.nodes) {
    const auto call = calls.find(node.offset);
    const std::string module =
        call == calls.end() ? "" : call->second.module.value_or(std::string());
    for (DraftName& input : node.inputs) {
      const auto found = readers.find(input.name);
      if (found != readers.end()) found->second[module].push_back(&input);
    }
  }
  return readers;
}

// True if a parameter is missing that this module may have used, and none of the others.
bool has_own(const std::string& module, const Readers& readers,
             const std::vector<std::string>& missing) {
  const auto uses = [](const std::string& user, const std::string& parameter) {
    return may_use(TorchCall{"", {}, user}, parameter);
  };
  return std::any_of(missing.begin(), missing.end(), [&](const std::string& parameter) {
    return uses(module, parameter) &&
           std::none_of(readers.begin(), readers.end(), [&](const auto& other) {
             return other.first != module && uses(other.first, parameter);
           });
  });
}

}  // namespace

std::vector<std::string> split_by_module(const std::map<size_t, TorchCall>& calls,
                                         const std::vector<std::string>& constants,
                                         const std::vector<std::string>& missing,
                                         DraftGraph& graph) {
  std::vector<std::string> names;
  std::map<std::string, Tensor> values;
  for (const DraftConstant& constant : graph.constants)
    values.emplace(constant.name.name, constant.value);
  uint64_t bytes = 0;  // of what is added
  for (auto& [constant, readers] : readers_of(calls, constants, graph)) {
    for (auto reader = readers.begin(); reader != readers.end(); ++reader) {
      const std::string own = cat(constant, "/", reader->first);
      const Tensor value = values.at(constant);
      if (reader == readers.begin() || own.size() > limits::kNameLength || values.contains(own) ||
          !has_own(reader->first, readers, missing))
        continue;
      bytes += value.bytes();
      if (bytes > limits::kConstantBytes) return names;
      DraftConstant& added = graph.constants.emplace_back();
      added.name.name = own;
      added.value = value;
      values.emplace(own, value);
      for (DraftName* input : reader->second) input->name = own;
      names.push_back(own);
    }
  }
  return names;
}

}  // namespace leat
