#include "daemon/runner/device_memory.h"

#include "tests/catch.h"

namespace leat {
namespace {

Partition partition_of(uint64_t activations, uint64_t variable) {
  Partition partition;
  partition.arena_bytes = activations;
  partition.resources = {{nullptr, {}, "weights", variable}};
  return partition;
}

TEST_CASE("a runner's memory is counted by its kind, on the host and on accelerators") {
  DeviceMemory memory({1'000, 500, 500});
  CHECK(memory.reserve({1, 0}, 0, partition_of(100, 40), 8).ok());
  CHECK(memory.reserve({2, 0}, 0, partition_of(50, 40), 0).ok());  // shares the variable
  CHECK(memory.reserve({1, 1}, 1, partition_of(200, 10), 0).ok());
  CHECK(memory.reserve({1, 2}, 2, partition_of(30, 20), 0).ok());
  CHECK(memory.reserve_data("set", 300).ok());
  const ReservedMemory host = memory.on_host();
  CHECK(host == ReservedMemory{40, 150, 0, 0, 8, 300});
  CHECK(total(host) == 498);
  CHECK(memory.on_accelerators() == ReservedMemory{30, 230, 0, 0, 0, 0});

  // A refused run does not count, and a released one keeps its variables.
  CHECK(memory.reserve({3, 1}, 1, partition_of(300, 10), 0).code() == Code::resource_exhausted);
  memory.release({1, 0});
  memory.release({1, 1});
  CHECK(memory.on_host() == ReservedMemory{40, 50, 0, 0, 0, 300});
  CHECK(memory.on_accelerators() == ReservedMemory{30, 30, 0, 0, 0, 0});
}

}  // namespace
}  // namespace leat
