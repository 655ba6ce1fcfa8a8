// Receive slots: a value must arrive in its turn, its edge and its size, and nowhere else.
#include "transport/slots.h"

#include <array>

#include "devices/cpu/cpu_device.h"
#include "tests/catch.h"
#include "tests/must.h"

namespace leat {
namespace {

// Edge 1 of 3, of 4 bytes.
struct Landing {
  explicit Landing(Device& device) { must(slots.open(1, 4, device)); }
  Status deliver(uint32_t edge, uint64_t turn, size_t bytes = 4) {
    const std::array<std::byte, 8> value{};
    return slots.deliver(edge, turn, value.data(), bytes);
  }
  void check_refused(const Status& status, const std::string& what) {
    CHECK(status.code() == Code::invalid_argument);
    CHECK(status.message() == what);
  }
  SlotTable slots{3};
};

TEST_CASE("a value lands in its edge, turn and size alone") {
  cpu::CpuDevice device(0, 1);
  Landing landing(device);
  SlotTable::Edge& edge = landing.slots.edge(1);
  landing.check_refused(landing.deliver(0, 0), "edge 0: this partition has no such incoming edge");
  landing.check_refused(landing.deliver(9, 0), "edge 9: this partition has no such incoming edge");
  landing.check_refused(landing.deliver(1, 0, 5), "edge 1: expected 4 bytes, received 5");
  landing.check_refused(landing.deliver(1, 1),
                        "edge 1: expected turn 0 with at most 2 in flight (0 retired), received "
                        "turn 1");
  CHECK(edge.arrived.value() == 0);
  must(landing.deliver(1, 0));
  landing.check_refused(landing.deliver(1, 0),
                        "edge 1: expected turn 1 with at most 2 in flight (0 retired), received "
                        "turn 0");
  must(landing.deliver(1, 1));
  CHECK(edge.arrived.value() == 2);
  // No slot is free until the consumer has retired one.
  landing.check_refused(landing.deliver(1, 2),
                        "edge 1: expected turn 2 with at most 2 in flight (0 retired), received "
                        "turn 2");
  edge.retired.signal(1);
  must(landing.deliver(1, 2));
}

}  // namespace
}  // namespace leat
