#include "ops/layers/layers.h"

#include <fstream>
#include <sstream>

#include "ops/graph/validate.h"
#include "ops/text/parse.h"
#include "ops/text/print.h"
#include "tests/catch.h"
#include "tests/must.h"
#include "tests/ops/layer_stubs.h"

using namespace leat;

namespace {

Graph parse(const std::string& text) { return must(parse_graph(text, stub_ops(), "g")); }

// Returns the nodes of the expansion as text.
std::string nodes_of(const Graph& graph) {
  std::string text = print_graph(graph);
  text = text.substr(text.find("{\n") + 2);
  text.resize(text.size() - 2);
  return text;
}

std::string expanded(const std::string& text) { return nodes_of(must(expand_layers(parse(text)))); }

std::string failure(const std::string& text) {
  const Result<Graph> graph = expand_layers(parse(text));
  REQUIRE_FALSE(graph.ok());
  return graph.status().message();
}

// Checks the type of the graph's first output, both of the layer and of its expansion.
void check_type(const std::string& text, const std::string& type) {
  INFO(text);
  Graph layer = parse(text);
  const Status status = validate(layer);
  INFO(status.message());
  REQUIRE(status.ok());
  CHECK(layer.type_text(layer.value(layer.outputs()[0]).type) == type);
  const Graph graph = must(expand_layers(layer));
  CHECK(graph.type_text(graph.value(graph.outputs()[0]).type) == type);
}

std::string one_layer(const std::string& type, const std::string& layer) {
  return "g (" + type + " x) => (y) { y = leat." + layer + " (x) }";
}

}  // namespace

TEST_CASE("a dense layer becomes variables, their initial values and a Gemm") {
  CHECK(
      expanded(
          "g (float[N,3] x) => (y) { y = leat.Dense <units = 3, activation = \"relu\"> (x) }") ==
      R"(  "y/kernel/variable" = leat.Variable <dtype = "float", name = "y/kernel", shape = [3, 3], trainable = 1> ()
  "y/kernel/initial" = RandomUniform <dtype = 1, high = 1.0, low = -1.0, shape = [3, 3], source = 0> ()
  = leat.Initialize ("y/kernel/variable", "y/kernel/initial")
  "y/kernel" = leat.Read ("y/kernel/variable")
  "y/bias/variable" = leat.Variable <dtype = "float", name = "y/bias", shape = [3], trainable = 1> ()
  "y/bias/shape" = Constant <value = int64[1] {3}> ()
  "y/bias/initial" = ConstantOfShape <value = float[1] {0}> ("y/bias/shape")
  = leat.Initialize ("y/bias/variable", "y/bias/initial")
  "y/bias" = leat.Read ("y/bias/variable")
  "y/sum" = Gemm (x, "y/kernel", "y/bias")
  y = Relu ("y/sum")
)");
}

TEST_CASE("without a bias, or over more than rows, a dense layer is a MatMul") {
  const std::string plain = expanded(one_layer("float[N,4]", "Dense <units = 2, use_bias = 0>"));
  CHECK(plain.find("  y = MatMul (x, \"y/kernel\")\n") != std::string::npos);
  CHECK(plain.find("bias") == std::string::npos);
  const std::string deep = expanded(one_layer("float[N,5,4]", "Dense <units = 2>"));
  CHECK(deep.find("  \"y/product\" = MatMul (x, \"y/kernel\")\n"
                  "  y = Add (\"y/product\", \"y/bias\")\n") != std::string::npos);
}

TEST_CASE("a convolution pads as Keras does") {
  const auto conv = [](const std::string& type, const std::string& attrs) {
    const std::string text =
        expanded(one_layer(type, "Conv2D <filters = 4, use_bias = 0, " + attrs + ">"));
    const size_t begin = text.find("y = Conv");
    return text.substr(begin, text.find('\n', begin) - begin);
  };
  CHECK(
      conv("float[N,3,28,28]", "kernel = 3") ==
      "y = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1], strides = [1, 1]> (x, \"y/kernel\")");
  // With odd padding, the extra pixel is at the end.
  CHECK(conv("float[N,3,28,28]", "kernel = [3,2], strides = 2").find("pads = [0, 0, 1, 0]") !=
        std::string::npos);
  CHECK(conv("float[N,3,28,28]", "kernel = 3, padding = \"valid\"").find("pads") ==
        std::string::npos);
  CHECK(conv("float[N,3,28,28]", "kernel = 3, dilations = 2").find("pads = [2, 2, 2, 2]") !=
        std::string::npos);
  CHECK(conv("float[N,4,8,8]", "kernel = 1, groups = 2").find("group = 2") != std::string::npos);
}

TEST_CASE("a layer says the shape that its expansion has") {
  check_type(one_layer("float[N,3,28,28]", "Conv2D <filters = 8, kernel = 3>"), "float[N,8,28,28]");
  check_type(one_layer("float[N,3,29,28]", "Conv2D <filters = 8, kernel = 3, strides = 2>"),
             "float[N,8,15,14]");
  check_type(
      one_layer("float[N,3,29,28]",
                "Conv2D <filters = 8, kernel = [5,3], strides = [2,1], padding = \"valid\">"),
      "float[N,8,13,26]");
  check_type(one_layer("float[N,3,9,9]",
                       "Conv2D <filters = 8, kernel = 3, dilations = 2, padding = \"valid\">"),
             "float[N,8,5,5]");
  check_type(one_layer("float[N,3,7,7]", "Conv2DTranspose <filters = 8, kernel = 3, strides = 2>"),
             "float[N,8,14,14]");
  check_type(one_layer("float[N,3,7,7]",
                       "Conv2DTranspose <filters = 8, kernel = 4, strides = 2, "
                       "padding = \"valid\">"),
             "float[N,8,16,16]");
  check_type(one_layer("float[N,3,7,7]", "Conv2DTranspose <filters = 8, kernel = 1, strides = 2>"),
             "float[N,8,14,14]");
  check_type(one_layer("float[N,7]", "Dense <units = 5, activation = \"softmax\">"), "float[N,5]");
  check_type(one_layer("float[N,3,7]", "Dense <units = 5, activation = \"gelu\">"), "float[N,3,5]");
  check_type(one_layer("float[N,7]", "Dropout <rate = 0.5>"), "float[N,7]");
  check_type(one_layer("float[N,7,3]", "BatchNorm"), "float[N,7,3]");
  check_type(one_layer("float[N,7,3]", "LayerNorm <axis = 1>"), "float[N,7,3]");
  check_type(one_layer("int64[N,7]", "Embedding <input_dim = 100, output_dim = 16>"),
             "float[N,7,16]");
}

TEST_CASE("initializers scale as Keras' do") {
  const auto kernel = [](const std::string& initializer) {
    const std::string text = expanded(
        one_layer("float[N,2]", "Dense <units = 4, kernel_initializer = \"" + initializer + "\">"));
    const size_t begin = text.find("\"y/kernel/initial\" = ") + 21;
    return text.substr(begin, text.find('\n', begin) - begin);
  };
  CHECK(kernel("glorot_uniform").find("high = 1.0, low = -1.0") != std::string::npos);
  CHECK(kernel("he_uniform").find("high = 1.7320508075688772") != std::string::npos);
  CHECK(kernel("he_normal").find("RandomNormal <dtype = 1, mean = 0.0, scale = 1.0") == 0);
  CHECK(kernel("normal").find("scale = 0.05") != std::string::npos);
  CHECK(kernel("ones").find("ConstantOfShape <value = float[1] {1}>") == 0);
}

TEST_CASE("batch normalization moves its statistics, dropout asks one flag") {
  const std::string text = R"(g (float[N,3] x) => (z) {
    a = leat.BatchNorm (x)
    y = leat.Dropout <rate = 0.5> (a)
    z = leat.Dropout <rate = 0.25> (y)
  })";
  const Graph training = must(expand_layers(parse(text)));
  const std::string nodes = nodes_of(training);
  CHECK(nodes.find("name = \"a/moving_mean\", shape = [3], trainable = 0>") != std::string::npos);
  CHECK(nodes.find("a, \"a/moving_mean/next\", \"a/moving_variance/next\" = BatchNormalization "
                   "<epsilon = 0.001, momentum = 0.99, training_mode = 1> (x, \"a/gamma\", "
                   "\"a/beta\", \"a/moving_mean\", \"a/moving_variance\")\n"
                   "  = leat.Assign (\"a/moving_mean/variable\", \"a/moving_mean/next\")\n") !=
        std::string::npos);
  CHECK(nodes.find("training = Constant <value = bool {1}> ()") != std::string::npos);
  CHECK(nodes.find("y = Dropout <source = 1> (a, \"y/ratio\", training)") != std::string::npos);
  CHECK(nodes.find("z = Dropout <source = 2> (y, \"z/ratio\", training)") != std::string::npos);

  const Graph inference = must(set_training(training, false));
  const std::string still = nodes_of(inference);
  CHECK(still.find("leat.Assign") == std::string::npos);
  CHECK(still.find(
            "  a = BatchNormalization <epsilon = 0.001, momentum = 0.99, training_mode = 0> (") !=
        std::string::npos);
  CHECK(still.find("training = Constant <value = bool {0}> ()") != std::string::npos);
  CHECK(still.find("bool {1}") == std::string::npos);

  // Set back again, it has the same nodes, perhaps in another order.
  const Graph again = must(set_training(inference, true));
  CHECK(again.nodes() == training.nodes());
  CHECK(nodes_of(must(set_training(again, false))) == still);
  CHECK(nodes_of(must(set_training(training, true))).find("training_mode = 1") !=
        std::string::npos);
}

TEST_CASE("a batch normalization that trains already gets assignments if it has none") {
  const Graph layer =
      must(expand_layers(parse("g (float[N,3] x) => (y) { y = leat.BatchNorm (x) }")));
  std::string text = print_graph(layer);
  for (size_t at = text.find("  = leat.Assign"); at != std::string::npos;
       at = text.find("  = leat.Assign")) {
    text.erase(at, text.find('\n', at) + 1 - at);
  }
  CHECK(text.find("training_mode = 1") != std::string::npos);
  CHECK(nodes_of(must(set_training(parse(text), true))) == nodes_of(layer));
}

TEST_CASE("the weights of a layer do not depend on another layer") {
  const auto source = [](const std::string& text) {
    const Graph graph = must(expand_layers(parse(text)));
    std::vector<uint32_t> sources;
    for (NodeId id = 0; id < graph.nodes(); ++id) {
      if (graph.node(id).op->random) sources.push_back(graph.node(id).source);
    }
    return sources;
  };
  const std::string one = R"(g (float[N,3] x) => (z) {
    y = leat.Dense <units = 3> (x)
    z = leat.Dense <units = 3, bias_initializer = "normal"> (y) })";
  const std::string other = R"(g (float[N,3] x) => (z) {
    y = leat.Dense <units = 3, use_bias = 0, activation = "relu"> (x)
    z = leat.Dense <units = 3, bias_initializer = "normal"> (y) })";
  CHECK(source(one) == std::vector<uint32_t>{0, 1, 1 + (1 << 20)});
  CHECK(source(one) == source(other));
}

TEST_CASE("devices and control edges go to what a layer becomes") {
  const Graph graph = must(expand_layers(parse(R"(g (float[N,3] x) => (z) {
    a = Relu (x)
    z = leat.Dense <units = 3, device = "cpu:0", after = ["a"]> (x)
    e = Relu <after = ["z"]> (x) })")));
  for (NodeId id = 1; id + 1 < graph.nodes(); ++id) CHECK(graph.node(id).device == "cpu:0");
  const NodeId gemm = graph.value(graph.outputs()[0]).producer;
  CHECK(graph.node(gemm).after == std::vector<NodeId>{0});
  CHECK(graph.node(static_cast<NodeId>(graph.nodes() - 1)).after == std::vector<NodeId>{gemm});
}

TEST_CASE("a layer without a name is called after its op") {
  const std::string text = expanded(
      "g (float[N,3] x) => (\"%2\") { \"%1\" = leat.Dense <units = 3> (x) "
      "\"%2\" = leat.Dense <units = 3> (\"%1\") }");
  CHECK(text.find("name = \"dense_1/kernel\"") != std::string::npos);
  CHECK(text.find("name = \"dense_2/bias\"") != std::string::npos);
}

TEST_CASE("a wrong layer is refused with what was expected") {
  CHECK(failure(one_layer("float[N,3]", "Dense <units = 0>")) ==
        "leat.Dense 'y': attribute 'units': expected 1 to 16777216, received 0");
  CHECK(failure(one_layer("float[N,3]", "Dense <units = 2, activation = \"rleu\">"))
            .find("received 'rleu' (did you mean 'relu'?)") != std::string::npos);
  CHECK(failure(one_layer("float[N,M]", "Dense <units = 2>"))
            .find("expected a known number of features (axis 1), received [N,M]") !=
        std::string::npos);
  CHECK(
      failure(one_layer("float[N,3,4,4]", "Conv2D <filters = 2, kernel = 5, padding = \"valid\">"))
          .find("does not fit") != std::string::npos);
  CHECK(failure(one_layer("float[N,3,4,4]", "Conv2D <filters = 2, kernel = 3, groups = 2>"))
            .find("expected a divisor of 3 channels") != std::string::npos);
  CHECK(failure(one_layer("float[N,3]", "Dropout <rate = 1>")).find("expected 0 <= rate < 1") !=
        std::string::npos);
  CHECK(failure("g (float[N,3] x) => (float[N,4] y) { y = leat.Dense <units = 5> (x) }") ==
        "graph 'g': the output 'y' is declared float[N,4], it is float[N,5]");
  CHECK(failure(R"(g (float[N,3] x) => (y) {
          r = leat.Variable <name = "y/kernel", shape = [1]> ()
          y = leat.Dense <units = 5> (x) })")
            .find("two variables are called 'y/kernel'") != std::string::npos);
}

TEST_CASE("the graphs that we ship expand and know their outputs") {
  for (const char* name : {"fashion_cnn", "fashion_mlp", "fashion_cnn_bn"}) {
    const std::string path = std::string(LEAT_SOURCE_DIR) + "/configs/graphs/" + name + ".onnxtxt";
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    const Graph graph = must(expand_layers(parse(text.str())));
    CHECK(graph.type_text(graph.value(graph.outputs()[0]).type) == "float[N,10]");
    CHECK(print_graph(must(parse_graph(print_graph(graph), stub_ops(), "again"))) == print_graph(graph));
  }
}
