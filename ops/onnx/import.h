// Reads ONNX models. A library of its own: runners need no protobuf.
//
// A model of any opset from 1 to 21 becomes a graph over the ops of this build, each node upgraded
// to the version that is implemented. Floats of attributes become the doubles with the same
// shortest decimal. Regions keep their captures as ops/text/draft.h says.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "devices/base/files.h"
#include "devices/base/status.h"
#include "ops/graph/graph.h"

namespace leat {

struct OnnxOptions {
  // Initializers of floats with a rank become variables (leat.Variable, Initialize, Read) of their
  // names, so that the model can be trained on; else they are constants. The running statistics of
  // BatchNormalization become variables that are not trained.
  bool trainable = false;
  // All of the variables are trained but running statistics, and initializers that the exporter
  // wrote as one stay one. Runs that began when there was no other rule go on by this one.
  bool every_float = false;
};

struct OnnxModel {
  Graph graph;  // not validated; its outputs have the types that the model declares, if any
  std::vector<std::string> notes;  // for people: what the exporter seems to have left out
};

// `name` begins the messages. invalid_argument for what is broken or against a limit; unimplemented
// names every op that this build lacks at once, with the nodes. External data is refused: it needs
// a directory.
Result<OnnxModel> import_onnx(std::span<const std::byte> bytes, const Catalogue& catalogue,
                              std::string_view name, const OnnxOptions& options = {});

// A file, with the external data that lies in its directory or below: nothing outside is opened,
// whatever the model says.
Result<OnnxModel> import_onnx_file(Files& files, const std::string& path,
                                   const Catalogue& catalogue, const OnnxOptions& options = {});

}  // namespace leat
