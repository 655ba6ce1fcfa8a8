// The type of the functions that make a ConvSpec of an op: the definitions and kernels take one.
#pragma once

#include "devices/base/text.h"
#include "ops/definitions/conv_spec.h"
#include "ops/graph/kernel.h"
#include "ops/graph/op.h"

namespace leat {

using MakeConvSpec = Result<ConvSpec> (*)(const OpTypes&);

}  // namespace leat
