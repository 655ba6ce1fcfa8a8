#include "ops/onnx/tensorflow_biases.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "devices/base/text.h"
#include "ops/graph/limits.h"

namespace leat {
namespace {

// Inputs of an LSTM, a GRU and an RNN.
constexpr size_t kLayerWeights = 1, kBias = 3;

bool is_recurrent(const DraftNode& node) {
  return node.domain.empty() && (node.op == "LSTM" || node.op == "GRU" || node.op == "RNN");
}

// True for a bias [directions, 2 * n] of floats with zeros in the second half of each line.
bool ends_in_zeros(const Tensor& bias) {
  if (!is_float(bias.dtype()) || bias.shape().rank() != 2 || bias.shape()[1] % 2 != 0) return false;
  const int64_t width = bias.shape()[1];
  for (int64_t i = 0; i < bias.elements(); ++i) {
    if (i % width >= width / 2 && bias.at(i) != 0) return false;
  }
  return bias.elements() > 0;
}

Tensor first_half(const Tensor& bias) {
  const int64_t lines = bias.shape()[0], width = bias.shape()[1] / 2;
  Tensor half(bias.dtype(), Shape({lines, width}));
  const size_t bytes = half.bytes() / static_cast<size_t>(lines);
  for (size_t i = 0; i < static_cast<size_t>(lines); ++i) {
    std::memcpy(static_cast<std::byte*>(half.raw()) + i * bytes,
                static_cast<const std::byte*>(bias.raw()) + 2 * i * bytes, bytes);
  }
  return half;
}

// How often nodes read each value.
std::map<std::string, int> uses_of(const DraftGraph& graph) {
  std::map<std::string, int> uses;
  for (const DraftNode& node : graph.nodes) {
    for (const DraftName& input : node.inputs) ++uses[input.name];
  }
  return uses;
}

// The names of all values.
std::set<std::string> names_of(const DraftGraph& graph) {
  std::set<std::string> names;
  for (const DraftValue& input : graph.inputs) names.insert(input.name.name);
  for (const DraftConstant& constant : graph.constants) names.insert(constant.name.name);
  for (const DraftNode& node : graph.nodes) {
    for (const DraftName& output : node.outputs) names.insert(output.name);
  }
  return names;
}

}  // namespace

void pad_biases(DraftGraph& graph) {
  const std::map<std::string, int> uses = uses_of(graph);
  std::vector<DraftNode> nodes;
  std::vector<DraftConstant> sizes;
  for (DraftNode& node : graph.nodes) {
    const bool has_bias = node.op == "LSTM" && node.domain.empty() && node.inputs.size() > kBias;
    const auto bias = std::find_if(
        graph.constants.begin(), graph.constants.end(), [&](const DraftConstant& constant) {
          return has_bias && constant.name.name == node.inputs[kBias].name;
        });
    if (bias != graph.constants.end() && ends_in_zeros(bias->value) &&
        uses.at(bias->name.name) == 1) {
      const std::string name = bias->name.name;
      bias->value = first_half(bias->value);
      DraftConstant& pads = sizes.emplace_back();
      pads.name.name = cat("%pads ", name);
      pads.value = Tensor::of<int64_t>({4}, {0, 0, 0, bias->value.shape()[1]});
      DraftNode& pad = nodes.emplace_back();
      pad.offset = node.offset;
      pad.op = "Pad";
      pad.inputs = {{name, 0}, {pads.name.name, 0}};
      pad.outputs = {{cat("%padded ", name), 0}};
      node.inputs[kBias].name = pad.outputs[0].name;
    }
    nodes.push_back(std::move(node));
  }
  graph.nodes = std::move(nodes);
  graph.constants.insert(graph.constants.end(), std::make_move_iterator(sizes.begin()),
                         std::make_move_iterator(sizes.end()));
}

Status separate_biases(DraftGraph& graph, uint64_t& constant_bytes) {
  std::set<std::string> names = names_of(graph);
  std::map<std::string, Tensor> constants;
  for (const DraftConstant& constant : graph.constants) {
    if (is_float(constant.value.dtype()) && constant.value.shape().rank() == 2)
      constants.emplace(constant.name.name, constant.value);
  }
  // The bias of each layer, by the names of its bias and its weights in the file.
  std::map<std::string, std::map<std::string, std::string>> biases;
  for (DraftNode& node : graph.nodes) {
    if (!is_recurrent(node) || node.inputs.size() <= kBias) continue;
    const std::string bias = node.inputs[kBias].name;
    const auto value = constants.find(bias);
    if (value == constants.end()) continue;
    std::map<std::string, std::string>& of_layers = biases[bias];
    const auto [layer, is_new] = of_layers.emplace(node.inputs[kLayerWeights].name, bias);
    if (is_new && of_layers.size() > 1) {
      constant_bytes += value->second.bytes();
      if (constant_bytes > limits::kConstantBytes) {
        return resource_exhausted(cat("layers that share the bias '", bias, "': expected at most ",
                                      human_bytes(limits::kConstantBytes),
                                      " of constants in all, with a bias for each there are ",
                                      human_bytes(constant_bytes)));
      }
      size_t number = of_layers.size();
      do {
        layer->second = cat(bias, "/", number++);
      } while (!names.insert(layer->second).second);
      DraftConstant& own = graph.constants.emplace_back();
      own.name.name = layer->second;
      own.value = value->second.clone();
    }
    node.inputs[kBias].name = layer->second;
  }
  return {};
}

}  // namespace leat
