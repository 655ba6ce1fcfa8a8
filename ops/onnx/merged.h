// Restores the parameters of a PyTorch module that the exporter's optimizer took from the file.
// Private to ops/onnx.
//
// By default the exporter writes parameters that are equal at the time once, so that the biases of
// a module which is not trained yet, all zero, would train as one. It leaves biases out that are
// zero, and writes the weights of a Linear transposed under a name of its own. The calls that the
// nodes were made from tell which parameters these had.
#pragma once

#include "ops/onnx/parameters.h"
#include "ops/text/draft.h"

namespace leat {

// The number of parameters, and of a normalization's statistics, that are constants of their own
// again.
struct RestoredMembers {
  size_t merged = 0;      // written as one with others
  size_t left_out = 0;    // biases of zeros
  size_t transposed = 0;  // by their own names, with a Transpose at the node
};

// Gives each node of the graph, without those of regions, constants with the names and values of
// the members that its call had. A node without a call stays as it is, and so does an operand whose
// member is not certain, or whose name another value has.
RestoredMembers restore_members(const OnnxOrigin& origin, DraftGraph& graph);

// Gives each module that reads one of these constants, which were computed from parameters, one of
// its own, if a parameter is missing that it alone may have used. The first module keeps the
// constant. A module that is called several times has one. Returns the names of the new constants.
std::vector<std::string> split_by_module(const std::map<size_t, TorchCall>& calls,
                                         const std::vector<std::string>& constants,
                                         const std::vector<std::string>& missing,
                                         DraftGraph& graph);

}  // namespace leat
