// The batch of a model whose file gives it one size, as exporters do unless they are told not to.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "devices/base/status.h"
#include "ops/graph/graph.h"

namespace leat {

struct ModelBatch {
  // How many rows an input must have; nothing if any number will do.
  std::optional<int64_t> fixed;
  // The first thing that keeps a fixed one so, for people: "Concat 'cls': ...".
  std::string why;
};

// Gives dimension 0 of the model's one input any size, where inference proves that each row is
// computed by itself: then every value that depends on the input has the batch as its first
// dimension (or a multiple of it, in a view of the same bytes) and nowhere else, and no op works
// along that dimension. Sizes of the batch that an exporter wrote into a Reshape give way to what
// they follow from. With the file's own size nothing is different, and nodes keep their numbers.
//
// Else the graph stays as it is. The statistics of BatchNormalization are of all rows, and no rows.
// REQUIRES: the graph is validated, and has no layers.
ModelBatch free_batch(Graph& graph);

}  // namespace leat
