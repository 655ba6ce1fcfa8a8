// Makes the biases of recurrent layers those of TensorFlow again. Private to ops/onnx.
#pragma once

#include <cstdint>

#include "devices/base/status.h"
#include "ops/text/draft.h"

namespace leat {

// A layer of Keras has one bias where an LSTM of ONNX has two, which it adds up. tf2onnx writes
// zeros for the second one. If both were trained, their sum would move twice as fast.
//
// Cuts zeros off the bias [directions, 8 * units] of each LSTM, and puts a Pad before the LSTM that
// adds them. A bias with other numbers there, or with other readers, stays.
void pad_biases(DraftGraph& graph);

// tf2onnx writes equal constants as one, and recurrent layers of one size begin with equal biases.
// Gives each LSTM, GRU and RNN a bias of its own, unless it shares its weights, too: that is one
// layer, applied twice. Adds the bytes of the copies to `constant_bytes`; resource_exhausted, and
// the graph is unusable, if they would be more than limits::kConstantBytes.
Status separate_biases(DraftGraph& graph, uint64_t& constant_bytes);

}  // namespace leat
