// Makes ONNX models in memory, and imports them: what the tests of the importer share.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "devices/base/status.h"
#include "onnx.pb.h"
#include "ops/graph/op.h"
#include "ops/onnx/import.h"

namespace leat::onnx_testing {

using namespace onnx_wire;

// A catalogue of a few ops. The importer reads only names and attributes.
const Catalogue& ops();

// A model with an empty graph `g`.
ModelProto model(int opset);

// These add a part and return it. A negative size of an input is the symbol N; the kinds of
// attributes are ONNX's codes.
void add_input(GraphProto& g, const std::string& name, std::vector<int64_t> dims);
NodeProto& add_node(GraphProto& g, const std::string& op, std::vector<std::string> inputs,
                    std::vector<std::string> outputs);
AttributeProto& add_attr(NodeProto& node, const std::string& name, int type);
void add_ints(NodeProto& node, const std::string& name, std::vector<int64_t> ints);
TensorProto& add_floats(GraphProto& g, const std::string& name, std::vector<float> floats);

// Imports a model as the file m.onnx.
Result<OnnxModel> import(const ModelProto& m, const OnnxOptions& options = {});
// The nodes of the imported graph as text, without the surrounding lines.
std::string nodes_of(const ModelProto& m, const OnnxOptions& options = {});
// The message of the error with which the import ends.
std::string failure(const ModelProto& m);

}  // namespace leat::onnx_testing
