// Random changes of plans. They follow the structure of a plan, and so get further past the
// verifier than changed bytes do.
#pragma once

#include <random>

#include "scheduler/plan/plan.h"

namespace leat {

// Changes one or a few things: an operand, an offset, an alias, a type, an op, an order, ...
void mutate(Plan& plan, std::mt19937& random);

// Moves an instruction to the place `to` among the others.
void move_instruction(Partition& part, size_t from, size_t to);

}  // namespace leat
