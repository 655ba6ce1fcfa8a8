#include "ops/state/commits.h"

#include <array>

#include "tests/catch.h"

namespace leat {
namespace {

void stage(Commits& commits, uint64_t step, double value) {
  commits.stage(step, std::array{value, -value});
}

}  // namespace

TEST_CASE("variables are of no step until it is declared, and whole from then on") {
  Commits commits;
  CHECK_FALSE(commits.held().whole);
  commits.declare(7);
  CHECK(commits.held().whole);
  CHECK(commits.held().step == 7);
  commits.taint();
  CHECK_FALSE(commits.held().whole);
}

TEST_CASE("a step counts when it is committed, with what it fetched") {
  Commits commits;
  commits.reserve(2);
  commits.declare(3);
  stage(commits, 3, 0.5);
  CHECK(commits.held().step == 3);
  CHECK(commits.held().rows.empty());
  commits.commit(4);
  stage(commits, 4, 0.25);  // will be abandoned
  const Held held = commits.held();
  CHECK(held.step == 4);
  CHECK(held.rows == std::vector<Held::Row>{{3, {0.5, -0.5}}});
}

TEST_CASE("the rows of the last steps are remembered, and those of steps undone forgotten") {
  Commits commits;
  commits.reserve(2);
  commits.declare(0);
  const uint64_t steps = Commits::rows_of(2) + 10;
  for (uint64_t step = 0; step < steps; ++step) {
    stage(commits, step, static_cast<double>(step));
    commits.commit(step + 1);
  }
  const Held held = commits.held();
  REQUIRE(held.rows.size() == Commits::rows_of(2));
  CHECK(held.rows.front() == Held::Row{10, {10, -10}});
  CHECK(held.rows.back() == Held::Row{steps - 1, {steps - 1.0, 1.0 - steps}});
  commits.declare(20);
  REQUIRE(commits.held().rows.size() == 10);
  CHECK(commits.held().rows.back().step == 19);
  // Others did later steps meanwhile, and it lacks those rows.
  commits.declare(22);
  stage(commits, 22, 1);
  commits.commit(23);
  REQUIRE(commits.held().rows.size() == 11);
  CHECK(commits.held().rows.back().step == 22);
  commits.taint();
  commits.declare(23);
  CHECK(commits.held().rows.empty());
}

}  // namespace leat
