// The batch size of an imported model. Exporters write a constant size into the file unless the
// user asks for a symbol.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "devices/base/status.h"
#include "ops/graph/graph.h"

namespace leat {

struct ModelBatch {
  // The number of rows that an input must have; nothing if any number is allowed.
  std::optional<int64_t> fixed;
  // If `fixed` is set: the first reason why it could not be freed, for people: "Concat 'cls': ...".
  std::string why;
};

// Makes dimension 0 of the model's inputs symbolic if they all have the same size there, and if
// inference proves that each row is computed independently: every value that depends on an input
// has the batch as its first dimension (or a multiple of it, in a view of the same bytes) and
// nowhere else, and no op works along that dimension. The function replaces sizes of the batch that
// an exporter wrote into a Reshape with the sizes they derive from. With the batch size of the file
// the graph computes the same as before, and nodes keep their numbers.
//
// If there is no proof, the graph stays as it is. The statistics that a BatchNormalization returns
// are computed from all rows; the proof does not count them as rows. REQUIRES: the graph is
// validated and has no layers.
ModelBatch free_batch(Graph& graph);

}  // namespace leat
