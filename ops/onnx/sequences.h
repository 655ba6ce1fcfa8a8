// Replaces sequences of tensors, and optional values, that are known by ops on the tensors. Private
// to ops/onnx.
//
// PyTorch's exporter writes x.split() as a SplitToSequence and a SequenceAt for each part, although
// every index is a constant: no sequence needs to exist when a step runs. Whether an optional value
// is there follows from the graph, too.
#pragma once

#include <string_view>

#include "devices/base/status.h"
#include "ops/text/draft.h"

namespace leat {

// True for ONNX's ops that fold_sequences() replaces: those on sequences but SequenceMap, and those
// on optional values.
bool is_sequence_op(std::string_view domain, std::string_view op);

// Replaces them in the graph and in its regions, each of which may use its own sequences alone.
// unimplemented, with the node's place, if an index or the sizes of parts are no constants, or if
// such a value is used in another way. invalid_argument for an index that is out of range, and for
// an optional value that is used and not there.
Status fold_sequences(DraftGraph& graph, const Locate& locate);

}  // namespace leat
