// Plans that would make a kernel touch memory that is not its own, hang, or tell others what they
// must not know: each is small_plan(2, 2) with one thing changed.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "scheduler/plan/plan.h"

namespace leat {

struct HostilePlan {
  std::string what;
  std::function<void(Plan&)> change;
  std::string message;  // what verify() says, in part
};
std::vector<HostilePlan> hostile_plans();

}  // namespace leat
