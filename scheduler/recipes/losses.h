// The functions of the table of losses: see LossRecipe::sum. Private to scheduler/recipes/.
#pragma once

#include "scheduler/recipes/loss_nodes.h"

namespace leat::losses {

ValueId cross_entropy(LossNodes& n);
ValueId ctc(LossNodes& n);
ValueId output(LossNodes& n);

ValueId binary_cross_entropy(LossNodes& n);
ValueId focal(LossNodes& n);
ValueId hinge(LossNodes& n);

ValueId squared_error(LossNodes& n);
ValueId absolute_error(LossNodes& n);
ValueId huber(LossNodes& n);
ValueId smooth_l1(LossNodes& n);
ValueId log_cosh(LossNodes& n);
ValueId poisson(LossNodes& n);

ValueId kl_div(LossNodes& n);
ValueId cosine(LossNodes& n);
ValueId triplet(LossNodes& n);

}  // namespace leat::losses
