// Random changes of plans that know what a plan is made of, and so get further past the verifier
// than changed bytes do.
#pragma once

#include <random>

#include "scheduler/plan/plan.h"

namespace leat {

// Changes one or a few things: an operand, an offset, an alias, a type, an op, an order, ...
void mutate(Plan& plan, std::mt19937& random);

// Takes the instruction out and puts it at `to` of those that remain.
void move_instruction(Partition& part, size_t from, size_t to);

}  // namespace leat
