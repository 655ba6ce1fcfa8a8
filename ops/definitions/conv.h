// What the definition of these ops and their kernels share.
#pragma once

#include "devices/base/text.h"
#include "ops/definitions/conv_spec.h"
#include "ops/graph/kernel.h"
#include "ops/graph/op.h"

namespace leat {

using MakeConvSpec = Result<ConvSpec> (*)(const OpTypes&);

}  // namespace leat
