// Replaces the functions of an ONNX model by their bodies. Private to ops/onnx.
//
// A model may define functions (ModelProto.functions) and call them as nodes, as PyTorch's exporter
// does it for the modules of a network. A function's nodes may call other functions.
#pragma once

#include "devices/base/status.h"

namespace leat {

namespace onnx_wire {
class ModelProto;
}

// Puts the body of a function in place of each node that calls it, also in the regions of If, Loop
// and Scan, and removes the functions. A function of the model takes precedence over an op of the
// same name. Attributes of the call replace references to them in the body; those that it does not
// have get the function's defaults, or are left out. Values of a body get names that begin with
// '%', so that the graph does not keep them. The opsets that a function imports must mean the same
// as the model's, as ONNX demands it.
//
// invalid_argument for a function that calls itself, also through others, for calls nested too
// deeply, for a call with more operands than the function has, and if the model gets more nodes
// than a graph may have. The messages have no subject.
Status inline_functions(onnx_wire::ModelProto& model);

}  // namespace leat
