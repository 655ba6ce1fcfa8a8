// Shared memory with a peer that is broken or hostile.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <future>
#include <optional>

#include "tests/transport/link_testing.h"
#include "transport/io/express.h"
#include "transport/shm/shm_link.h"

using namespace leat;
using namespace leat::shm;

namespace {

constexpr std::string_view kWord = "LEATSHM1";

template <typename T>
T must(Result<T> result) {
  INFO(result.status());
  REQUIRE(result.ok());
  return std::move(result).value();
}

// worker-1's link, and worker-0's end of it in the hands of the test.
struct RawShm {
  RawShm(std::vector<uint64_t> in, std::vector<uint64_t> out)
      : ends(std::move(in), std::move(out)), waiter(must(Waiter::create())) {
    auto pair = must(socket_pair());
    socket = std::move(pair.first);
    Arena mine = must(Arena::create(ends.setup_b.incoming));
    mine.open_slots(ends.slots_b);
    theirs.emplace(must(Arena::create(ends.setup_b.outgoing)));
    Bell bell = must(Bell::create());
    const int files[] = {theirs->descriptor(), bell.descriptor()};
    REQUIRE(
        send_descriptors(socket.get(), std::as_bytes(std::span(kWord)), files, soon(), "t").ok());
    link = must(
        make_link(reactor, *waiter, std::move(pair.second), std::move(mine), ends.setup_b, soon()));
    std::array<std::byte, kWord.size()> word;
    auto got = must(receive_descriptors(socket.get(), word, 2, soon(), "t"));
    arena.emplace(must(Arena::open(std::move(got[0]), ends.setup_b.incoming, "worker-1")));
    waiter_bell.emplace(must(Bell::open(std::move(got[1]), "worker-1")));
  }
  void publish(size_t i, uint64_t count) {
    arena->published(i).store(count);
    waiter_bell->ring();
  }
  Status arrived(uint32_t edge, uint64_t turn) {
    return ends.slots_b.edge(edge).arrived.wait(turn + 1, soon());
  }

  LinkEnds ends;
  Reactor reactor;
  std::unique_ptr<Waiter> waiter;
  Descriptor socket;
  std::optional<Arena> arena;   // of worker-1, as its peer sees it
  std::optional<Arena> theirs;  // of worker-0
  std::optional<Bell> waiter_bell;
  std::unique_ptr<Link> link;
};

Descriptor memory_file(size_t bytes, int seals) {
  Descriptor file(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(::ftruncate(file.get(), static_cast<off_t>(bytes)) == 0);
  REQUIRE(::fcntl(file.get(), F_ADD_SEALS, seals) == 0);
  return file;
}

}  // namespace

TEST_CASE("values that a peer publishes in shared memory arrive in order", "[cluster]") {
  RawShm peer({8, 300000}, {8});
  for (uint64_t turn = 0; turn < 6; ++turn) {
    for (uint32_t e : {0u, 1u}) {
      const auto value = value_of(e, turn, e == 0 ? 8 : 300000);
      std::memcpy(peer.arena->slot(e, turn), value.data(), value.size());
      peer.publish(e, turn + 1);
    }
    check_value(peer.ends.slots_b, 0, turn);
    check_value(peer.ends.slots_b, 1, turn);
    CHECK(peer.arena->retired(1).load() == turn + 1);
  }
}

TEST_CASE("counters that break the window end the link, which says how", "[cluster]") {
  struct Case {
    const char* name;
    std::vector<uint64_t> counts;
    const char* message;
  };
  for (const Case& c : {Case{"too many at once", {3}, "edge 0 turn 2: it is early"},
                        Case{"all there are", {~uint64_t{0}}, "edge 0 turn 2: it is early"},
                        Case{"taken back", {2, 1}, "edge 0: it took values back"}}) {
    INFO(c.name);
    RawShm peer({8}, {8});
    for (uint64_t count : c.counts) {
      peer.publish(0, count);
      static_cast<void>(peer.arrived(0, std::min<uint64_t>(count, 2) - 1).ok());
    }
    const Status status = peer.link->credit(1).wait(1, soon());
    INFO(status);
    CHECK(status.code() == Code::invalid_argument);
    CHECK(status.message().find(c.message) != std::string::npos);
  }
}

TEST_CASE("credit that is taken back ends the link", "[cluster]") {
  RawShm peer({8}, {8});
  peer.theirs->retired(0).store(5);
  peer.waiter_bell->ring();
  REQUIRE(peer.link->credit(1).wait(5, soon()).ok());
  peer.theirs->retired(0).store(4);
  peer.waiter_bell->ring();
  CHECK(peer.arrived(0, 0).message().find("expected at least 5, received 4") != std::string::npos);
}

TEST_CASE("what was published before the peer's socket closed arrives", "[cluster]") {
  RawShm peer({8}, {8});
  const auto value = value_of(0, 0, 8);
  std::memcpy(peer.arena->slot(0, 0), value.data(), 8);
  peer.arena->published(0).store(1);  // and dies before it rings
  peer.socket = Descriptor();
  check_value(peer.ends.slots_b, 0, 0);
  const Status status = peer.arrived(0, 1);
  CHECK(status.code() == Code::unavailable);
  CHECK(status.message().find("worker-0 closed the connection") != std::string::npos);
}

TEST_CASE("an arena or a bell that could be cut, or is another's, is refused") {
  const std::vector<LinkEdge> edges = {{0, 8}, {3, 300000}};
  const size_t bytes = Arena::bytes_for(edges);
  const int sealed = F_SEAL_SHRINK | F_SEAL_GROW;
  CHECK(Arena::open(memory_file(bytes, F_SEAL_GROW), edges, "p")
            .status()
            .message()
            .find("expected a sealed memory file") != std::string::npos);
  CHECK(Arena::open(memory_file(bytes - 1, sealed), edges, "p")
            .status()
            .message()
            .find("expected " + std::to_string(bytes) + " bytes") != std::string::npos);
  CHECK(Arena::open(memory_file(bytes, sealed), edges, "p")
            .status()
            .message()
            .find("it is for other edges") != std::string::npos);
  const Arena others = must(Arena::create({{0, 8}, {4, 300000}}));
  CHECK_FALSE(Arena::open(Descriptor(::dup(others.descriptor())), edges, "p").ok());
  CHECK(Arena::open(Descriptor(::open("/dev/null", O_RDWR)), edges, "p").status().code() ==
        Code::invalid_argument);
  CHECK_FALSE(Bell::open(memory_file(4096, F_SEAL_GROW), "p").ok());
  CHECK(Arena::open(Descriptor(::dup(must(Arena::create(edges)).descriptor())), edges, "p").ok());
}

TEST_CASE("a peer that shares nothing, or nonsense, costs a deadline and no more") {
  LinkEnds ends({8}, {8});
  Reactor reactor;
  auto waiter = must(Waiter::create());
  const auto attempt = [&](Descriptor socket, Deadline deadline) {
    return make_link(reactor, *waiter, std::move(socket),
                     must(Arena::create(ends.setup_b.incoming)), ends.setup_b, deadline)
        .status();
  };
  auto pair = must(socket_pair());
  CHECK(attempt(std::move(pair.second), in(5ms)).code() == Code::deadline_exceeded);
  pair = must(socket_pair());
  REQUIRE(send_all(pair.first.get(), std::as_bytes(std::span(kWord)), soon(), "t").ok());
  CHECK(attempt(std::move(pair.second), soon()).code() == Code::invalid_argument);
  pair = must(socket_pair());
  pair.first = Descriptor();
  CHECK(attempt(std::move(pair.second), soon()).code() == Code::unavailable);
}

TEST_CASE("a bell wakes whoever sleeps on it, from another mapping", "[cluster]") {
  Bell bell = must(Bell::create());
  Bell other = must(Bell::open(Descriptor(::dup(bell.descriptor())), "p"));
  const uint32_t seen = bell.rings();
  auto sleeper = std::async(std::launch::async, [&] {
    while (bell.rings() == seen) bell.park(seen, 20s);
  });
  other.ring();
  CHECK(sleeper.wait_until(soon()) == std::future_status::ready);
}
