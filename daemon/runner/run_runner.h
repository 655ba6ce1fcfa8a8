// `leatd runner ...`: the process of one job on one machine.
#pragma once

namespace leat {

// The process's own main, which workers start and nobody else, with its arguments as they came and
// no signal blocked. Returns the exit code.
int run_runner(int argc, char** argv);

}  // namespace leat
