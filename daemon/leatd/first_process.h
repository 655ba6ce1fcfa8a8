// The first process of a container, or of any namespace of processes: the kernel makes it the
// parent of every process that lost its own, and only it can take their exit statuses; until then
// each of them keeps its entry in the table of processes. A daemon knows nothing of such children.
#pragma once

#include <functional>

namespace leat {

// Runs `program` and returns its exit code: here, or, if this is process 1, in a child. Process 1
// then hands SIGTERM, SIGINT, SIGHUP, SIGUSR1 and SIGQUIT on to that child, takes the exit status
// of whoever becomes its own child, and returns what the child ended with, 128 and the signal if it
// was killed. The system ends all other processes of the namespace once process 1 has.
//
// REQUIRES: no thread was started yet, and no signal is blocked.
int run_as_first_process(const std::function<int()>& program);

}  // namespace leat
