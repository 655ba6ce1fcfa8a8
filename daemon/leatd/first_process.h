// Process 1 of a container, or of any namespace of processes. The kernel makes it the parent of
// every process whose parent has ended, and only process 1 can take the exit statuses of these.
// Until it does, each of them keeps its entry in the table of processes. A daemon does not expect
// such children.
#pragma once

#include <functional>

namespace leat {

// Runs `program` and returns its exit code. If this is process 1, runs `program` in a child.
// Process 1 then passes SIGTERM, SIGINT, SIGHUP, SIGUSR1 and SIGQUIT to that child, takes the exit
// statuses of all its children, and returns the exit code of that child, or 128 and the signal if a
// signal killed it. When process 1 ends, the system ends all other processes of the namespace.
//
// REQUIRES: the process has started no thread, and no signal is blocked.
int run_as_first_process(const std::function<int()>& program);

}  // namespace leat
