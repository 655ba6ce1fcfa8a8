// Tests models that PyTorch exported, which the importer prepares for training.
#include <algorithm>

#include "devices/base/text.h"
#include "devices/cpu/cpu_device.h"
#include "onnx.pb.h"
#include "ops/catalogue.h"
#include "ops/graph/interpret.h"
#include "ops/graph/validate.h"
#include "ops/layers/layers.h"
#include "ops/onnx/import.h"
#include "ops/state/resources.h"
#include "tests/catch.h"
#include "tests/must.h"

namespace leat {
namespace {

using namespace onnx_wire;

const Catalogue& standard() {
  static const Catalogue catalogue = standard_catalogue();
  return catalogue;
}

// A model of opset 20 over x [4,2]. Each case adds its nodes and initializers.
class Exported {
 public:
  explicit Exported(const std::string& producer = "pytorch") {
    model_.set_ir_version(8);
    model_.set_producer_name(producer);
    model_.add_opset_import()->set_version(20);
    graph().set_name("g");
    ValueInfoProto& x = *graph().add_input();
    x.set_name("x");
    x.mutable_type()->mutable_tensor_type()->set_elem_type(1);
    for (const int64_t size : {4, 2})
      x.mutable_type()->mutable_tensor_type()->mutable_shape()->add_dim()->set_dim_value(size);
  }
  GraphProto& graph() { return *model_.mutable_graph(); }
  Exported& floats(const std::string& name, const std::vector<float>& values) {
    TensorProto& t = *graph().add_initializer();
    t.set_name(name);
    t.set_data_type(1);
    t.add_dims(static_cast<int64_t>(values.size()));
    for (const float value : values) t.add_float_data(value);
    return *this;
  }
  // An axis, as Unsqueeze takes it.
  Exported& axis(const std::string& name, int64_t value) {
    TensorProto& t = *graph().add_initializer();
    t.set_name(name);
    t.set_data_type(7);
    t.add_dims(1);
    t.add_int64_data(value);
    return *this;
  }
  NodeProto& node(const std::string& op, const std::vector<std::string>& inputs,
                  const std::vector<std::string>& outputs) {
    NodeProto& node = *graph().add_node();
    node.set_op_type(op);
    for (const auto& input : inputs) node.add_input(input);
    for (const auto& output : outputs) node.add_output(output);
    return node;
  }
  // Adds a node as the exporter writes it that was made from this call of PyTorch, by this module.
  NodeProto& called(const std::string& call, const std::string& op,
                    const std::vector<std::string>& inputs, const std::string& output,
                    const std::string& module = "") {
    NodeProto& made = node(op, inputs, {output});
    auto& property = *made.add_metadata_props();
    property.set_key("pkg.torch.onnx.fx_node");
    const size_t open = call.find('(');
    property.set_value(cat("%", output, " : [num_users=1] = call_function[target=torch.ops.aten.",
                           call.substr(0, open), ".default](args = ", call.substr(open),
                           ", kwargs = {})"));
    auto& scopes = *made.add_metadata_props();
    scopes.set_key("pkg.torch.onnx.name_scopes");
    scopes.set_value(cat("['', '", module, "', '", output, "']"));
    return made;
  }
  void set(NodeProto& node, const std::string& name, int64_t value) {
    AttributeProto& attr = *node.add_attribute();
    attr.set_name(name);
    attr.set_type(2);
    attr.set_i(value);
  }
  void set(NodeProto& node, const std::string& name, float value) {
    AttributeProto& attr = *node.add_attribute();
    attr.set_name(name);
    attr.set_type(1);
    attr.set_f(value);
  }
  // Adds a BatchNormalization with momentum 0.75.
  void batch_norm(const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
                  bool training) {
    NodeProto& norm = node("BatchNormalization", inputs, outputs);
    if (training) set(norm, "training_mode", int64_t{1});
    set(norm, "momentum", 0.75f);
  }
  // Adds the signature that PyTorch 2.13's exporter writes.
  Exported& signature(const std::vector<std::string>& parameters,
                      const std::vector<std::string>& buffers) {
    std::string text = "\n# inputs\n";
    const auto called = [](std::string name) {
      std::replace(name.begin(), name.end(), '.', '_');
      return name;
    };
    for (const auto& name : parameters)
      text += cat("p_", called(name), ": PARAMETER target='", name, "'\n");
    for (const auto& name : buffers)
      text += cat("b_", called(name), ": BUFFER target='", name, "' persistent=True\n");
    auto& property = *graph().add_metadata_props();
    property.set_key("pkg.torch.export.ExportedProgram.graph_signature");
    property.set_value(text + "x: USER_INPUT\n\n# outputs\ny: BUFFER_MUTATION target='w'\n");
    return *this;
  }
  Exported& output(const std::string& name) {
    graph().add_output()->set_name(name);
    return *this;
  }
  OnnxModel import() const {
    const std::string bytes = model_.SerializeAsString();
    return must(
        import_onnx(std::as_bytes(std::span(bytes)), standard(), "m.onnx", {.trainable = true}));
  }

 private:
  ModelProto model_;
};

std::vector<NodeId> nodes_of(const Graph& graph, std::string_view op) {
  std::vector<NodeId> found;
  for (NodeId id = 0; id < graph.nodes(); ++id) {
    if (graph.node(id).op->full_name() == op) found.push_back(id);
  }
  return found;
}

using Names = std::vector<std::string>;

// Returns the sorted names of the trained variables.
Names trained(const OnnxModel& model) {
  Names names;
  for (const NodeId id : nodes_of(model.graph, "leat.Variable")) {
    const Attrs& attrs = model.graph.node(id).attrs;
    if (attr_int(attrs, "trainable") != 0) names.push_back(attr_string(attrs, "name"));
  }
  std::sort(names.begin(), names.end());
  return names;
}

// Does one training step of `model`, and has the variables after it.
class Stepped {
 public:
  Stepped(const OnnxModel& model, const Tensor& x) {
    Graph graph = must(set_training(model.graph, true));
    must(validate(graph));
    InterpretOptions options;
    options.resources = &resources_;
    options.device = &resources_.device();
    must(interpret(graph, {}, {}, nodes_of(graph, "leat.Initialize"), options));
    must(interpret(graph, {{graph.inputs()[0], x}}, {}, nodes_of(graph, "leat.Assign"), options));
  }
  std::vector<float> operator[](const std::string& variable) {
    const auto* data = static_cast<const float*>(resources_.find_variable(variable)->data());
    return {data, data + 2};
  }

 private:
  cpu::CpuDevice device_{0, 1};
  JobResources resources_{device_};
};

Tensor batch() { return Tensor::of<float>({4, 2}, {0, 2, 4, 2, 8, 6, 4, 6}); }  // means 4, 4
const std::vector<float> kVariances{8, 4};                                      // of it

}  // namespace

TEST_CASE("the running statistics of a file in training mode move with every step") {
  const bool training = GENERATE(true, false);
  Exported model("other");
  model.floats("w", {1, 1}).floats("b", {0, 0}).floats("mean", {1, 2}).floats("var", {4, 8});
  model.batch_norm(
      {"x", "w", "b", "mean", "var"},
      training ? std::vector<std::string>{"y", "m", "v"} : std::vector{std::string("y")}, training);
  Stepped after(model.output("y").import(), batch());
  CHECK(after["mean"] == std::vector<float>{1.75f, 2.5f});
  CHECK(after["var"] == std::vector<float>{0.75f * 4 + 0.25f * 8, 0.75f * 8 + 0.25f * 4});
}

TEST_CASE("the running variance of PyTorch's files divides by one less") {
  Exported model;
  model.floats("w", {1, 1}).floats("b", {0, 0}).floats("mean", {1, 2}).floats("var", {4, 8});
  model.batch_norm({"x", "w", "b", "mean", "var"}, {"y"}, false);
  Stepped after(model.output("y").import(), batch());
  CHECK(after["mean"] == std::vector<float>{1.75f, 2.5f});
  CHECK(after["var"][0] == Approx(0.75 * 4 + 0.25 * 8 * 4 / 3));
  CHECK(after["var"][1] == Approx(0.75 * 8 + 0.25 * 4 * 4 / 3));
}

TEST_CASE("statistics that two nodes share move in the order of the program") {
  const bool aliased =
      GENERATE(false, true);  // as PyTorch's current exporter writes the second use
  Exported model("other");
  model.floats("w", {1, 1}).floats("b", {3, 3}).floats("mean", {0, 0}).floats("var", {1, 1});
  model.batch_norm({"x", "w", "b", "mean", "var"}, {"h", "m", "v"}, true);
  if (aliased) {
    model.signature({"w", "b"}, {"mean", "var"});
    model.node("Identity", {"mean"}, {"getitem_1"});
    model.node("Identity", {"var"}, {"getitem_2"});
    model.batch_norm({"h", "w", "b", "getitem_1", "getitem_2"}, {"y"}, false);
  } else {
    model.batch_norm({"h", "w", "b", "mean", "var"}, {"y", "m2", "v2"}, true);
  }
  const OnnxModel imported = model.output("y").import();
  CHECK(nodes_of(must(set_training(imported.graph, true)), "leat.Assign").size() == 2);
  Stepped after(imported, batch());
  // 0.75 * (0.75 * 0 + 0.25 * 4) + 0.25 * 3: the second batch is normalized, and moved by b.
  for (const float mean : after["mean"]) CHECK(mean == Approx(1.5));
  const float once = 0.75f + 0.25f * kVariances[0];
  CHECK(after["var"][0] == Approx(0.75f * once + 0.25f).epsilon(1e-4));

  // Evaluation reads the running statistics in both places, whichever form it is made from.
  const Graph formed = must(set_training(must(set_training(imported.graph, true)), false));
  for (const NodeId id : nodes_of(formed, "BatchNormalization")) {
    const ValueId mean = formed.node(id).inputs[3];
    const Node& from = formed.node(formed.value(mean).producer);
    CHECK((from.op->full_name() == "leat.Read" || from.op->full_name() == "Identity"));
  }
  CHECK(nodes_of(formed, "leat.Assign").empty());
}

TEST_CASE("buffers and constants that the exporter computed are not trained") {
  Exported model;
  model.floats("scale", {1, 2}).floats("mask", {0, 1}).floats("linspace", {0, 1});
  model.floats("val_3", {1, 1});  // weights under any name
  model.signature({"scale"}, {"mask"});
  model.node("Mul", {"x", "scale"}, {"a"});
  model.node("Mul", {"a", "mask"}, {"b"});
  model.node("Add", {"b", "linspace"}, {"c"});
  model.node("LayerNormalization", {"c", "val_3"}, {"y"});
  const OnnxModel imported = model.output("y").import();
  CHECK(trained(imported) == Names{"scale", "val_3"});
  CHECK(imported.notes == Names{"m.onnx: trains 2 variables of 4 values in all; does not train 1 "
                                "buffer ('mask'), 1 constant that the exporter computed "
                                "('linspace')"});
}

// A matrix [2,2] of these values, row by row.
void add_matrix(Exported& model, const std::string& name, const std::vector<float>& values) {
  model.floats(name, values);
  TensorProto& t = *model.graph().mutable_initializer(model.graph().initializer_size() - 1);
  t.clear_dims();
  for (int i = 0; i < 2; ++i) t.add_dims(2);
}

TEST_CASE("a weight that the exporter transposed for one of two uses is one weight again") {
  Exported model;
  add_matrix(model, "tied.weight", {1, 2, 3, 4});
  add_matrix(model, "val_7", {1, 3, 2, 4});  // its transpose
  add_matrix(model, "val_8", {1, 3, 2, 5});  // not quite
  add_matrix(model, "flat.weight", {6, 6, 6, 6});
  add_matrix(model, "val_9", {6, 6, 6, 6});  // equal to many
  model.signature({"tied.weight", "flat.weight", "other.weight"}, {});
  model.node("MatMul", {"x", "tied.weight"}, {"a"});
  model.node("MatMul", {"a", "val_7"}, {"b"});
  model.node("MatMul", {"b", "val_8"}, {"c"});
  model.node("MatMul", {"c", "flat.weight"}, {"d"});
  model.node("MatMul", {"d", "val_9"}, {"y"});
  const OnnxModel imported = model.output("y").import();
  CHECK(trained(imported) == Names{"flat.weight", "tied.weight", "val_8", "val_9"});
  CHECK(nodes_of(imported.graph, "Transpose").size() == 1);
  const std::string all = join(imported.notes, "\n");
  CHECK_THAT(all, Catch::Contains("1 initializer that the exporter had transposed"));
  // Both uses read the one variable.
  const NodeId turned = nodes_of(imported.graph, "Transpose")[0];
  const NodeId read = imported.graph.value(imported.graph.node(turned).inputs[0]).producer;
  CHECK(imported.graph.value_name(imported.graph.node(read).outputs[0]) == "tied.weight");
}

TEST_CASE("parameters that were written as one are told apart by the calls of the module") {
  Exported model;
  model.floats("a.weight", {1, 1}).floats("a.bias", {0, 0});
  model.signature({"a.weight", "a.bias", "b.weight", "b.bias", "gain", "x"}, {"mask"});
  const auto norm = [&](const std::string& name, const std::string& in, const std::string& out) {
    model.called(cat("layer_norm(%x, [2], %p_", name, "_weight, %p_", name, "_bias, 1e-05, False)"),
                 "LayerNormalization", {in, "a.weight", "a.bias"}, out);
  };
  norm("a", "x", "n");
  norm("b", "n", "m");
  norm("b", "m", "l");  // b is called twice
  model.called("mul(%l, %p_gain)", "Mul", {"l", "a.weight"}, "g");
  model.called("add(%g, %b_mask)", "Add", {"g", "a.bias"}, "k");
  model.called("add(%k, %p_x)", "Add", {"k", "a.bias"}, "j");  // the name of another value
  model.called("mul(%j, %unknown)", "Mul", {"j", "a.weight"}, "y");
  const OnnxModel imported = model.output("y").import();
  CHECK(trained(imported) == Names{"a.bias", "a.weight", "b.bias", "b.weight", "gain"});
  CHECK_THAT(imported.notes[0], Catch::Contains("1 buffer ('mask')"));
  CHECK_THAT(join(imported.notes, "\n"), Catch::Contains("4 initializers that the exporter had "
                                                         "written as one"));
  Graph graph = imported.graph;
  must(validate(graph));
  const std::vector<NodeId> norms = nodes_of(graph, "LayerNormalization");
  REQUIRE(norms.size() == 3);
  const auto weights = [&](size_t i) { return graph.value_name(graph.node(norms[i]).inputs[1]); };
  CHECK(weights(0) == "a.weight");
  CHECK(weights(1) == "b.weight");
  CHECK(weights(2) == "b.weight");
}

TEST_CASE("biases of zeros that the exporter left out are trained") {
  Exported model;
  add_matrix(model, "fc.weight", {1, 2, 3, 4});
  model.signature({"fc.weight", "fc.bias", "gc.bias", "hc.bias"}, {});
  model.called("linear(%x, %p_fc_weight, %p_fc_bias)", "Gemm", {"x", "fc.weight"}, "a");
  NodeProto& sum =
      model.called("addmm(%p_gc_bias, %a, %p_fc_weight)", "Gemm", {"a", "fc.weight"}, "b");
  model.set(sum, "beta", 1.0f);
  NodeProto& scaled =
      model.called("addmm(%p_hc_bias, %b, %p_fc_weight)", "Gemm", {"b", "fc.weight"}, "c");
  model.set(scaled, "beta", 0.5f);
  model.called("linear(%c, %p_fc_weight, None)", "Gemm", {"c", "fc.weight"}, "y");
  const OnnxModel imported = model.output("y").import();
  CHECK(trained(imported) == Names{"fc.bias", "fc.weight", "gc.bias"});
  CHECK_THAT(join(imported.notes, "\n"),
             Catch::Contains("2 biases that the exporter had left out, because all values were "
                             "zero, are variables again"));
}

// Weights without elements take no bytes of the file, whatever their sizes are.
TEST_CASE("a bias that was left out beside weights without elements stays out") {
  Exported model;
  model.floats("fc.weight", {});
  TensorProto& t = *model.graph().mutable_initializer(0);
  t.clear_dims();
  for (const int64_t size : {int64_t{1} << 40, int64_t{0}}) t.add_dims(size);
  model.signature({"fc.weight", "fc.bias"}, {});
  model.set(model.called("linear(%x, %p_fc_weight, %p_fc_bias)", "Gemm", {"x", "fc.weight"}, "y"),
            "transB", int64_t{1});
  const Names names = trained(model.output("y").import());
  CHECK(std::count(names.begin(), names.end(), "fc.bias") == 0);
}

TEST_CASE("the transposed weights of a linear layer are its own again") {
  Exported model;
  add_matrix(model, "val_3", {1, 2, 3, 4});
  add_matrix(model, "val_4", {1, 2, 3, 5});
  model.signature({"fc.weight"}, {});
  model.called("linear(%x, %p_fc_weight)", "MatMul", {"x", "val_3"}, "a");
  model.called("matmul(%a, %p_fc_weight)", "MatMul", {"a", "val_4"}, "y");  // not transposed
  const OnnxModel imported = model.output("y").import();
  CHECK(trained(imported) == Names{"fc.weight", "val_4"});
  Graph graph = imported.graph;
  must(validate(graph));
  REQUIRE(nodes_of(graph, "Transpose").size() == 1);
  CHECK_THAT(imported.notes[0], !Catch::Contains("lacks"));
  Stepped after(imported, batch());
  CHECK(after["fc.weight"] == std::vector<float>{1, 3});
}

TEST_CASE("a mask is not trained, although parameters are missing") {
  Exported model;
  model.floats("scale", {1, 2}).floats("where", {0, -3.4028235e38f}).floats("view_2", {1, 1});
  model.signature({"scale", "gone"}, {});
  model.node("Mul", {"x", "scale"}, {"a"});
  model.node("Mul", {"a", "view_2"}, {"b"});
  model.node("Add", {"b", "where"}, {"y"});
  const OnnxModel imported = model.output("y").import();
  CHECK(trained(imported) == Names{"scale", "view_2"});
  CHECK_THAT(imported.notes[0], Catch::Contains("does not train 1 mask ('where')"));
}

TEST_CASE("a computed constant that no missing parameter's module reads is not trained") {
  Exported model;
  model.floats("cos", {0, 1}).floats("embedding", {1, 2}).floats("gate", {2, 1});
  model.signature({"embeddings.position.weight", "layers.0.norm.weight"}, {});
  model.called("mul(%x, %cos)", "Mul", {"x", "cos"}, "a", "layers.0.attention");
  model.called("add(%a, %embedding)", "Add", {"a", "embedding"}, "b", "embeddings");
  model.called("mul(%b, %gate)", "Mul", {"b", "gate"}, "y", "layers.0.norm");
  const OnnxModel imported = model.output("y").import();
  CHECK(trained(imported) == Names{"embedding", "gate"});
  CHECK_THAT(imported.notes[0], Catch::Contains("does not train 1 constant that the exporter "
                                                "computed ('cos')"));
}

// A matrix [4,2], as many rows as x has.
void add_rows(Exported& model, const std::string& name, const std::vector<float>& values) {
  model.floats(name, values);
  TensorProto& t = *model.graph().mutable_initializer(model.graph().initializer_size() - 1);
  t.clear_dims();
  for (const int64_t size : {4, 2}) t.add_dims(size);
}

TEST_CASE("a parameter that was expanded to the rows of the example is one for all rows") {
  Exported model;
  add_rows(model, "expand", {1, 2, 1, 2, 1, 2, 1, 2});
  add_rows(model, "cat", {1, 2, 1, 2, 1, 2, 1, 3});
  add_rows(model, "zeros_3", {0, 0, 0, 0, 0, 0, 0, 0});
  add_rows(model, "where_1", {0, 0, 0, 0, 0, 0, 0, 0});
  model.signature({"head.token"}, {});
  // The module hands it to one inside.
  model.called("add(%x, %expand)", "Add", {"x", "expand"}, "a", "head.stage");
  model.called("add(%a, %cat)", "Add", {"a", "cat"}, "b", "head");
  model.called("add(%b, %where_1)", "Add", {"b", "where_1"}, "c", "head");
  model.called("add(%c, %zeros_3)", "Add", {"c", "zeros_3"}, "y", "head");
  const OnnxModel imported = model.output("y").import();
  CHECK(trained(imported) == Names{"cat", "head.token"});
  CHECK_THAT(join(imported.notes, "\n"),
             Catch::Contains("1 constant with a row for each of the example's is one variable") &&
                 !Catch::Contains("lacks"));
  Graph graph = imported.graph;
  must(validate(graph));
  const auto expands = nodes_of(graph, "Expand");
  REQUIRE(expands.size() == 2);
  const ValueId token = graph.node(expands[0]).inputs[0];
  CHECK(graph.value_name(token) == "head.token");
  CHECK(graph.value_name(graph.node(expands[1]).inputs[0]) == "where_1/row");
  CHECK(graph.value(token).type.shape == SymbolicShape(Shape({1, 2})));
  Stepped after(imported, batch());
  CHECK(after["head.token"] == std::vector<float>{1, 2});
}

TEST_CASE("a model of tf2onnx comes with a note about the biases that may be missing") {
  for (const bool tensorflow : {true, false}) {
    Exported model(tensorflow ? "tf2onnx" : "another");
    model.floats("scale", {1, 2});
    model.node("Mul", {"x", "scale"}, {"y"});
    const std::string notes = join(model.output("y").import().notes, "\n");
    CHECK((notes.find("tf2onnx leaves out biases that are all 0") != std::string::npos) ==
          tensorflow);
  }
}

TEST_CASE("an LSTM of tf2onnx has the one bias that it has in Keras") {
  const auto variables = [](const std::string& producer, float last) {
    Exported model(producer);
    const auto floats = [&](const std::string& name, const std::vector<float>& values,
                            const std::vector<int64_t>& dims) {
      model.floats(name, values);
      TensorProto& t = *model.graph().mutable_initializer(model.graph().initializer_size() - 1);
      t.clear_dims();
      for (const int64_t size : dims) t.add_dims(size);
    };
    floats("W", {1, 2, 3, 4, 5, 6, 7, 8}, {1, 4, 2});
    floats("R", {1, 2, 3, 4}, {1, 4, 1});
    floats("B", {0.5f, 0, 0.25f, 1, 0, 0, 0, last}, {1, 8});
    model.axis("axis", 0);
    model.node("Unsqueeze", {"x", "axis"}, {"s"});
    model.set(model.node("LSTM", {"s", "W", "R", "B"}, {"y"}), "hidden_size", int64_t{1});
    Graph graph = must(expand_layers(model.output("y").import().graph));
    must(validate(graph));
    std::map<std::string, int64_t> sizes;
    for (const NodeId id : nodes_of(graph, "leat.Read")) {
      const ValueId read = graph.node(id).outputs[0];
      sizes[graph.value_name(read)] = graph.value(read).type.shape.concrete()->elements();
    }
    return sizes;
  };
  using Sizes = std::map<std::string, int64_t>;
  CHECK(variables("tf2onnx", 0) == Sizes{{"B", 4}, {"R", 4}, {"W", 8}});
  CHECK(variables("tf2onnx", 2) == Sizes{{"B", 8}, {"R", 4}, {"W", 8}});
  CHECK(variables("another", 0) == Sizes{{"B", 8}, {"R", 4}, {"W", 8}});
}

TEST_CASE("recurrent layers of tf2onnx that share a bias but no weights train it apart") {
  const auto variables = [](const std::string& second) {
    Exported model("tf2onnx");
    const auto floats = [&](const std::string& name, size_t count,
                            const std::vector<int64_t>& dims) {
      model.floats(name, std::vector<float>(count, 0.5f));
      TensorProto& t = *model.graph().mutable_initializer(model.graph().initializer_size() - 1);
      t.clear_dims();
      for (const int64_t size : dims) t.add_dims(size);
    };
    floats("W", 6, {1, 3, 2});
    floats("V", 6, {1, 3, 2});
    floats("R", 3, {1, 3, 1});
    floats("B", 6, {1, 6});
    floats("B/2", 3, {1, 3, 1});  // a name that is taken
    model.axis("axis", 0);
    model.node("Unsqueeze", {"x", "axis"}, {"s"});
    model.set(model.node("GRU", {"s", "W", "R", "B"}, {"a"}), "hidden_size", int64_t{1});
    model.set(model.node("GRU", {"s", second, "R", "B"}, {"b"}), "hidden_size", int64_t{1});
    model.node("Add", {"a", "b"}, {"y"});
    Graph graph = must(expand_layers(model.output("y").import().graph));
    std::set<std::string> names;
    for (const NodeId id : nodes_of(graph, "leat.Read"))
      names.insert(graph.value_name(graph.node(id).outputs[0]));
    return names;
  };
  CHECK(variables("V") == std::set<std::string>{"B", "B/2", "B/3", "R", "V", "W"});
  CHECK(variables("W") ==
        std::set<std::string>{"B", "B/2", "R", "V", "W"});  // one layer, applied twice
}

TEST_CASE("the values of a OneHot are no variable") {
  Exported model;
  model.floats("values", {0, 1});
  model.floats("w", {1, 2});
  model.axis("depth", 2);
  model.node("Mul", {"x", "w"}, {"a"});
  model.node("ArgMax", {"a"}, {"index"});
  model.node("OneHot", {"index", "depth", "values"}, {"b"});
  model.node("Add", {"a", "b"}, {"y"});
  const Graph graph = model.output("y").import().graph;
  const std::vector<NodeId> reads = nodes_of(graph, "leat.Read");
  REQUIRE(reads.size() == 1);
  CHECK(graph.value_name(graph.node(reads[0]).outputs[0]) == "w");
}

TEST_CASE("a constant that is broadcast to more dimensions has no row for each of the example's") {
  Exported model;
  add_rows(model, "expand", {1, 2, 1, 2, 1, 2, 1, 2});
  model.signature({"head.bias"}, {});
  model.node("Unsqueeze", {"x", "axis"}, {"a"});
  model.called("add(%a, %expand)", "Add", {"a", "expand"}, "y", "head");
  model.axis("axis", 1);
  const bool declared = GENERATE(false, true);
  if (declared) {
    ValueInfoProto& y = *model.graph().add_value_info();
    y.set_name("y");
    y.mutable_type()->mutable_tensor_type()->set_elem_type(1);
    for (const int64_t size : {4, 4, 2})
      y.mutable_type()->mutable_tensor_type()->mutable_shape()->add_dim()->set_dim_value(size);
  }
  Graph graph = model.output("y").import().graph;
  must(validate(graph));
  CHECK(nodes_of(graph, "Expand").size() == (declared ? 0 : 1));
}

TEST_CASE("constants that were computed from equal parameters of modules train apart") {
  Exported model;
  model.floats("view", {1, 1}).floats("val_8", {1, 1}).floats("val_11", {0, 0});
  model.signature({"a.gamma", "b.gamma", "c.0.gamma"}, {});
  model.called("mul(%x, %view)", "Mul", {"x", "view"}, "k", "a");
  model.called("mul(%k, %view_1)", "Mul", {"k", "view"}, "l", "b");
  model.called("mul(%l, %view_2)", "Mul", {"l", "view"}, "m", "b");    // called again
  model.called("mul(%m, %view_3)", "Mul", {"m", "view"}, "n", "c.1");  // no gamma of its own
  // The exporter's own weights are no parameters.
  model.called("reshape(%n)", "Unsqueeze", {"n", "axis"}, "o", "c.0");
  model.called("group_norm(%n)", "InstanceNormalization", {"o", "val_8", "val_11"}, "y", "c.0");
  model.axis("axis", 2);
  const OnnxModel imported = model.output("y").import();
  CHECK(trained(imported) == Names{"view", "view/b"});
  Graph graph = imported.graph;
  must(validate(graph));
  Names read;
  for (const NodeId id : nodes_of(graph, "Mul"))
    read.push_back(graph.value_name(graph.node(id).inputs[1]));
  REQUIRE(read.size() >= 4);  // the others are those of the normalization
  read.resize(4);
  CHECK(read == Names{"view", "view/b", "view/b", "view"});
}

TEST_CASE("a line that was looked up for all tokens is one line") {
  Exported model;
  const auto add = [&](const std::string& name, const std::vector<float>& line) {
    std::vector<float> values;
    for (int i = 0; i < 12; ++i) values.insert(values.end(), line.begin(), line.end());
    model.floats(name, values);
    TensorProto& t = *model.graph().mutable_initializer(model.graph().initializer_size() - 1);
    t.clear_dims();
    for (const int64_t size : {4, 3, 2}) t.add_dims(size);
  };
  add("embedding_1", {1, 2});
  add("embedding_2", {1, 1});  // equal numbers, perhaps of different lines
  add("expand_1", {1, 2});
  model.signature({"a.weight", "b.weight"}, {});
  model.axis("axis", 1);
  model.node("Unsqueeze", {"x", "axis"}, {"a"});
  model.called("add(%a, %embedding_1)", "Add", {"a", "embedding_1"}, "b");
  model.called("add(%b, %embedding_2)", "Add", {"b", "embedding_2"}, "c");
  model.called("add(%c, %expand_1)", "Add", {"c", "expand_1"}, "y");
  Graph graph = model.output("y").import().graph;
  must(validate(graph));
  Names shapes;
  for (const NodeId id : nodes_of(graph, "Expand"))
    shapes.push_back(graph.type_text(graph.value(graph.node(id).inputs[0]).type));
  std::sort(shapes.begin(), shapes.end());
  CHECK(shapes == Names{"float[1,1,2]", "float[1,3,2]", "float[1,3,2]"});
}

TEST_CASE("initializers that were merged because they were equal train apart") {
  Exported model;
  model.floats("a.gamma", {1, 1}).floats("onnx::MatMul_1", {1, 1});
  model.node("Identity", {"a.gamma"}, {"b.gamma"});
  model.node("Identity", {"onnx::MatMul_1"}, {"onnx::MatMul_2"});  // tied: both use one
  model.node("Identity", {"a.gamma"}, {"/Identity_output_0"});     // a node of the module
  model.node("Mul", {"x", "a.gamma"}, {"c"});
  model.node("Mul", {"c", "b.gamma"}, {"d"});
  model.node("Mul", {"d", "onnx::MatMul_1"}, {"e"});
  model.node("Mul", {"e", "onnx::MatMul_2"}, {"f"});
  model.node("Mul", {"f", "/Identity_output_0"}, {"y"});
  const OnnxModel imported = model.output("y").import();
  CHECK(trained(imported) == Names{"a.gamma", "b.gamma", "onnx::MatMul_1"});
  REQUIRE(imported.notes.size() == 2);
  CHECK_THAT(imported.notes[1], Catch::Contains("1 initializer that the exporter had written as"));
}

TEST_CASE("running statistics that were merged with weights are neither trained nor lost") {
  Exported model("other");
  model.floats("w", {1, 1}).floats("b", {0, 0});
  model.batch_norm({"x", "w", "b", "b", "w"}, {"y"}, false);
  const OnnxModel imported = model.output("y").import();
  CHECK(trained(imported) == Names{"b", "w"});
  Stepped after(imported, batch());
  CHECK(after["b/running_mean"] == std::vector<float>{1, 1});
  CHECK(after["w/running_var"] == std::vector<float>{0.75f + 2, 0.75f + 1});
  CHECK(after["w"] == std::vector<float>{1, 1});
}

TEST_CASE("normalizations that were folded are counted by what the file says of its module") {
  const auto notes = [](bool signature, const std::string& op, const std::string& weights,
                        const std::string& producer = "pytorch") {
    Exported model(producer);
    TensorProto& w = *model.graph().add_initializer();
    w.set_name(weights);
    w.set_data_type(1);
    for (const int64_t size : {2, 2}) w.add_dims(size);
    for (int i = 0; i < 4; ++i) w.add_float_data(0.5f);
    model.floats("onnx::Bias_1", {1, 1});
    model.node(op, {"x", weights, "onnx::Bias_1"}, {"y"});
    if (signature)
      model.signature({"f.weight", "bn.weight", "bn.bias"}, {"bn.running_mean", "bn.running_var"});
    std::string all;
    for (const std::string& note : model.output("y").import().notes) all += note + "\n";
    return all;
  };
  const char* const folded = "the exporter folded 1 BatchNormalization into the weights";
  for (const std::string& told :
       {notes(true, "Gemm", "f.weight"), notes(false, "Gemm", "onnx::Gemm_4")}) {
    CHECK_THAT(told, Catch::Contains(folded) && Catch::Contains("optimize=False"));
    CHECK_THAT(told, !Catch::Contains("of the module"));
  }
  CHECK_THAT(notes(false, "Gemm", "f.weight"), !Catch::Contains(folded));
  CHECK_THAT(notes(false, "Gemm", "onnx::Gemm_4", "other"), !Catch::Contains(folded));
}

TEST_CASE("parameters that the file does not have are counted, what they may be in is trained") {
  Exported model;
  model.floats("a.gamma", {1, 1}).floats("view_2", {1, 1}).floats("mask", {1, 1});
  model.signature({"a.gamma", "b.gamma", "c.gamma"}, {"mask"});
  model.node("Mul", {"x", "a.gamma"}, {"c"});
  model.node("Mul", {"c", "view_2"}, {"d"});
  model.node("Mul", {"d", "mask"}, {"y"});
  const OnnxModel imported = model.output("y").import();
  CHECK(trained(imported) == Names{"a.gamma", "view_2"});
  const Names& notes = imported.notes;
  REQUIRE(notes.size() == 3);
  CHECK_THAT(notes[1],
             Catch::Contains("lacks 2 parameters ('b.gamma', 'c.gamma') of the module's 3"));
  CHECK_THAT(notes[0],
             Catch::Contains("with them 1 constant that the exporter computed ('view_2')"));
  CHECK_THAT(notes[2], Catch::Contains("optimize=False"));
}

}  // namespace leat
