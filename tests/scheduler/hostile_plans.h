// Plans that would make a kernel touch foreign memory, hang, or reveal secrets to others. Each is
// small_plan(2, 2) with one change.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "scheduler/plan/plan.h"

namespace leat {

// A change that makes a plan hostile, and the error of the verifier.
struct HostilePlan {
  std::string what;
  std::function<void(Plan&)> change;
  std::string message;  // a part of verify()'s error
};
std::vector<HostilePlan> hostile_plans();

}  // namespace leat
