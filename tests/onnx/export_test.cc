// Writes models as ONNX files, reads them again, and compares what both compute.
#include "ops/onnx/export.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>

#include "devices/base/text.h"
#include "onnx.pb.h"
#include "ops/catalogue.h"
#include "ops/graph/interpret.h"
#include "ops/graph/validate.h"
#include "ops/layers/layers.h"
#include "ops/onnx/import.h"
#include "ops/text/parse.h"
#include "tests/catch.h"
#include "tests/must.h"
#include "tests/temporary_directory.h"

namespace leat {
namespace {

using Values = std::map<std::string, Tensor>;

const Catalogue& catalogue_for_export() {
  static const Catalogue catalogue = standard_catalogue();
  return catalogue;
}

Graph model_for_export(const std::string& text) {
  const Graph parsed = must(parse_graph(text, catalogue_for_export(), "model.onnxtxt"));
  return must(set_training(must(expand_layers(parsed)), false));
}

// Numbers that differ from each other, of both signs unless they are variances.
Tensor numbers(DType dtype, const Shape& shape, bool positive) {
  Tensor out(dtype, shape);
  for (int64_t i = 0; i < out.elements(); ++i) {
    const double value = static_cast<double>((i * 37 + 11) % 101) / 101;
    out.set(i, positive ? value + 0.5 : value - 0.5);
  }
  return out;
}

// A value for each variable of a graph.
Values variables_of(const Graph& graph) {
  Values values;
  for (NodeId id = 0; id < graph.nodes(); ++id) {
    if (graph.node(id).op->full_name() != "leat.Read") continue;
    const ValueId read = graph.node(id).outputs[0];
    const NodeId variable = graph.value(graph.node(id).inputs[0]).producer;
    const std::string name = attr_string(graph.node(variable).attrs, "name");
    const ValueType& type = graph.value(read).type;
    values[name] = numbers(type.dtype, *type.shape.concrete(), name.find("var") != name.npos);
  }
  return values;
}

// The outputs of a model for its inputs, by name.
std::vector<Tensor> outputs_of(const Graph& graph, const Values& variables, const Values& inputs) {
  std::map<ValueId, Tensor> feeds;
  for (const ValueId input : graph.inputs()) feeds[input] = inputs.at(graph.value_name(input));
  for (NodeId id = 0; id < graph.nodes(); ++id) {
    if (graph.node(id).op->full_name() != "leat.Read") continue;
    const NodeId variable = graph.value(graph.node(id).inputs[0]).producer;
    feeds[graph.node(id).outputs[0]] =
        variables.at(attr_string(graph.node(variable).attrs, "name"));
  }
  return must(interpret(graph, feeds, graph.outputs()));
}

// The values of the initializers of an imported model.
Values initial_values(const Graph& graph) {
  Values values;
  for (NodeId id = 0; id < graph.nodes(); ++id) {
    const Node& node = graph.node(id);
    if (node.op->full_name() != "leat.Initialize") continue;
    const NodeId variable = graph.value(node.inputs[0]).producer;
    values[attr_string(graph.node(variable).attrs, "name")] =
        must(interpret(graph, {}, {node.inputs[1]}))[0];
  }
  return values;
}

double difference(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  double most = 0;
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    REQUIRE(a[i].shape() == b[i].shape());
    for (int64_t k = 0; k < a[i].elements(); ++k)
      most = std::max(most, std::abs(a[i].at(k) - b[i].at(k)));
  }
  return most;
}

// A file, and the model in it.
struct ExportedFile {
  OnnxExported report;
  OnnxModel model;
  Graph inference;
};

ExportedFile written(const Graph& graph, const Values& variables, const std::string& path,
                     const OnnxExportOptions& options = {}) {
  const OnnxExported report = must(write_onnx(real_files(), path, graph, variables, options));
  OnnxModel model =
      must(import_onnx_file(real_files(), path, catalogue_for_export(), {.trainable = true}));
  Graph inference = must(set_training(must(expand_layers(model.graph)), false));
  return {report, std::move(model), std::move(inference)};
}

template <typename T>
std::string error_of(const Result<T>& result) {
  CHECK(!result.ok());
  return result.status().message();
}

constexpr const char* kHeader = "<ir_version: 10, opset_import: [\"\" : 20, \"leat\" : 1]>\n";

// Has a normalization, a Dropout, a composite and a reduction.
constexpr const char* kConvolutional = R"(
cnn (float[N,1,8,8] image) => (float[N,4] logits) {
  axes = Constant <value_ints = [1]> ()
  c1 = leat.Conv2D <filters = 4, kernel = 3> (image)
  b1 = leat.BatchNorm (c1)
  r1 = HardSwish (b1)
  p1 = MaxPool <kernel_shape = [2,2], strides = [2,2]> (r1)
  f = Flatten (p1)
  d = leat.Dropout <rate = 0.25> (f)
  h = leat.Dense <units = 8, activation = "relu"> (d)
  m = ReduceMean (h, axes)
  n = Sub (h, m)
  logits = leat.Dense <units = 4> (n)
}
)";

// Checks that the outputs of an exported model and of its source differ by at most `bound`. Returns
// the file.
ExportedFile check_round_trip(const Graph& model, const Values& inputs, double bound,
                              const OnnxExportOptions& options = {}) {
  const TemporaryDirectory folder;
  const Values variables = variables_of(model);
  ExportedFile file = written(model, variables, folder / "model.onnx", options);
  const Values again = initial_values(file.model.graph);
  CHECK(difference(outputs_of(model, variables, inputs),
                   outputs_of(file.inference, again, inputs)) <= bound);
  return file;
}

std::vector<std::string> ops_of(const Graph& graph) {
  std::vector<std::string> ops;
  for (NodeId id = 0; id < graph.nodes(); ++id) ops.push_back(graph.node(id).op->full_name());
  return ops;
}

onnx_wire::ModelProto proto_of(const std::string& path) {
  const Bytes bytes = must(read_file(real_files(), path, 1 << 24));
  onnx_wire::ModelProto model;
  REQUIRE(model.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())));
  return model;
}

}  // namespace

TEST_CASE("an exported model computes the same when it is read again") {
  const TemporaryDirectory folder;
  const Graph model = model_for_export(cat(kHeader, kConvolutional));
  const Values variables = variables_of(model);
  const ExportedFile file = written(model, variables, folder / "model.onnx");
  CHECK(file.report.opset == 20);
  CHECK(file.report.initializers == variables.size());
  CHECK(file.report.data.empty());
  const Values again = initial_values(file.model.graph);
  REQUIRE(again.size() == variables.size());
  for (const auto& [name, value] : variables) {
    INFO(name);
    REQUIRE(again.contains(name));
    CHECK(std::memcmp(again.at(name).raw(), value.raw(), value.bytes()) == 0);
  }
  // The batch is as free as it was.
  for (const int64_t rows : {1, 3}) {
    const Values inputs{{"image", numbers(DType::f32, {rows, 1, 8, 8}, false)}};
    CHECK(difference(outputs_of(model, variables, inputs),
                     outputs_of(file.inference, again, inputs)) == 0);
  }
}

TEST_CASE("an exported model is in its form for inference, and can be trained on") {
  const TemporaryDirectory folder;
  const Graph model = model_for_export(cat(kHeader, kConvolutional));
  const std::string path = folder / "model.onnx";
  const ExportedFile file = written(model, variables_of(model), path);
  const onnx_wire::ModelProto proto = proto_of(path);
  for (const auto& node : proto.graph().node()) {
    CHECK(node.domain().empty());
    if (node.op_type() == "Dropout") CHECK(node.input_size() == 2);
    for (const auto& attribute : node.attribute()) CHECK(attribute.name() != "training_mode");
  }
  // The same variables are trained, and in training the Dropout drops.
  std::map<std::string, bool> trained;
  for (const Graph* graph : {&model, &file.model.graph}) {
    for (NodeId id = 0; id < graph->nodes(); ++id) {
      if (graph->node(id).op->full_name() != "leat.Variable") continue;
      const std::string name = attr_string(graph->node(id).attrs, "name");
      const bool trains = attr_int(graph->node(id).attrs, "trainable", 1) != 0;
      CHECK(trained.emplace(name, trains).first->second == trains);
    }
  }
  CHECK(std::count_if(trained.begin(), trained.end(), [](auto& each) { return !each.second; }) ==
        2);
  const Graph training = must(set_training(must(expand_layers(file.model.graph)), true));
  const auto ops = ops_of(training);
  CHECK(std::count(ops.begin(), ops.end(), "leat.Assign") == 2);
}

// The import of PyTorch's files for training gives normalizations this attribute.
TEST_CASE("an export keeps how running variances are computed, as metadata") {
  const TemporaryDirectory folder;
  for (const int64_t unbiased : {0, 1}) {
    const Graph model = model_for_export(
        cat(kHeader, "norm (float[2,3,4] x, float[3] s) => (y) {\n  y = BatchNormalization ",
            "<leat_unbiased = ", unbiased, "> (x, s, s, s, s)\n}\n"));
    const std::string path = folder / "model.onnx";
    const ExportedFile file = written(model, {}, path);
    const auto proto = proto_of(path);
    for (const auto& node : proto.graph().node()) {
      for (const auto& attribute : node.attribute()) CHECK(attribute.name().substr(0, 4) != "leat");
    }
    int64_t found = -1;
    for (NodeId id = 0; id < file.model.graph.nodes(); ++id) {
      const Node& node = file.model.graph.node(id);
      if (node.op->name == "BatchNormalization") found = attr_int(node.attrs, "leat_unbiased");
    }
    CHECK(found == unbiased);
  }
}

TEST_CASE("an export writes an activation of a node as a node of its own") {
  const Graph model = model_for_export(cat(kHeader, "m (float[2,3] x, float[3,4] w) => (y) {\n",
                                           "  y = Gemm <leat_activation = \"relu\"> (x, w)\n}\n"));
  const Values inputs{{"x", numbers(DType::f32, {2, 3}, false)},
                      {"w", numbers(DType::f32, {3, 4}, false)}};
  const ExportedFile file = check_round_trip(model, inputs, 0);
  CHECK(ops_of(file.inference) == std::vector<std::string>{"Gemm", "Relu"});
}

TEST_CASE("an export leaves out the outputs that ONNX does not have") {
  const TemporaryDirectory folder;
  const std::string path = folder / "model.onnx";
  // A number of outputs in the file, or the error.
  const auto exported = [&](const std::string& outputs) {
    return model_for_export(cat(kHeader, "m (float[1,1,4,4] x) => (", outputs, ") {\n",
                                "  y, p, a = MaxPool <kernel_shape = [2,2]> (x)\n}\n"));
  };
  written(exported("y, p"), {}, path);
  CHECK(proto_of(path).graph().node(0).output_size() == 2);
  CHECK_THAT(error_of(check_onnx_export(exported("y, a"))),
             Catch::Contains("its output 'a' is not in ONNX"));
}

TEST_CASE("recurrent ops are exported as those of ONNX") {
  for (const std::string op : {"LSTM", "GRU", "RNN"}) {
    for (const std::string direction : {"forward", "reverse", "bidirectional"}) {
      for (const bool bias : {false, true}) {
        INFO(op << " " << direction << " " << bias);
        const int64_t gates = op == "LSTM" ? 4 : op == "GRU" ? 3 : 1;
        const int64_t directions = direction == "bidirectional" ? 2 : 1;
        const Graph model = model_for_export(
            cat(kHeader, "rnn (float[T,N,3] x, float[", directions, ",", gates * 5, ",3] w, float[",
                directions, ",", gates * 5, ",5] r, float[", directions, ",", gates * 10,
                "] b) => (y, h) {\n  y, h = ", op, " <hidden_size = 5, direction = \"", direction,
                "\"> (x, w, r", bias ? ", b" : "", ")\n}\n"));
        const Values inputs{
            {"x", numbers(DType::f32, {4, 2, 3}, false)},
            {"w", numbers(DType::f32, {directions, gates * 5, 3}, false)},
            {"r", numbers(DType::f32, {directions, gates * 5, 5}, false)},
            {"b", numbers(DType::f32, {directions, gates * 10}, false)},
        };
        const TemporaryDirectory folder;
        const std::string path = folder / "model.onnx";
        const ExportedFile file = written(model, {}, path);
        CHECK(difference(outputs_of(model, {}, inputs), outputs_of(file.inference, {}, inputs)) <=
              1e-6);
        const auto proto = proto_of(path);
        CHECK(std::count_if(proto.graph().node().begin(), proto.graph().node().end(),
                            [&](const auto& node) { return node.op_type() == op; }) == directions);
      }
    }
  }
}

TEST_CASE("a GRU keeps the bias inside of its reset, and an LSTM its peepholes") {
  const Graph gru = model_for_export(cat(
      kHeader, "gru (float[T,N,3] x, float[1,15,3] w, float[1,15,5] r, float[1,30] b) => (y) {\n",
      "  y = GRU <hidden_size = 5, linear_before_reset = 1> (x, w, r, b)\n}\n"));
  check_round_trip(gru,
                   {{"x", numbers(DType::f32, {4, 2, 3}, false)},
                    {"w", numbers(DType::f32, {1, 15, 3}, false)},
                    {"r", numbers(DType::f32, {1, 15, 5}, false)},
                    {"b", numbers(DType::f32, {1, 30}, false)}},
                   1e-6);
  const Graph lstm = model_for_export(
      cat(kHeader,
          "lstm (float[T,N,3] x, float[1,20,3] w, float[1,20,5] r, int32[N] n, float[1,N,5] h, ",
          "float[1,N,5] c, float[1,15] p) => (y, a, b) {\n  y, a, b = LSTM <hidden_size = 5, ",
          "activations = [\"HardSigmoid\", \"Tanh\", \"Relu\"], activation_alpha = [0.25]> ",
          "(x, w, r, \"\", n, h, c, p)\n}\n"));
  check_round_trip(lstm,
                   {{"x", numbers(DType::f32, {4, 2, 3}, false)},
                    {"w", numbers(DType::f32, {1, 20, 3}, false)},
                    {"r", numbers(DType::f32, {1, 20, 5}, false)},
                    {"n", Tensor::of<int32_t>({2}, {4, 2})},
                    {"h", numbers(DType::f32, {1, 2, 5}, false)},
                    {"c", numbers(DType::f32, {1, 2, 5}, false)},
                    {"p", numbers(DType::f32, {1, 15}, false)}},
                   1e-6);
}

TEST_CASE("an export is written in an older opset if its nodes have a form there") {
  const Graph model = model_for_export(cat(kHeader, kConvolutional));
  const Values inputs{{"image", numbers(DType::f32, {2, 1, 8, 8}, false)}};
  for (const int64_t opset : {13, 17, 18, 23}) {
    INFO(opset);
    const ExportedFile file = check_round_trip(model, inputs, 0, {.opset = opset});
    CHECK(file.report.opset == opset);
    CHECK(file.model.opset == opset);
  }
  // The sizes of this Reshape are those of x, and 0 for no element.
  const Graph normalized = model_for_export(
      cat(kHeader, "g (float[N,2,3] x) => (y) {\n  s = Constant <value = float[2] {1, 2}> ()\n",
          "  y = InstanceNormalization (x, s, s)\n}\n"));
  CHECK(must(check_onnx_export(normalized, {.opset = 13})) == 13);
  // Without a wish, the model's own opset counts, and a newer one if a node needs it.
  CHECK(must(check_onnx_export(model, {.source_opset = 9})) == 13);
  CHECK(must(check_onnx_export(model, {.source_opset = 17})) == 17);
  const Graph newer = model_for_export(cat(kHeader, "g (float[N,3] x) => (y) { y = Gelu (x) }\n"));
  CHECK(must(check_onnx_export(newer, {.source_opset = 17})) == 20);
  CHECK(error_of(check_onnx_export(newer, {.opset = 17})) ==
        "graph 'g': expected nodes that opset 17 has, received: Gelu 'y' needs opset 20");
  CHECK(error_of(check_onnx_export(newer, {.opset = 12})) ==
        "expected an opset of ONNX from 13 to 28, received 12");
}

TEST_CASE("an export takes the words of attributes that its opset has") {
  const TemporaryDirectory folder;
  const std::string path = folder / "model.onnx";
  for (const std::string mode : {"cubic", "bicubic"}) {
    const Graph model =
        model_for_export(cat(kHeader, "m (float[1,1,3,3] x, float[1,2,2,2] grid) => (y) {\n",
                             "  y = GridSample <mode = \"", mode, "\"> (x, grid)\n}\n"));
    for (const int64_t opset : {16, 20}) {
      OnnxExportOptions options;
      options.opset = opset;
      written(model, {}, path, options);
      const std::string word = opset < 20 ? "bicubic" : "cubic";
      CHECK(proto_of(path).graph().node(0).attribute(0).s() == word);
    }
  }
  // Older opsets sample images alone.
  const Graph volume =
      model_for_export(cat(kHeader, "m (float[1,1,3,3,3] x, float[1,2,2,2,3] grid) => (y) {\n",
                           "  y = GridSample (x, grid)\n}\n"));
  CHECK(must(check_onnx_export(volume, {.source_opset = 16})) == 20);
  CHECK_THAT(error_of(check_onnx_export(volume, {.opset = 19})), Catch::Contains("needs opset 20"));
  // Opset 16 brought other coordinates of regions.
  const auto regions = [](const std::string& attrs) {
    return model_for_export(cat(kHeader,
                                "m (float[1,1,3,3] x, float[1,4] r, int64[1] i) => (y) {\n",
                                "  y = RoiAlign ", attrs, " (x, r, i)\n}\n"));
  };
  CHECK(must(check_onnx_export(regions(""), {.source_opset = 13})) == 16);
  const Graph old = regions("<coordinate_transformation_mode = \"output_half_pixel\">");
  CHECK(must(check_onnx_export(old, {.source_opset = 13})) == 13);
  const Graph scatter =
      model_for_export(cat(kHeader, "m (float[3] x, int64[2] i, float[2] u) => (y) {\n",
                           "  y = ScatterElements <reduction = \"max\"> (x, i, u)\n}\n"));
  OnnxExportOptions options;
  options.opset = 16;
  CHECK_THAT(error_of(check_onnx_export(scatter, options)), Catch::Contains("needs opset 18"));
}

TEST_CASE("quantized values and narrow types are exported in an opset that has them") {
  const Graph model = model_for_export(R"(<ir_version: 11, opset_import: ["" : 25]>
g (float[N,6] x) => (float[N,6] y, float[N,6] z, float[5] w, float8e5m2[N,6] v,
  float[12,4] h, float[2] m) {
  s = Constant <value = float[3] {0.5, 0.25, 2}> ()
  o = Constant <value = int4[3] {1, -2, 0}> ()
  r = Constant <value_ints = [2, 3, -1]> ()
  i = Constant <value_ints = [-1, 6]> ()
  t = Reshape (x, r)
  q = QuantizeLinear <axis = 1> (t, s, o)
  d = DequantizeLinear <axis = 1> (q, s, o)
  y = Reshape (d, i)
  c = Constant <value = float {0.5}> ()
  k = QuantizeLinear <output_dtype = 17, saturate = 0> (x, c)
  z = DequantizeLinear (k, c)
  u = Constant <value = uint2[5] {3, 2, 1, 0, 3}> ()
  w = Cast <to = 1> (u)
  bs = Constant <value = float[4, 3] {1, 2, 0.5, 0.25, 1, 2, 3, 4, 0.1, 0.2, 0.3, 0.4}> ()
  bo = Constant <value = int4[4, 3] {1, 0, -1, 2, 0, -8, 7, 0, 0, 0, 0, 1}> ()
  br = Constant <value_ints = [4, 6]> ()
  f = Reshape (x, br)
  bq = QuantizeLinear <axis = 1, block_size = 2> (f, bs, bo)
  tq = Transpose <perm = [1, 0]> (bq)
  cq = Concat <axis = 0> (tq, tq)
  h = Cast <to = 1> (cq)
  p = Constant <value = float6e2m3[2] {31, 33}> ()
  m = Cast <to = 1> (p)
  e = Constant <value = float8e5m2 {0}> ()
  v = CastLike <saturate = 0> (x, e)
})");
  const Values inputs{{"x", numbers(DType::f32, {4, 6}, false)}};
  const ExportedFile file = check_round_trip(model, inputs, 0, {.source_opset = 20});
  CHECK(file.report.opset == 28);  // of the elements of 6 bits
  CHECK(error_of(check_onnx_export(model, {.opset = 20})).find("needs opset 21") !=
        std::string::npos);
}

TEST_CASE("an export names all nodes that ONNX lacks") {
  const Graph model = model_for_export(cat(kHeader, R"(g (float[4,3] x) => (y, z) {
  y = leat.AllReduce <op = "sum"> (x)
  z = leat.ReplicaId ()
}
)"));
  const std::string error = error_of(check_onnx_export(model));
  CHECK(error.find("expected nodes that ONNX has, received leat.") != error.npos);
  CHECK(error.find("AllReduce 'y'") != error.npos);
  CHECK(error.find("ReplicaId 'z'") != error.npos);
}

TEST_CASE("a large export has its data in a file beside it") {
  const TemporaryDirectory folder;
  const Graph model = model_for_export(cat(kHeader, R"(
mlp (float[N,40] x) => (float[N,4] y) {
  h = leat.Dense <units = 32> (x)
  y = leat.Dense <units = 4> (h)
}
)"));
  const Values variables = variables_of(model);
  const std::string path = folder / "big.onnx";
  const ExportedFile file = written(model, variables, path, {.most_inline = 1000});
  CHECK(file.report.data == path + ".data");
  CHECK(std::filesystem::file_size(path) < 2000);
  // Only the large kernel is outside: 40 * 32 floats.
  CHECK(std::filesystem::file_size(path + ".data") == 40 * 32 * 4);
  const Values inputs{{"x", numbers(DType::f32, {2, 40}, false)}};
  CHECK(difference(outputs_of(model, variables, inputs),
                   outputs_of(file.inference, initial_values(file.model.graph), inputs)) == 0);
}

TEST_CASE("an export needs a value of the right shape for each variable") {
  const TemporaryDirectory folder;
  const Graph model = model_for_export(cat(kHeader, R"(
mlp (float[N,4] x) => (float[N,2] y) { y = leat.Dense <units = 2> (x) }
)"));
  Values variables = variables_of(model);
  const std::string path = folder / "model.onnx";
  variables["y/bias"] = numbers(DType::f64, {3}, false);
  CHECK(error_of(write_onnx(real_files(), path, model, variables)) ==
        "variable 'y/bias': expected the shape [2], received [3]");
  variables.erase("y/bias");
  CHECK(error_of(write_onnx(real_files(), path, model, variables)) ==
        "variable 'y/bias': expected a value, none is given");
  CHECK_FALSE(std::filesystem::exists(path));
  // Weights of another precision are converted.
  variables["y/bias"] = numbers(DType::f64, {2}, false);
  const ExportedFile file = written(model, variables, path);
  CHECK(initial_values(file.model.graph).at("y/bias").dtype() == DType::f32);
}

}  // namespace leat
