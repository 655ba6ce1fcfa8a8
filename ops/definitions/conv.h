// The type of the functions that make a ConvSpec of an op: the definitions and kernels take one.
#pragma once

#include "devices/base/text.h"
#include "ops/definitions/conv_spec.h"
#include "ops/graph/kernel.h"
#include "ops/graph/op.h"

namespace leat {

// One of conv_spec(), conv_grad_input_spec(), conv_grad_weights_spec() and conv_transpose_spec():
// the op families and their kernels are templates over it, so that each op has one line of code.
// The types are concrete; the errors have no subject.
using MakeConvSpec = Result<ConvSpec> (*)(const OpTypes&);

}  // namespace leat
