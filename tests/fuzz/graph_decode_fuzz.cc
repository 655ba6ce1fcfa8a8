// Reads any bytes as a graph's file. An error must have a message, and an accepted file must be
// written back to bytes that are read and written as the same.
#include "ops/capnp/graph_file.h"
#include "ops/catalogue.h"
#include "ops/graph/op.h"
#include "ops/text/print.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace leat;
  static const Catalogue kOps = standard_catalogue();
  const auto input = bytes_of_input(data, size);
  Bytes sealed(input.begin(), input.end());
  seal_graph_file(sealed);  // random changes would not pass the checksum
  const auto graph = read_graph(sealed, kOps);
  if (!graph.ok()) {
    require_message(graph.status());
    return 0;
  }
  require(!print_graph(*graph).empty(), "what is read prints");
  const auto file = write_graph(*graph);
  require(file.ok(), "what is read is written");
  const auto again = read_graph(*file, kOps);
  require(again.ok(), "what is written is read");
  const auto twice = write_graph(*again);
  require(twice.ok() && *twice == *file, "what is written twice is the same");
  return 0;
}
