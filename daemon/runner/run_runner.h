// `leatd runner ...`: the process of one job on one machine.
#pragma once

namespace leat {

// The main function of a runner's process, which only workers start. Gets the arguments of the
// process; no signal is blocked. Returns the exit code.
int run_runner(int argc, char** argv);

}  // namespace leat
