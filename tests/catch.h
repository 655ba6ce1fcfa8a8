// The one place that names the test framework's header (Catch2 2 here, Catch2 3 elsewhere).
#pragma once
#include <catch2/catch.hpp>
