// What a program of tests does, for a main() of its own; without one it has that of tests/main.cc.
#pragma once

namespace leat {

// With the framework's options. The exit code: 0 if every test passed.
int run_tests(int count, char** arguments);

}  // namespace leat
