// Replaces sequences of tensors whose members are known by ops on the tensors. Private to ops/onnx.
//
// PyTorch's exporter writes x.split() as a SplitToSequence and a SequenceAt for each part, although
// every index is a constant: no sequence needs to exist when a step runs.
#pragma once

#include <string_view>

#include "devices/base/status.h"
#include "ops/text/draft.h"

namespace leat {

// True for ONNX's ops that fold_sequences() replaces: SplitToSequence, SequenceConstruct,
// SequenceAt, SequenceLength and ConcatFromSequence.
bool is_sequence_op(std::string_view domain, std::string_view op);

// Replaces them in the graph and in its regions, each of which may use its own sequences alone.
// unimplemented, with the node's place, if an index or the sizes of parts are no constants, or if a
// sequence is used in another way. invalid_argument for an index that is out of range.
Status fold_sequences(DraftGraph& graph, const Locate& locate);

}  // namespace leat
