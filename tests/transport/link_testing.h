// The two ends of a link for a test, and values that differ from each other.
#pragma once

#include <chrono>
#include <cstring>
#include <memory>
#include <vector>

#include "tests/catch.h"
#include "transport/catalogue.h"

namespace leat {

using namespace std::chrono_literals;

inline std::chrono::steady_clock::time_point in(std::chrono::milliseconds time) {
  return std::chrono::steady_clock::now() + time;
}
// A deadline long enough for a loaded machine. A passing test never waits for it.
inline std::chrono::steady_clock::time_point soon() { return in(60s); }

// Returns the value of an edge's turn. From 8 bytes on, no two values are equal.
inline std::vector<std::byte> value_of(uint32_t edge, uint64_t turn, size_t bytes) {
  std::vector<std::byte> value(bytes);
  uint64_t state = (uint64_t{edge} << 32) + turn + 1;
  for (size_t i = 0; i < bytes; i += 8) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    std::memcpy(value.data() + i, &state, std::min<size_t>(8, bytes - i));
  }
  return value;
}

inline Status push_value(Channel& channel, uint32_t edge, uint64_t turn, size_t bytes) {
  const auto value = value_of(edge, turn, bytes);
  return channel.push(edge, turn, value.data(), bytes);
}

// worker-0 holds a, and worker-1 holds b. Edges are numbered in one sequence: first those from a to
// b.
struct LinkEnds {
  LinkEnds(std::vector<uint64_t> a_to_b, std::vector<uint64_t> b_to_a)
      : slots_a(a_to_b.size() + b_to_a.size()), slots_b(a_to_b.size() + b_to_a.size()) {
    for (uint64_t bytes : a_to_b) setup_a.outgoing.push_back({next_edge++, bytes});
    for (uint64_t bytes : b_to_a) setup_a.incoming.push_back({next_edge++, bytes});
    setup_a.self = setup_b.peer = "worker-0";
    setup_a.peer = setup_b.self = "worker-1";
    setup_a.slots = &slots_a;
    setup_b.slots = &slots_b;
    setup_b.incoming = setup_a.outgoing;
    setup_b.outgoing = setup_a.incoming;
  }
  void connect(const Transport& transport) {
    auto made = transport.pair(setup_a, setup_b, 0us);
    INFO(made.status());
    REQUIRE(made.ok());
    links = std::move(*made);
  }
  Link& a() { return *links.a; }
  Link& b() { return *links.b; }

  uint32_t next_edge = 0;
  SlotTable slots_a, slots_b;
  LinkSetup setup_a, setup_b;
  LinkPair links;
};

// Checks that the value of the turn has arrived and is the right one, and retires it.
inline void check_value(SlotTable& slots, uint32_t edge, uint64_t turn) {
  const Status arrived = slots.edge(edge).arrived.wait(turn + 1, soon());
  INFO("edge " << edge << " turn " << turn << ": " << arrived);
  REQUIRE(arrived.ok());
  const size_t bytes = slots.edge(edge).bytes;
  if (bytes > 0)
    REQUIRE(std::memcmp(slots.slot(edge, turn), value_of(edge, turn, bytes).data(), bytes) == 0);
  slots.edge(edge).retired.signal(turn + 1);
}

}  // namespace leat
