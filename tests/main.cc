#include "tests/run_tests.h"

int main(int count, char** arguments) { return leat::run_tests(count, arguments); }
