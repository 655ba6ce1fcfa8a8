// Reads any bytes as an ONNX model, with its weights as constants and as variables. An error must
// have a message, and an accepted model must print as a text that parses.
#include "ops/catalogue.h"
#include "ops/graph/op.h"
#include "ops/onnx/import.h"
#include "ops/text/parse.h"
#include "ops/text/print.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace leat;
  static const Catalogue kOps = standard_catalogue();
  for (const bool trainable : {false, true}) {
    const auto model = import_onnx(bytes_of_input(data, size), kOps, "fuzz", {trainable});
    if (!model.ok()) {
      require_message(model.status());
      continue;
    }
    require(parse_graph(print_graph(model->graph), kOps, "again").ok(),
            "what is read parses again");
  }
  return 0;
}
