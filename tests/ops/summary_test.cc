#include "ops/layers/summary.h"

#include "ops/text/parse.h"
#include "tests/catch.h"
#include "tests/ops/layer_stubs.h"

using namespace leat;

TEST_CASE("a summary counts the operations of one example, whatever the graph's batch") {
  const auto text_of = [](const char* rows) {
    const auto graph = parse_graph(std::string("net (float[") + rows +
                                       ",64] x) => (y) {\n"
                                       "  y = leat.Dense <units = 500> (x)\n}",
                                   stub_ops(), "net");
    REQUIRE(graph.ok());
    const auto text = summarize(*graph);
    REQUIRE(text.ok());
    return text->substr(text->find("forward pass"));
  };
  CHECK(text_of("N") == "forward pass: 0.06 MFLOP for one example\n");
  CHECK(text_of("32") == text_of("N"));
}

TEST_CASE("a summary counts parameters and operations as Keras does") {
  const auto graph = parse_graph(R"(
    net (float[N,1,28,28] image) => (logits) {
      c1 = leat.Conv2D <filters = 32, kernel = 3, activation = "relu"> (image)
      p1 = MaxPool <kernel_shape = [2,2], strides = [2,2]> (c1)
      f  = Flatten (p1)
      b  = leat.BatchNorm (f)
      logits = leat.Dense <units = 10> (b)
    })",
                                 stub_ops(), "net");
  REQUIRE(graph.ok());
  const auto text = summarize(*graph);
  INFO(text.status().message());
  REQUIRE(text.ok());
  CHECK(*text == R"(graph net
layer                output             parameters  MFLOP
---------------------------------------------------------
image (input)        float[N,1,28,28]
c1 (leat.Conv2D)     float[N,32,28,28]         320   0.48
p1 (MaxPool)         float[N,32,14,14]           0   0.03
f (Flatten)          float[N,6272]               0   0.00
b (leat.BatchNorm)   float[N,6272]          25,088   0.01
logits (leat.Dense)  float[N,10]            62,730   0.13

parameters: 88,138 (75,594 trainable, 12,544 not)
forward pass: 0.63 MFLOP for one example
)");
}
