// The table of all ops: what `leat graph ops` prints, and docs/ops.md. Threads: pure functions.
#pragma once

#include <string>
#include <vector>

#include "ops/graph/op.h"

namespace leat {

struct OpRow {
  std::string name;      // "Relu", "leat.Dense", "ai.onnx.ml.Binarizer"
  std::string domain;    // "", "leat" or another one of ONNX, "ai.onnx.ml"
  int opset = 0;         // the version of ONNX's op that this build follows; 1 of its own ops
  std::string gradient;  // "yes", "no", or "composite": those of the ops that it is made of
  std::string types;     // the element types of its first operand with several; "" of a composite
  std::vector<std::string> devices;  // kinds with a kernel; none where an op never runs
};

// ONNX's ops that nodes of a graph file may have, and then Leat's own, each sorted by name.
std::vector<OpRow> op_rows(const Catalogue& catalogue);

// The text of each output: columns for a terminal, one JSON object a line, the page docs/ops.md.
std::string op_table(const Catalogue& catalogue);
std::string op_lines_json(const Catalogue& catalogue);
std::string op_page(const Catalogue& catalogue);

}  // namespace leat
