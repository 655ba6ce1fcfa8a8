// Reads any bytes as the text form of a graph. An error must have a message, and an accepted graph
// must print and parse back to the same text. Then the gate and the layers process it.
#include <string_view>

#include "ops/catalogue.h"
#include "ops/graph/op.h"
#include "ops/layers/layers.h"
#include "ops/text/parse.h"
#include "ops/text/print.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace leat;
  static const Catalogue kOps = standard_catalogue();
  const auto graph = parse_graph({reinterpret_cast<const char*>(data), size}, kOps, "fuzz");
  if (!graph.ok()) {
    require_message(graph.status());
    return 0;
  }
  const std::string text = print_graph(*graph);
  const auto again = parse_graph(text, kOps, "again");
  require(again.ok(), "a printed graph is a graph");
  require(print_graph(*again) == text, "a printed graph is the same graph");
  const auto expanded = expand_layers(*graph);
  if (expanded.ok()) require(!print_graph(*expanded).empty(), "what expanded prints");
  if (!expanded.ok()) require_message(expanded.status());
  return 0;
}
