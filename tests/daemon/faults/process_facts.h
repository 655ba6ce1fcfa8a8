// What the kernel says of a process: for tests that count what is left behind.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <vector>

namespace leat {

// Its children that are no zombies.
std::vector<pid_t> children_of(pid_t parent);
// 0 of a process that is gone.
size_t open_descriptors(pid_t process);
size_t resident_bytes(pid_t process);
// Seconds of processors that it has used so far; 0 if it is gone.
double processor_seconds(pid_t process);
// A line for each descriptor, for messages.
std::string describe_descriptors(pid_t process);

}  // namespace leat
