// Tests shared memory with a broken or hostile peer.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <future>
#include <optional>

#include "devices/core/pages.h"
#include "tests/must.h"
#include "tests/no_descriptors.h"
#include "tests/transport/link_testing.h"
#include "transport/links/express.h"
#include "transport/shm/shm_link.h"

using namespace leat;
using namespace leat::shm;

namespace {

constexpr std::string_view kWord = "LEATSHM1";

// Has worker-1's link, and worker-0's end of it for the test.
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
  std::optional<Arena> arena;   // of worker-1, mapped by its peer
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

TEST_CASE("shared memory that there cannot be is refused") {
  Status none;
  {
    const NoDescriptors no_more;
    none = MemoryFile::create("t", 4096, Writers::all).status();
  }
  CHECK_THAT(none.message(), Catch::StartsWith("shared memory: "));
  const Status large = MemoryFile::create("t", size_t{1} << 63, Writers::all).status();
  CHECK_THAT(large.message(), Catch::StartsWith("shared memory of "));
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

TEST_CASE("a value published before the peer's socket closed arrives", "[cluster]") {
  RawShm peer({8}, {8});
  const auto value = value_of(0, 0, 8);
  std::memcpy(peer.arena->slot(0, 0), value.data(), 8);
  peer.arena->published(0).store(1);  // the peer dies before it rings
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
  CHECK(Arena::open(memory_file(bytes, sealed | F_SEAL_WRITE), edges, "p")
            .status()
            .message()
            .find("shared memory: expected room to map") != std::string::npos);
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
  const Arena arena = must(Arena::create(ends.setup_b.outgoing));
  const int files[] = {arena.descriptor(), waiter->bell().descriptor()};
  constexpr std::string_view kOther = "LEATSHM0";
  REQUIRE(send_descriptors(pair.first.get(), std::as_bytes(std::span(kOther)), files, soon(), "t")
              .ok());
  CHECK_THAT(attempt(std::move(pair.second), soon()).message(),
             Catch::EndsWith("sharing memory: expected the peer's shared memory"));
  pair = must(socket_pair());
  pair.first = Descriptor();
  CHECK(attempt(std::move(pair.second), soon()).code() == Code::unavailable);
}

TEST_CASE("a value that goes to several peers is written once, and none of them can write it",
          "[cluster]") {
  constexpr size_t kBytes = 100'000;
  const auto outbox = must(Outbox::create({{kBytes, {0, 1}}}));
  Reactor reactor;
  auto waiter = must(Waiter::create());
  // One process has links to two peers: edge 0 goes to the first, and edges 1 and 2 to the second.
  std::vector<SlotTable> tables;
  for (int i = 0; i < 3; ++i) tables.emplace_back(3);
  const auto setup = [&](size_t self, size_t peer, std::vector<LinkEdge> in,
                         std::vector<LinkEdge> out) {
    LinkSetup made;
    made.self = "worker-" + std::to_string(self);
    made.peer = "worker-" + std::to_string(peer);
    made.incoming = std::move(in);
    made.outgoing = std::move(out);
    made.slots = &tables[self];
    return made;
  };
  // Runs on two threads at once, so without assertions.
  const auto open =
      [&](Descriptor socket, const LinkSetup& of,
          const std::shared_ptr<const Outbox>& mine) -> Result<std::unique_ptr<Link>> {
    LEAT_ASSIGN_OR_RETURN(auto shown, exchange_outboxes(socket.get(), mine.get(), of, soon()));
    LEAT_ASSIGN_OR_RETURN(Arena arena, Arena::create(shown.edges()));
    arena.open_slots(*of.slots);
    std::move(shown).open_slots(*of.slots);
    return make_link(reactor, *waiter, std::move(socket), std::move(arena), of, soon(), mine);
  };
  std::vector<std::unique_ptr<Link>> sender, receiver;
  for (size_t peer : {1, 2}) {
    const std::vector<LinkEdge> edges =
        peer == 1 ? std::vector<LinkEdge>{{0, kBytes}} : std::vector<LinkEdge>{{1, kBytes}, {2, 8}};
    auto sockets = must(socket_pair());
    auto other = std::async(std::launch::async, [&] {
      return open(std::move(sockets.second), setup(peer, 0, edges, {}), nullptr);
    });
    auto link = open(std::move(sockets.first), setup(0, peer, {}, edges), outbox);
    receiver.push_back(must(other.get()));
    sender.push_back(must(std::move(link)));
  }
  void* const place = sender[0]->place(0, 0);
  REQUIRE(place == sender[1]->place(1, 0));
  CHECK(sender[0]->place(0, 1) == sender[1]->place(1, 1));
  CHECK(place != sender[0]->place(0, 1));
  for (uint64_t turn = 0; turn < 5; ++turn) {
    for (uint32_t edge = 0; turn >= kSlotDepth && edge < 3; ++edge)
      REQUIRE(sender[edge == 0 ? 0 : 1]->credit(edge).wait(turn + 1 - kSlotDepth, soon()).ok());
    const auto value = value_of(7, turn, kBytes);
    void* const here = sender[0]->place(0, turn);
    std::memcpy(here, value.data(), kBytes);
    CHECK(sender[0]->push(0, turn, here, kBytes).ok());
    CHECK(sender[1]->push(1, turn, here, kBytes).ok());
    CHECK(push_value(*sender[1], 2, turn, 8).ok());
    for (size_t i = 0; i < 2; ++i) {
      SlotTable& slots = tables[i + 1];
      const auto edge = static_cast<uint32_t>(i);
      REQUIRE(slots.edge(edge).arrived.wait(turn + 1, soon()).ok());
      CHECK(std::memcmp(slots.slot(edge, turn), value.data(), kBytes) == 0);
      slots.edge(edge).retired.signal(turn + 1);
    }
    check_value(tables[2], 2, turn);
  }
  const auto elsewhere = value_of(0, 5, kBytes);
  REQUIRE(sender[0]->credit(0).wait(4, soon()).ok());
  CHECK(sender[0]->push(0, 5, elsewhere.data(), kBytes).message().find("in the outbox") !=
        std::string::npos);
  CHECK(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, outbox->descriptor(), 0) ==
        MAP_FAILED);
  CHECK(::mprotect(tables[1].slot(0, 0), 4096, PROT_READ | PROT_WRITE) != 0);
  // A joined mapping of these pages can be read, too.
  const auto joined = must(join_pages(std::vector<Pages>{{tables[1].slot(0, 0), kBytes}}));
  CHECK(std::memcmp(joined->data(), tables[1].slot(0, 0), kBytes) == 0);
  receiver.clear();
}

TEST_CASE("an outbox that is none, or is for other edges, is refused") {
  constexpr uint64_t kMagic = 0x3154554F5441454C;
  struct Case {
    std::vector<uint64_t> head, place;
    Descriptor file;
    const char* message;
    Code code = Code::invalid_argument;
  };
  const int sealed = F_SEAL_SHRINK | F_SEAL_GROW;
  const uint64_t two_slots = 2 * 303104;
  std::vector<Case> cases;
  cases.push_back({{1, 0}, {}, {}, "expected places of 2 edges at most"});
  cases.push_back({{kMagic, 3}, {}, {}, "received 3"});
  cases.push_back(
      {{kMagic, 1}, {1, 0}, memory_file(two_slots, F_SEAL_GROW), "a sealed memory file"});
  cases.push_back({{kMagic, 1}, {1, 0}, memory_file(two_slots - 1, sealed), "expected slots of"});
  cases.push_back({{kMagic, 1}, {1, 64}, memory_file(2 * two_slots, sealed), "expected slots of"});
  cases.push_back(
      {{kMagic, 1}, {1, ~uint64_t{4095}}, memory_file(two_slots, sealed), "expected slots of"});
  cases.push_back(
      {{kMagic, 1}, {2, 0}, memory_file(two_slots, sealed), "does not come from there"});
  cases.push_back({{kMagic, 1}, {0, 0}, memory_file(two_slots, sealed), "expected slots of 0"});
  const Descriptor whole = memory_file(two_slots, sealed);
  const std::string path = "/proc/self/fd/" + std::to_string(whole.get());
  cases.push_back({{kMagic, 1},
                   {1, 0},
                   Descriptor(::open(path.c_str(), O_WRONLY | O_CLOEXEC)),
                   "expected room to map",
                   Code::resource_exhausted});
  for (Case& c : cases) {
    LinkEnds ends({0, 300000}, {8});
    auto pair = must(socket_pair());
    REQUIRE(send_all(pair.first.get(), std::as_bytes(std::span(c.head)), soon(), "t").ok());
    const int files[] = {c.file.get()};
    if (c.file) {
      REQUIRE(
          send_descriptors(pair.first.get(), std::as_bytes(std::span(c.place)), files, soon(), "t")
              .ok());
    }
    const Status status =
        exchange_outboxes(pair.second.get(), nullptr, ends.setup_b, soon()).status();
    INFO(c.message << ": " << status);
    CHECK(status.code() == c.code);
    CHECK(status.message().find(c.message) != std::string::npos);
  }
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
