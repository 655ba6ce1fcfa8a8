// The convolution of a node, as the kernels and cuDNN take it.
#pragma once

#include <string>

#include "devices/base/status.h"
#include "ops/cuda/conv.h"
#include "ops/definitions/conv.h"

namespace leat::cuda {

// The call without addresses. `make` is the op's. An error, with the subject, if the operands do
// not fit.
Result<ConvCall> conv_call(const OpTypes& types, MakeConvSpec make, const std::string& subject);

}  // namespace leat::cuda
