// Writes models as ONNX files, for other programs to run and for Leat to train on. Like the import,
// this needs protobuf.
//
// The file has the nodes that the outputs of a graph need. A variable becomes an initializer of its
// own name, with the value that the caller gives; a constant stays a Constant node, so that a later
// training does not take it for a weight. The metadata of the graph say which initializers are
// trained, and import_onnx() reads them. A Dropout is in its form for inference, which drops
// nothing, and becomes one that drops when the file is imported for training. leat.Recurrent is an
// LSTM, a GRU or an RNN again.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "devices/base/files.h"
#include "devices/base/status.h"
#include "devices/core/tensor.h"
#include "ops/graph/graph.h"

namespace leat {

// The oldest opset of ONNX that the export writes: from 13 on, axes and splits are inputs.
inline constexpr int64_t kOldestExport = 13;
// The opset of a graph that comes from no ONNX file, which is that of the text form.
inline constexpr int64_t kTextOpset = 20;

struct OnnxExportOptions {
  // The version of ONNX's ops that the file uses, kOldestExport to kNewestOpset.
  std::optional<int64_t> opset = {};
  // Without `opset`: that of the file from which the model came. The file gets a newer one if its
  // nodes need it.
  int64_t source_opset = kTextOpset;
  // With more bytes of initializers than this, they go to a file of their own, since a protobuf has
  // less than 2 GiB.
  uint64_t most_inline = uint64_t{1900} << 20;
  // The version of the program, for people.
  std::string version = {};
};

// A file that was written.
struct OnnxExported {
  int64_t opset = 0;
  size_t initializers = 0;
  // The path of the file with the data, "" if the model has it all.
  std::string data = {};
};

// Checks that write_onnx() can write the graph, whatever the values of its variables are, and
// returns the opset that the file would have. unimplemented names all nodes that have no form in
// ONNX; invalid_argument names those that the asked opset lacks.
//
// REQUIRES, here and below: `graph` is validated, in its form for inference (set_training()), and
// has no layers.
Result<int64_t> check_onnx_export(const Graph& graph, const OnnxExportOptions& options = {});

// Writes the model to `path`, as a whole or not at all. `variables` has a value for each variable
// that the outputs need, of the variable's shape; floats of another type are converted to the
// variable's. Others are ignored. External data go to "<path>.data" first, with an alignment of 64
// bytes; a crash between the two leaves an older model of the same path beside the new data.
//
// Errors: those of check_onnx_export(); invalid_argument for a value that is missing or of another
// shape; those of writing files. Blocks, and needs memory for two copies of the values that are
// inside of the model.
Result<OnnxExported> write_onnx(Files& files, const std::string& path, const Graph& graph,
                                const std::map<std::string, Tensor>& variables,
                                const OnnxExportOptions& options = {});

}  // namespace leat
