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

TEST_CASE("rows that a device has written are read when their steps are committed") {
  Commits commits;
  commits.reserve(2);
  std::vector<uint64_t> asked;
  const auto rows_of = [&asked](double factor) {
    return [&asked, factor](uint64_t step, std::span<double> values) {
      asked.push_back(step);
      if (step == 4) return false;  // overwritten
      values[0] = factor * static_cast<double>(step);
      values[1] = -1;
      return true;
    };
  };
  commits.declare(3);
  commits.read_rows_by(rows_of(10));
  commits.commit(6);
  CHECK(asked.empty());
  CHECK(commits.held().rows == std::vector<Held::Row>{{3, {30, -1}}, {5, {50, -1}}});
  CHECK(asked == std::vector<uint64_t>{3, 4, 5});
  // The next program keeps the rows of the one before.
  commits.commit(7);
  commits.reserve(2);
  commits.read_rows_by(rows_of(100));
  commits.commit(8);
  CHECK(commits.held().rows ==
        std::vector<Held::Row>{{3, {30, -1}}, {5, {50, -1}}, {6, {60, -1}}, {7, {700, -1}}});
  // Steps that run again have new rows, and steps of no variables none.
  commits.declare(6);
  commits.commit(7);
  CHECK(commits.held().rows.back() == Held::Row{6, {600, -1}});
  commits.taint();
  commits.declare(20);
  commits.commit(21);
  CHECK(commits.held().rows == std::vector<Held::Row>{{20, {2000, -1}}});
}

}  // namespace leat
