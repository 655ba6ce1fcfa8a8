// The names of devices, such as "job:worker/task:0/cpu:0": parts between slashes, each a word and a
// number. A constraint on a node has some of these parts, in any order.
#pragma once

#include <string>
#include <vector>

namespace leat {

// Splits a name or constraint at each separator. Empty parts are kept.
std::vector<std::string> split_name(const std::string& text, char separator);

// True if a full device name satisfies a constraint, such as "task:1", "job:worker/gpu" or
// "*/cpu:0". Every device satisfies "".
bool matches_device(const std::string& constraint, const std::string& device);

// The name without its last part: "job:worker/task:1" of "job:worker/task:1/cpu:0". A name of one
// part is its own task.
std::string task_of(const std::string& device);
// The last part: "cpu:0".
std::string short_name(const std::string& device);

}  // namespace leat
