// Reads ONNX models. This is a library of its own, because runners need no protobuf. A broken file
// is an error, and costs no more memory than its own size and the limits allow.
//
// A model of any opset from 1 to kNewestOpset becomes a graph over the ops of this build; each node
// is upgraded to the implemented version. The functions that a model brings along are replaced by
// their bodies. Floats of attributes become the doubles with the same shortest decimal. Regions
// keep their captures as described in ops/text/draft.h.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "devices/base/files.h"
#include "devices/base/status.h"
#include "ops/graph/graph.h"
#include "ops/text/fix_inputs.h"

namespace leat {

// The newest opset of ONNX that the importer knows.
inline constexpr int64_t kNewestOpset = 28;

// The key in a graph's metadata under which the export notes which initializers are trained.
inline constexpr std::string_view kSignatureProperty = "leat.signature";

// The attribute of a BatchNormalization whose running variance divides by n - 1. It is none of
// ONNX's, so the export writes it as metadata of the node, which other programs pass over.
inline constexpr std::string_view kUnbiasedAttr = "leat_unbiased";
inline constexpr std::string_view kUnbiasedProperty = "leat.unbiased";

struct OnnxOptions {
  // Float initializers with a rank become variables (leat.Variable, Initialize, Read) of the same
  // names, so that the model can be trained; without this they are constants. The running
  // statistics of BatchNormalization become variables that are not trained.
  bool trainable = false;
  // All variables but running statistics are trained, and initializers that the exporter merged
  // stay merged. Runs that began when this was the only rule continue with it.
  bool every_float = false;
  // Values of inputs, which are constants of the graph: see fix_inputs().
  FixedInputs fixed = {};
  // The outputs that are used; empty: all. Others are left out, with a note, if they need ops or
  // strings that this build lacks.
  std::vector<std::string> outputs = {};
};

struct OnnxModel {
  Graph graph;  // not validated; its outputs have the types that the model declares, if any
  std::vector<std::string>
      notes;          // for people: parts of the model that the exporter seems to have omitted
  int64_t opset = 1;  // of ONNX's ops, as the file has it
};

// Imports a model from memory. `name` begins the messages. invalid_argument for a broken model or
// one beyond a limit; unimplemented names all ops that this build lacks, with their nodes. External
// data is refused, because it needs a directory.
Result<OnnxModel> import_onnx(std::span<const std::byte> bytes, const Catalogue& catalogue,
                              std::string_view name, const OnnxOptions& options = {});

// Imports a file of at most 2 GiB, with external data in its directory or below. No file outside is
// opened, whatever the model contains. Errors are those of import_onnx() and of reading files. It
// blocks for as long as the file system takes.
Result<OnnxModel> import_onnx_file(Files& files, const std::string& path,
                                   const Catalogue& catalogue, const OnnxOptions& options = {});

// The float initializers with a rank of an ONNX file, by name; of a file with a signature those
// that its module has. Nothing else of the file is looked at: its ops may be any. Errors are those
// of import_onnx_file() for tensors.
Result<std::map<std::string, Tensor>> read_onnx_weights(Files& files, const std::string& path);

}  // namespace leat
