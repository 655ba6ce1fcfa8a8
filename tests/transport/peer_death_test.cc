// A peer in another process is killed at every point of the protocol. Values that it had sent whole
// must arrive, others must not, and every wait on it must end with its name.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>

#include "devices/base/failpoint.h"
#include "devices/cpu/cpu_device.h"
#include "tests/transport/link_testing.h"
#include "transport/io/reactor.h"
#include "transport/shm/shm_link.h"
#include "transport/tcp/tcp_link.h"

using namespace leat;

namespace {

constexpr size_t kBytes = 3 << 20;
// Edges 0 and 1 come from the child, 2 and 3 go to it; 0 and 2 are small.
const std::vector<uint64_t> kFromChild = {8, kBytes}, kToChild = {8, kBytes};

struct Sockets {
  Descriptor express, bulk;
};

// One process's end of a link. It starts threads, so it is made after the fork.
struct End {
  End(const std::string& transport, Sockets sockets, const LinkSetup& setup) {
    waiter = std::move(*shm::Waiter::create());
    auto made = transport == "shm" ? make_shm(std::move(sockets), setup)
                                   : tcp::make_link(reactor, std::move(sockets.express),
                                                    std::move(sockets.bulk), setup);
    if (made.ok()) link = std::move(*made);
  }
  Result<std::unique_ptr<Link>> make_shm(Sockets sockets, const LinkSetup& setup) {
    LEAT_ASSIGN_OR_RETURN(shm::Arena arena, shm::Arena::create(setup.incoming));
    arena.open_slots(*setup.slots);
    return shm::make_link(reactor, *waiter, std::move(sockets.express), std::move(arena), setup,
                          soon());
  }
  Reactor reactor;
  std::unique_ptr<shm::Waiter> waiter;
  std::unique_ptr<Link> link;
};

void open_slots(const LinkSetup& setup) {
  cpu::CpuDevice device(0, 1);
  for (const LinkEdge& e : setup.incoming)
    static_cast<void>(setup.slots->open(e.edge, e.bytes, device).ok());
}

// The child sends both of its values until a signal kills it.
[[noreturn]] void run_child(const std::string& transport, Sockets sockets, const LinkSetup& setup,
                            const std::string& failpoints) {
  open_slots(setup);
  if (!set_failpoints(failpoints).ok()) ::_exit(2);
  End end(transport, std::move(sockets), setup);
  if (!end.link) ::_exit(3);
  for (uint64_t turn = 0; turn < 2; ++turn) {
    if (!push_value(*end.link, 0, turn, 8).ok()) ::_exit(4);
    if (!push_value(*end.link, 1, turn, kBytes).ok()) ::_exit(5);
  }
  if (failpoints.empty()) ::raise(SIGKILL);
  static_cast<void>(setup.slots->edge(3).arrived.wait(1 << 20, soon()).ok());
  ::_exit(6);
}

struct Child {
  Child(const std::string& transport, const std::string& failpoints) : ends(kFromChild, kToChild) {
    auto express = socket_pair(), bulk = socket_pair();
    REQUIRE((express.ok() && bulk.ok()));
    pid = ::fork();
    if (pid == 0) {
      express->first = Descriptor();
      bulk->first = Descriptor();
      run_child(transport, {std::move(express->second), std::move(bulk->second)}, ends.setup_a,
                failpoints);
    }
    express->second = Descriptor();
    bulk->second = Descriptor();
    open_slots(ends.setup_b);
    ends.setup_b.stall = 200ms;
    end.emplace(transport, Sockets{std::move(express->first), std::move(bulk->first)},
                ends.setup_b);
  }
  ~Child() {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  // The number of values of the edge that arrived before the link ended.
  uint64_t arrived_at_end(uint32_t edge) {
    const Status status = ends.slots_b.edge(edge).arrived.wait(1 << 20, soon());
    CHECK(status.code() == Code::unavailable);
    CHECK(status.message().find("worker-0") != std::string::npos);
    return ends.slots_b.edge(edge).arrived.value();
  }

  LinkEnds ends;
  pid_t pid = 0;
  std::optional<End> end;
};

}  // namespace

TEST_CASE("a peer killed at any point leaves whole values or none") {
  struct Case {
    const char* transport;
    const char* failpoints;
    uint64_t small, large;  // values that arrive
  };
  for (const Case& c : {
           Case{"tcp", "transport/send_bundle=kill@1", 0, 0},
           Case{"tcp", "transport/send_piece=kill@1", 1, 0},
           Case{"tcp", "transport/send_piece=kill@2", 1, 0},
           Case{"tcp", "transport/send_piece=kill@12", 1, 0},
           Case{"tcp", "transport/send_bundle=kill@2", 1, 1},
           Case{"tcp", "transport/send_piece=kill@13", 2, 1},
           Case{"tcp", "", 2, 2},
           Case{"shm", "transport/publish=kill@1", 0, 0},
           Case{"shm", "transport/publish=kill@2", 1, 0},
           Case{"shm", "transport/publish=kill@3", 1, 1},
           Case{"shm", "transport/publish=kill@4", 2, 1},
           Case{"shm", "", 2, 2},
       }) {
    INFO(c.transport << " " << c.failpoints);
    Child child(c.transport, c.failpoints);
    REQUIRE(child.end->link);
    CHECK(child.arrived_at_end(0) == c.small);
    CHECK(child.arrived_at_end(1) == c.large);
    for (uint64_t turn = 0; turn < c.large; ++turn) {
      CHECK(std::memcmp(child.ends.slots_b.slot(1, turn), value_of(1, turn, kBytes).data(),
                        kBytes) == 0);
    }
    CHECK_FALSE(push_value(*child.end->link, 2, 0, 8).ok());
    CHECK_FALSE(child.end->link->credit(3).wait(1, soon()).ok());
  }
}

TEST_CASE("a push to a peer that is killed while it reads ends at once") {
  for (const char* points : {"transport/take_piece=kill@1", "transport/take_piece=kill@5"}) {
    Child child("tcp", points);
    Status status;
    const auto value = value_of(3, 0, kBytes);
    for (uint64_t turn = 0; status.ok() && turn < kSlotDepth; ++turn)
      status = child.end->link->push(3, turn, value.data(), kBytes);
    if (status.ok()) status = child.end->link->credit(3).wait(1, soon());
    CHECK(status.code() == Code::unavailable);
    CHECK(status.message().find("worker-0") != std::string::npos);
  }
  Child child("shm", "transport/take_value=kill@1");
  REQUIRE(push_value(*child.end->link, 3, 0, kBytes).ok());
  CHECK(child.end->link->credit(3).wait(1, soon()).code() == Code::unavailable);
}

TEST_CASE("a push to a peer that is stopped ends when it has taken nothing for too long") {
  Child child("tcp", "transport/none=kill");
  REQUIRE(child.ends.slots_b.edge(1).arrived.wait(2, soon()).ok());
  ::kill(child.pid, SIGSTOP);
  const auto value = value_of(3, 0, kBytes);
  const Status status = child.end->link->push(3, 0, value.data(), kBytes);
  CHECK(status.code() == Code::unavailable);
  CHECK(status.message().find("worker-0 took no byte of edge 3 turn 0 for 200 ms") !=
        std::string::npos);
}
