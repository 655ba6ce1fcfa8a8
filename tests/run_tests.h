// Runs all tests of a program that has its own main(). Other programs have the one of
// tests/main.cc.
#pragma once

namespace leat {

// Takes the framework's options. Returns the exit code: 0 if every test passed.
int run_tests(int count, char** arguments);

}  // namespace leat
