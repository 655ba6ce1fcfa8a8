#include "tests/onnx/wire_models.h"

#include <span>

#include "ops/text/print.h"
#include "tests/catch.h"
#include "tests/ops/text_catalogue.h"

namespace leat::onnx_testing {

const Catalogue& ops() {
  static const Catalogue kOps = [] {
    Catalogue ops = text_catalogue();
    const auto infer = [](InferContext&) { return Status(); };
    for (const char* name :
         {"Softmax", "Flatten", "Shape", "Reshape", "Squeeze", "Unsqueeze", "ReduceMean",
          "ReduceSum", "Dropout", "BatchNormalization", "Pad", "Slice", "Split", "Conv",
          "LeakyRelu", "Identity", "Concat", "DFT", "RoiAlign"}) {
      ops.add(Op(name).infer(infer));
    }
    for (const char* name : {"leat.Initialize", "leat.Read"}) ops.add(Op(name).infer(infer));
    return ops;
  }();
  return kOps;
}

ModelProto model(int opset) {
  ModelProto m;
  m.set_ir_version(8);
  auto* import = m.add_opset_import();
  import->set_domain("");
  import->set_version(opset);
  m.mutable_graph()->set_name("g");
  return m;
}

void add_input(GraphProto& g, const std::string& name, std::vector<int64_t> dims) {
  auto* tensor = g.add_input()->mutable_type()->mutable_tensor_type();
  g.mutable_input(g.input_size() - 1)->set_name(name);
  tensor->set_elem_type(1);
  tensor->mutable_shape();
  for (const int64_t dim : dims) {
    auto* d = tensor->mutable_shape()->add_dim();
    if (dim < 0)
      d->set_dim_param("N");
    else
      d->set_dim_value(dim);
  }
}

NodeProto& add_node(GraphProto& g, const std::string& op, std::vector<std::string> inputs,
                    std::vector<std::string> outputs) {
  NodeProto& node = *g.add_node();
  node.set_op_type(op);
  for (auto& input : inputs) node.add_input(input);
  for (auto& output : outputs) node.add_output(output);
  return node;
}

AttributeProto& add_attr(NodeProto& node, const std::string& name, int type) {
  AttributeProto& attr = *node.add_attribute();
  attr.set_name(name);
  attr.set_type(type);
  return attr;
}

void add_ints(NodeProto& node, const std::string& name, std::vector<int64_t> ints) {
  AttributeProto& attr = add_attr(node, name, 7);
  for (const int64_t i : ints) attr.add_ints(i);
}

TensorProto& add_floats(GraphProto& g, const std::string& name, std::vector<float> floats) {
  TensorProto& t = *g.add_initializer();
  t.set_name(name);
  t.set_data_type(1);
  t.add_dims(static_cast<int64_t>(floats.size()));
  for (const float f : floats) t.add_float_data(f);
  return t;
}

Result<OnnxModel> import(const ModelProto& m, const OnnxOptions& options) {
  const std::string bytes = m.SerializeAsString();
  return import_onnx(std::as_bytes(std::span(bytes)), ops(), "m.onnx", options);
}

std::string nodes_of(const ModelProto& m, const OnnxOptions& options) {
  const Result<OnnxModel> read = import(m, options);
  INFO(read.status().message());
  REQUIRE(read.ok());
  std::string text = print_graph(read->graph);
  text = text.substr(text.find("{\n") + 2);
  text.resize(text.size() - 2);
  return text;
}

std::string failure(const ModelProto& m) {
  const Result<OnnxModel> read = import(m);
  REQUIRE_FALSE(read.ok());
  return read.status().message();
}

}  // namespace leat::onnx_testing
