// The weights of a training with `optimizer.ema`: their averages, as evaluations read them.
#pragma once

#include "daemon/checkpoint/checkpoint_part.h"

namespace leat {

// Replaces each weight that has an average by it, to the bit as the graph of an evaluation does.
// `variables` are those of a checkpoint, with the optimizer's state. Without any step so far the
// weights stay.
Variables averaged_weights(const Variables& variables, double factor);

}  // namespace leat
