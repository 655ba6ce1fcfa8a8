#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>

#include "tests/run_tests.h"

namespace leat {

int run_tests(int count, char** arguments) { return Catch::Session().run(count, arguments); }

}  // namespace leat
