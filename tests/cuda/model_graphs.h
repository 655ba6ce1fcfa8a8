// Graphs of well-known networks, written with Leat's layers, of any size: their first weights are
// random.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace leat::testing {

// A ResNet of bottlenecks (He et al., 2015), with the stride in the convolution of 3 by 3, as
// torchvision's resnet50.
struct ResNetSize {
  int64_t image = 224, classes = 1000, width = 64;
  std::vector<int> blocks = {3, 4, 6, 3};  // of each stage
};
std::string resnet_graph(const ResNetSize& size);

// MobileNet-V2 (Sandler et al., 2018), for images of 224 by 224.
std::string mobilenet_graph();

// GPT-2 (Radford et al., 2019), without dropout and with an output layer of its own. The default
// has 124 M parameters beside that layer.
struct GptSize {
  int64_t vocabulary = 50304, context = 1024, width = 768, blocks = 12, heads = 12;
};
std::string gpt_graph(const GptSize& size);

}  // namespace leat::testing
