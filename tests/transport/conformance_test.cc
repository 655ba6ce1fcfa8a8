// Rules for every transport: each case runs over the whole catalogue. [cluster] also runs under
// ThreadSanitizer.
#include <atomic>
#include <thread>

#include "tests/transport/link_testing.h"

using namespace leat;

namespace {

const std::vector<uint64_t> kSizes = {0, 1, 8, 4096, 16384, 16385, 262144, 262144 + 1, 1048576 + 3};

Status wait_credit(Channel& channel, uint32_t edge, uint64_t turn) {
  if (turn < kSlotDepth) return {};
  return channel.credit(edge).wait(turn + 1 - kSlotDepth, soon());
}

}  // namespace

TEST_CASE("the catalogue has its transports", "[cluster]") {
  std::vector<std::string> names;
  for (const Transport& t : transports()) names.emplace_back(t.name);
  CHECK(names == std::vector<std::string>{"local", "shm", "tcp", "tls"});
}

TEST_CASE("values of every size arrive whole and in order, both ways", "[cluster]") {
  for (const Transport& transport : transports()) {
    INFO(transport.name);
    LinkEnds ends(kSizes, kSizes);
    ends.connect(transport);
    const auto n = static_cast<uint32_t>(kSizes.size());
    for (uint64_t turn = 0; turn < 5; ++turn) {
      for (uint32_t e = 0; e < n; ++e) {
        REQUIRE(wait_credit(ends.a(), e, turn).ok());
        REQUIRE(wait_credit(ends.b(), n + e, turn).ok());
        REQUIRE(push_value(ends.a(), e, turn, kSizes[e]).ok());
        REQUIRE(push_value(ends.b(), n + e, turn, kSizes[e]).ok());
      }
      for (uint32_t e = 0; e < n; ++e) {
        check_value(ends.slots_b, e, turn);
        check_value(ends.slots_a, n + e, turn);
      }
    }
    CHECK(ends.a().counters().values_sent == 5 * n);
    CHECK(ends.b().counters().values_received == 5 * n);
    CHECK(ends.a().counters().late_values == 0);
  }
}

TEST_CASE("values may be pushed before they are read, as many as there are slots", "[cluster]") {
  for (const Transport& transport : transports()) {
    INFO(transport.name);
    for (uint64_t bytes : {8, 300000}) {
      LinkEnds ends({bytes}, {});
      ends.connect(transport);
      for (uint64_t turn = 0; turn < kSlotDepth; ++turn)
        REQUIRE(push_value(ends.a(), 0, turn, bytes).ok());
      const Status early = push_value(ends.a(), 0, kSlotDepth, bytes);
      CHECK(early.code() == Code::failed_precondition);
      CHECK(early.message().find("edge 0 turn 2: expected credit") != std::string::npos);
      check_value(ends.slots_b, 0, 0);
      REQUIRE(ends.a().credit(0).wait(1, soon()).ok());
      REQUIRE(push_value(ends.a(), 0, kSlotDepth, bytes).ok());
      check_value(ends.slots_b, 0, 1);
      check_value(ends.slots_b, 0, 2);
    }
  }
}

TEST_CASE("a push that is not the plan's is refused and breaks nothing", "[cluster]") {
  for (const Transport& transport : transports()) {
    INFO(transport.name);
    LinkEnds ends({8}, {16});
    ends.connect(transport);
    const uint64_t value[2] = {};
    CHECK(ends.a().push(1, 0, value, 16).code() == Code::invalid_argument);  // an incoming edge
    CHECK(ends.a().push(7, 0, value, 8).code() == Code::invalid_argument);
    CHECK(ends.a().push(0, 0, value, 16).code() == Code::invalid_argument);
    REQUIRE(push_value(ends.a(), 0, 0, 8).ok());
    CHECK(push_value(ends.a(), 0, 0, 8).code() == Code::failed_precondition);  // pushed before
    check_value(ends.slots_b, 0, 0);
    CHECK(ends.a().status().ok());
    CHECK(ends.b().status().ok());
  }
}

TEST_CASE("a hundred small values that are held together are one frame", "[cluster]") {
  for (const Transport& transport : transports()) {
    INFO(transport.name);
    LinkEnds ends(std::vector<uint64_t>(100, 64), {});
    ends.connect(transport);
    ends.a().hold();
    for (uint32_t e = 0; e < 100; ++e) REQUIRE(push_value(ends.a(), e, 0, 64).ok());
    REQUIRE(ends.a().flush().ok());
    for (uint32_t e = 0; e < 100; ++e) check_value(ends.slots_b, e, 0);
    CHECK(ends.a().counters().frames_sent == (transport.bundles ? 1 : 100));
    CHECK(ends.a().counters().values_sent == 100);
  }
}

TEST_CASE("values of several frames that are held together all arrive", "[cluster]") {
  for (const Transport& transport : transports()) {
    INFO(transport.name);
    LinkEnds ends(std::vector<uint64_t>(40, 16384), {});
    ends.connect(transport);
    for (uint64_t turn = 0; turn < 2; ++turn) {
      ends.a().hold();
      for (uint32_t e = 0; e < 40; ++e) REQUIRE(push_value(ends.a(), e, turn, 16384).ok());
      REQUIRE(ends.a().flush().ok());
    }
    for (uint64_t turn = 0; turn < 2; ++turn)
      for (uint32_t e = 0; e < 40; ++e) check_value(ends.slots_b, e, turn);
  }
}

TEST_CASE("a value and its answer are a frame each, credits ride along", "[cluster]") {
  for (const Transport& transport : transports()) {
    INFO(transport.name);
    LinkEnds ends({8}, {8});
    ends.connect(transport);
    constexpr uint64_t kTurns = 50;
    for (uint64_t turn = 0; turn < kTurns; ++turn) {
      REQUIRE(wait_credit(ends.a(), 0, turn).ok());
      REQUIRE(push_value(ends.a(), 0, turn, 8).ok());
      check_value(ends.slots_b, 0, turn);
      REQUIRE(wait_credit(ends.b(), 1, turn).ok());
      REQUIRE(push_value(ends.b(), 1, turn, 8).ok());
      check_value(ends.slots_a, 1, turn);
    }
    CHECK(ends.a().counters().frames_sent == kTurns);
    CHECK(ends.b().counters().frames_sent == kTurns);
  }
}

TEST_CASE("a value for a turn that was closed is dropped and counted", "[cluster]") {
  for (const Transport& transport : transports()) {
    INFO(transport.name);
    for (uint64_t bytes : {8, 300000}) {
      LinkEnds ends({bytes, 0}, {});
      ends.connect(transport);
      ends.slots_b.close(0, 0);
      REQUIRE(push_value(ends.a(), 0, 0, bytes).ok());  // late
      REQUIRE(push_value(ends.a(), 0, 1, bytes).ok());
      check_value(ends.slots_b, 0, 1);
      CHECK(ends.b().counters().late_values == 1);
      CHECK(ends.b().counters().values_received == 2);
      // A sender that learns of it skips the closed turns.
      ends.slots_b.close(0, 2);
      ends.slots_b.close(0, 3);
      REQUIRE(ends.a().credit(0).wait(4, soon()).ok());
      REQUIRE(push_value(ends.a(), 0, 4, bytes).ok());
      check_value(ends.slots_b, 0, 4);
      CHECK(ends.b().status().ok());
    }
  }
}

TEST_CASE("an abort ends the waits of both ends with its cause", "[cluster]") {
  for (const Transport& transport : transports()) {
    INFO(transport.name);
    LinkEnds ends({8, 300000}, {8});
    ends.connect(transport);
    ends.a().abort(resource_exhausted("no memory for 'dense_1'"));
    for (uint32_t e : {0u, 1u}) {
      const Status status = ends.slots_b.edge(e).arrived.wait(1, soon());
      CHECK(status.code() == Code::resource_exhausted);
      CHECK(status.message() == "worker-0 failed: no memory for 'dense_1'");
      CHECK_FALSE(ends.a().credit(e).wait(1, soon()).ok());
    }
    CHECK(ends.b().credit(2).wait(1, soon()).code() == Code::resource_exhausted);
    CHECK(ends.slots_a.edge(2).arrived.wait(1, soon()).message() == "no memory for 'dense_1'");
    CHECK(push_value(ends.b(), 2, 0, 8).code() == Code::resource_exhausted);
    CHECK(push_value(ends.a(), 0, 0, 8).code() == Code::resource_exhausted);
    // The first cause stays.
    ends.b().abort(cancelled("later"));
    CHECK(ends.b().status().code() == Code::resource_exhausted);
    CHECK(ends.a().status().message() == "no memory for 'dense_1'");
  }
}

TEST_CASE("values pushed before the peer closed still arrive, then the link is gone", "[cluster]") {
  for (const Transport& transport : transports()) {
    INFO(transport.name);
    LinkEnds ends({8, 300000}, {8});
    ends.connect(transport);
    REQUIRE(push_value(ends.a(), 0, 0, 8).ok());
    REQUIRE(push_value(ends.a(), 1, 0, 300000).ok());
    ends.links.a.reset();
    check_value(ends.slots_b, 0, 0);
    check_value(ends.slots_b, 1, 0);
    const Status status = ends.slots_b.edge(0).arrived.wait(2, soon());
    CHECK(status.code() == Code::unavailable);
    CHECK(status.message().find("link worker-1 to worker-0") != std::string::npos);
    CHECK(status.message().find("worker-0 closed the connection") != std::string::npos);
    CHECK(ends.b().status().code() == Code::unavailable);
    CHECK_FALSE(push_value(ends.b(), 2, 0, 8).ok());
    CHECK_FALSE(ends.b().credit(2).wait(1, soon()).ok());
    // The end that closed waits for nothing any more, either.
    CHECK(ends.slots_a.edge(2).arrived.wait(1, soon()).code() == Code::cancelled);
  }
}

TEST_CASE("a link that is gone says what was awaited from the peer", "[cluster]") {
  for (const Transport& transport : transports()) {
    INFO(transport.name);
    LinkEnds ends({8, 8}, {});
    ends.connect(transport);
    REQUIRE(push_value(ends.a(), 0, 0, 8).ok());
    REQUIRE(ends.slots_b.edge(0).arrived.wait(1, soon()).ok());  // the executor works on it
    ends.links.a.reset();
    const Status status = ends.slots_b.edge(1).arrived.wait(1, soon());
    CHECK(status.message().find("worker-1 awaits edge 1 turn 0 from worker-0") !=
          std::string::npos);
  }
}

TEST_CASE("a wait for a value that is never sent ends in time and can be explained", "[cluster]") {
  for (const Transport& transport : transports()) {
    INFO(transport.name);
    LinkEnds ends({8}, {});
    ends.connect(transport);
    CHECK(ends.slots_b.edge(0).arrived.wait(1, in(5ms)).code() == Code::deadline_exceeded);
    CHECK(ends.a().credit(0).wait(1, in(5ms)).code() == Code::deadline_exceeded);
    CHECK(ends.b().awaits() == "worker-1 awaits edge 0 turn 0 from worker-0");
    CHECK(ends.a().awaits().empty());
    CHECK(ends.a().status().ok());
  }
}

TEST_CASE("a push in place returns at once, and its bytes are free when they have left",
          "[cluster]") {
  constexpr size_t kBytes = 8 << 20;
  for (const Transport& transport : transports()) {
    INFO(transport.name);
    LinkEnds ends({kBytes, 8}, {});
    ends.connect(transport);
    const auto large = value_of(0, 0, kBytes), small = value_of(1, 0, 8);
    REQUIRE(ends.a().push_in_place(0, 0, large.data(), kBytes).ok());
    REQUIRE(ends.a().push_in_place(1, 0, small.data(), 8).ok());
    for (uint32_t e : {0u, 1u}) {
      if (Timeline* sent = ends.a().sent(e)) REQUIRE(sent->wait(1, soon()).ok());
    }
    check_value(ends.slots_b, 0, 0);
    check_value(ends.slots_b, 1, 0);
  }
}

TEST_CASE("a value written where the transport wants it arrives without a copy", "[cluster]") {
  for (const Transport& transport : transports()) {
    INFO(transport.name);
    LinkEnds ends({300000}, {});
    ends.connect(transport);
    for (uint64_t turn = 0; turn < 4; ++turn) {
      REQUIRE(wait_credit(ends.a(), 0, turn).ok());
      void* place = ends.a().place(0, turn);
      CHECK((place != nullptr) == (transport.name == "shm"));
      const auto value = value_of(0, turn, 300000);
      if (place) std::memcpy(place, value.data(), value.size());
      REQUIRE(ends.a().push(0, turn, place ? place : value.data(), value.size()).ok());
      check_value(ends.slots_b, 0, turn);
    }
  }
}

TEST_CASE("several threads push their edges both ways at once", "[cluster]") {
  const std::vector<uint64_t> sizes = {8, 0, 20000, 300000, 1000, 16};
  const auto n = static_cast<uint32_t>(sizes.size());
  constexpr uint64_t kTurns = 40;
  for (const Transport& transport : transports()) {
    INFO(transport.name);
    LinkEnds ends(sizes, sizes);
    ends.connect(transport);
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (uint32_t e = 0; e < 2 * n; ++e) {
      Link& from = e < n ? ends.a() : ends.b();
      SlotTable& to = e < n ? ends.slots_b : ends.slots_a;
      threads.emplace_back([&, e] {
        for (uint64_t turn = 0; turn < kTurns; ++turn) {
          if (!wait_credit(from, e, turn).ok() || !push_value(from, e, turn, sizes[e % n]).ok())
            ++wrong;
        }
      });
      threads.emplace_back([&, e] {
        for (uint64_t turn = 0; turn < kTurns; ++turn) {
          if (!to.edge(e).arrived.wait(turn + 1, soon()).ok()) ++wrong;
          const size_t bytes = sizes[e % n];
          if (bytes > 0 &&
              std::memcmp(to.slot(e, turn), value_of(e, turn, bytes).data(), bytes) != 0)
            ++wrong;
          to.edge(e).retired.signal(turn + 1);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(wrong == 0);
    CHECK(ends.b().counters().values_received == n * kTurns);
    CHECK(ends.a().counters().values_received == n * kTurns);
    CHECK(ends.a().status().ok());
  }
}

TEST_CASE("a consumer may answer from the arrival itself", "[cluster]") {
  for (const Transport& transport : transports()) {
    INFO(transport.name);
    LinkEnds ends({8}, {8});
    ends.connect(transport);
    // b answers on its transport's thread, as an executor's cursor does.
    struct Echo {
      SlotTable& slots;
      Link& link;
      void await(uint64_t turn) {
        slots.edge(0).arrived.when(turn + 1, [this, turn](const Status& status) {
          if (!status.ok()) return;
          const auto value = value_of(1, turn, 8);
          slots.edge(0).retired.signal(turn + 1);
          if (link.push(1, turn, value.data(), 8).ok()) await(turn + 1);
        });
      }
    } echo{ends.slots_b, ends.b()};
    echo.await(0);
    for (uint64_t turn = 0; turn < 200; ++turn) {
      REQUIRE(wait_credit(ends.a(), 0, turn).ok());
      REQUIRE(push_value(ends.a(), 0, turn, 8).ok());
      check_value(ends.slots_a, 1, turn);
    }
    ends.links.a.reset();
    ends.links.b.reset();
  }
}

namespace {

void check_large(size_t bytes) {
  for (const Transport& transport : transports()) {
    INFO(transport.name);
    LinkEnds ends({bytes}, {});
    ends.connect(transport);
    const auto value = value_of(0, 0, bytes);
    REQUIRE(ends.a().push(0, 0, value.data(), bytes).ok());
    check_value(ends.slots_b, 0, 0);
    if (transport.name == "tcp") {
      CHECK(ends.b().counters().frames_received == (bytes + (256 << 10) - 1) / (256 << 10));
      CHECK(ends.b().counters().bytes_received == bytes + 36 * ends.b().counters().frames_received);
    }
  }
}

}  // namespace

TEST_CASE("a value of 64 MB arrives") { check_large(64'000'000); }
TEST_CASE("a value of 1 GB arrives", "[.large]") { check_large(1'000'000'000); }
