#include "ops/graph/free_batch.h"

#include "devices/base/text.h"
#include "ops/catalogue.h"
#include "ops/graph/validate.h"
#include "ops/layers/layers.h"
#include "ops/text/parse.h"
#include "ops/text/print.h"
#include "tests/catch.h"
#include "tests/must.h"

using namespace leat;

namespace {

// Returns a model on three rows, with these nodes between `x` and `y`.
Graph model_of(const std::string& input, const std::string& nodes) {
  static const Catalogue catalogue = standard_catalogue();
  const Graph written =
      must(parse_graph(cat("<ir_version: 10, opset_import: [\"\" : 20, \"leat\" : 1]>\nnet (",
                           input, " x) => (y) {\n", nodes, "\n}\n"),
                       catalogue, "net"));
  return must(expand_layers(written));
}

std::string output_of(const Graph& graph) {
  return graph.type_text(graph.value(graph.outputs()[0]).type);
}

struct Freed {
  std::string output;  // "float[N,4]", or the obstacle
  bool fixed = false;
};

Freed free_of(const std::string& input, const std::string& nodes) {
  Graph graph = model_of(input, nodes);
  const std::string before = print_graph(graph);
  const ModelBatch batch = free_batch(graph);
  if (!batch.fixed) return {output_of(graph), false};
  CHECK(*batch.fixed == 3);
  CHECK(print_graph(graph) == before);
  return {batch.why, true};
}

std::string shape_of(const std::string& name, const std::string& sizes, int rank) {
  return cat("  ", name, " = Constant <value = int64[", rank, "] {", sizes, "}> ()\n");
}

}  // namespace

TEST_CASE("a batch of one size becomes one of any where rows are computed by themselves") {
  for (const auto& [input, nodes, output] : std::vector<std::array<std::string, 3>>{
           {"float[3,1,8,8]",
            "  c = leat.Conv2D <filters = 2, kernel = 3, activation = \"relu\"> (x)\n"
            "  b = leat.BatchNorm (c)\n  p = MaxPool <kernel_shape = [2,2], strides = [2,2]> (b)\n"
            "  f = Flatten (p)\n  d = leat.Dropout <rate = 0.25> (f)\n"
            "  y = leat.Dense <units = 4> (d)",
            "float[N,4]"},
           // These are the nodes that exporters write for a flatten and for a view.
           {"float[3,2,4]", shape_of("s", "3, 8", 2) + "  y = Reshape (x, s)", "float[N,8]"},
           {"float[3,2,4]", shape_of("s", "3, 8", 2) + "  y = Reshape <allowzero = 1> (x, s)",
            "float[N,8]"},
           {"float[3,2,4]", shape_of("s", "3, -1, 2", 3) + "  y = Reshape (x, s)", "float[N,4,2]"},
           {"float[3,2,4]", shape_of("s", "3, -1, 2", 3) + "  y = Reshape <allowzero = 1> (x, s)",
            "float[N,4,2]"},
           // Rows of rows, and back again.
           {"float[3,2,4]",
            shape_of("s", "6, 4", 2) + shape_of("t", "3, 2, 5", 3) +
                "  r = Reshape (x, s)\n  d = leat.Dense <units = 5> (r)\n  y = Reshape (d, t)",
            "float[N,2,5]"},
           {"float[3,2,4]", "  y = Softmax <axis = 1> (x)", "float[N,2,4]"},
           {"float[3,2,4]",
            shape_of("b", "1", 1) + shape_of("e", "3", 1) + shape_of("a", "-1", 1) +
                "  y = Slice (x, b, e, a)",
            "float[N,2,2]"},
           {"int64[3,5]",
            "  t = Constant <value = float[2,3] {0, 1, 2, 3, 4, 5}> ()\n"
            "  y = Gather <axis = 0> (t, x)",
            "float[N,5,3]"},
       }) {
    INFO(nodes);
    const Freed freed = free_of(input, nodes);
    INFO(freed.output);
    CHECK_FALSE(freed.fixed);
    CHECK(freed.output == output);
  }
  // A size that is a symbol already stays one.
  Graph graph = model_of("float[M,4]", "  y = Relu (x)");
  CHECK_FALSE(free_batch(graph).fixed);
  CHECK(output_of(graph) == "float[M,4]");
}

TEST_CASE("a batch stays fixed where rows meet, or may meet") {
  for (const auto& [nodes, why] : std::vector<std::array<std::string, 2>>{
           {"  t = Constant <value = float[3,1,4] {0,0,0,0, 0,0,0,0, 0,0,0,0}> ()\n"
            "  y = Concat <axis = 1> (t, x)",
            "Concat"},
           {"  y = Softmax <axis = 0> (x)", "works along the first dimension"},
           {"  y = Softmax <axis = -3> (x)", "works along the first dimension"},
           {"  y = Transpose <perm = [1, 0, 2]> (x)", "gives float[2,N,4]"},
           {"  i = Constant <value = int64 {0}> ()\n  y = Gather <axis = 0> (x, i)",
            "works along the first dimension"},
           {shape_of("s", "1, -1, 4", 3) + "  y = Reshape (x, s)", "gives float[1,"},
           {shape_of("s", "1, -1, 4", 3) + shape_of("t", "3, 2, 4", 3) +
                "  r = Reshape (x, s)\n  a = Softmax <axis = 1> (r)\n  y = Reshape (a, t)",
            "gives float[1,"},
           {shape_of("s", "2, 1, 1", 3) + "  t = Tile (x, s)\n" + shape_of("r", "3, 4, 4", 3) +
                "  y = Reshape (t, r)",
            "Tile"},
           {shape_of("b", "-1", 1) + shape_of("e", "-9223372036854775807", 1) +
                shape_of("a", "0", 1) + shape_of("t", "-1", 1) + "  y = Slice (x, b, e, a, t)",
            "works along the first dimension"},
           {shape_of("b", "0", 1) + shape_of("e", "3", 1) + "  y = Slice (x, b, e)", "Slice"},
           {"  m = ReduceMean <keepdims = 1> (x)\n  y = Sub (x, m)", "ReduceMean"},
           {"  y = Flatten <axis = 0> (x)", "Flatten"},
           {shape_of("s", "3, 2, 4", 3) + "  y = RandomNormal <shape = [3, 2, 4]> ()",
            "output 'y'"},
       }) {
    INFO(nodes);
    const Freed freed = free_of("float[3,2,4]", nodes);
    INFO(freed.output);
    CHECK(freed.fixed);
    CHECK(freed.output.find(why) != std::string::npos);
  }
}

TEST_CASE("two Reshapes to one target with an allowed zero both copy the batch") {
  CHECK(free_of("float[3,4,6]", shape_of("t", "3, -1, 2", 3) +
                                    "  a = Reshape <allowzero = 1> (x, t)\n"
                                    "  b = Relu (a)\n"
                                    "  y = Reshape <allowzero = 1> (b, t)\n")
            .output == "float[N,12,2]");
}

TEST_CASE("elements gathered from fixed rows keep the batch fixed") {
  const std::string gather =
      "  i = Cast <to = 7> (x)\n"
      "  t = Constant <value = float[3,2] {1, 2, 3, 4, 5, 6}> ()\n";
  CHECK(free_of("float[3,1]", gather + "  y = GatherElements <axis = 1> (t, i)\n").fixed);
  CHECK(!free_of("float[3,1]", gather + "  y = GatherElements <axis = 1> (x, i)\n").fixed);
}

TEST_CASE("a target whose numbers are computed with keeps them") {
  const Freed freed = free_of("float[3,2,4]", shape_of("s", "3, 8", 2) + shape_of("i", "0", 1) +
                                                  "  f = Cast <to = 1> (s)\n  one = Gather (f, i)\n"
                                                  "  r = Reshape (x, s)\n  y = Mul (r, one)");
  INFO(freed.output);
  CHECK(freed.fixed);
}

TEST_CASE("a target that rows and others share is left alone") {
  // With x freed, the constant would give w another shape.
  const Freed freed =
      free_of("float[3,2,4]",
              "  w = Constant <value = float[24] {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, "
              "11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23}> ()\n" +
                  shape_of("s", "3, 8", 2) +
                  "  v = Reshape (w, s)\n  r = Reshape (x, s)\n  y = Add (r, v)");
  INFO(freed.output);
  CHECK(freed.fixed);
}
