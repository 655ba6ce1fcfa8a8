#include <limits>

#include "daemon/master/wire_runner_table.h"
#include "tests/catch.h"

namespace leat {
namespace {

TEST_CASE("the newest assembly of a job is that of its last slot, whatever other jobs have") {
  RunnerTable table;
  CHECK(table.newest_assembly("mlp-1") == 0);
  // The runners of assembly 1 are to end, and those of assembly 3 are expected.
  for (const RunnerPlace& place :
       {RunnerPlace{"mlp-1", 1, 0}, RunnerPlace{"mlp-1", 1, 1}, RunnerPlace{"mlp-1", 3, 0},
        RunnerPlace{"mlp-10", 9, 0}, RunnerPlace{"cnn-1", 7, 2}})
    (void)table.at(place);
  CHECK(table.newest_assembly("mlp-1") == 3);
  CHECK(table.newest_assembly("mlp-10") == 9);
  CHECK(table.newest_assembly("cnn-1") == 7);
  CHECK(table.newest_assembly("") == 0);
  CHECK(table.newest_assembly("zzz") == 0);
  constexpr auto kLast = std::numeric_limits<uint64_t>::max();
  (void)table.at({"mlp-1", kLast, std::numeric_limits<uint32_t>::max()});
  CHECK(table.newest_assembly("mlp-1") == kLast);
}

TEST_CASE("a runner is in its assembly until its job has a later one") {
  RunnerTable table;
  (void)table.at({"mlp-1", 2, 0});
  table.seat({"mlp-1", 2, 0}, 17);
  CHECK(table.is_in(17, 2).ok());
  CHECK(table.is_in(17, 1).code() == Code::failed_precondition);
  CHECK(table.is_in(18, 2).code() == Code::failed_precondition);
  // It is told to end, and lives on beside the runners of assembly 3.
  (void)table.at({"mlp-1", 3, 0});
  CHECK(table.is_in(17, 2).code() == Code::failed_precondition);
  CHECK(table.is_in(17, 3).code() == Code::failed_precondition);
}

}  // namespace
}  // namespace leat
