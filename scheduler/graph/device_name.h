// The names of devices, such as "job:worker/task:0/cpu:0".
#pragma once

#include <string>
#include <vector>

namespace leat {

// The parts of a name or constraint between the separators; empty ones too.
std::vector<std::string> split_name(const std::string& text, char separator);

// Does a full device name satisfy a constraint such as "task:1", "job:worker/gpu", "*/cpu:0", ""?
bool matches_device(const std::string& constraint, const std::string& device);

}  // namespace leat
