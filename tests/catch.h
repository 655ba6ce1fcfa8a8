// Includes the test framework's header, and is the only file that names it (Catch2 2 here, Catch2 3
// elsewhere).
#pragma once
#include <catch2/catch.hpp>
