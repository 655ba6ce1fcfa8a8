// The kernel's facts about a process, for tests that look for leftovers.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <vector>

namespace leat {

// Returns the children that are no zombies.
std::vector<pid_t> children_of(pid_t parent);
// Returns the number of open descriptors; 0 if the process has ended.
size_t open_descriptors(pid_t process);
size_t resident_bytes(pid_t process);
// Returns the processor time used so far, in seconds; 0 if the process has ended.
double processor_seconds(pid_t process);
// Returns a line for each descriptor, for messages.
std::string describe_descriptors(pid_t process);

}  // namespace leat
