// Measures each transport of the catalogue, parked and spinning: a dependent hop, a bundle of small
// values, and large values. Consumers work on the transport's threads, as cursors do.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <string>
#include <vector>

#include "tests/benchmarks/raw_sockets.h"
#include "transport/catalogue.h"

namespace leat {
namespace {

constexpr uint64_t kTurns = 500;  // in one iteration

std::chrono::steady_clock::time_point late() {
  return std::chrono::steady_clock::now() + std::chrono::seconds(60);
}

// a sends the edges [0, out), b the edges [out, out + back).
struct Ends {
  Ends(const Transport& transport, std::vector<uint64_t> out, std::vector<uint64_t> back,
       std::chrono::microseconds spin)
      : slots_a(out.size() + back.size()), slots_b(out.size() + back.size()) {
    LinkSetup a, b;
    uint32_t edge = 0;
    for (uint64_t bytes : out) a.outgoing.push_back({edge++, bytes});
    for (uint64_t bytes : back) a.incoming.push_back({edge++, bytes});
    b.incoming = a.outgoing;
    b.outgoing = a.incoming;
    a.self = b.peer = "a";
    a.peer = b.self = "b";
    a.slots = &slots_a;
    b.slots = &slots_b;
    auto pair = transport.pair(a, b, spin);
    if (!pair.ok()) {
      std::cerr << pair.status() << "\n";
      std::exit(1);
    }
    links = std::move(*pair);
  }
  SlotTable slots_a, slots_b;
  LinkPair links;
};

// For every arrival on edge `in`: retires all of [first, last) and pushes edge `out`, until
// `turns`.
struct Player {
  Link& link;
  SlotTable& slots;
  uint32_t first, last, out_first, out_last;
  size_t bytes;
  bool begins;
  uint64_t turn = 0, until = 0;
  Timeline done{};
  std::vector<std::byte> value = std::vector<std::byte>(1 << 16);

  void push() {
    link.hold();
    for (uint32_t e = out_first; e < out_last; ++e) {
      const Status pushed = link.push(e, turn, value.data(), bytes);
      if (!pushed.ok()) done.fail(pushed);
    }
    const Status flushed = link.flush();
    if (!flushed.ok()) done.fail(flushed);
  }
  void await() {
    slots.edge(last - 1).arrived.when(turn + 1, [this](const Status& status) {
      if (!status.ok()) return done.fail(status);
      take();
    });
  }
  void take() {
    for (uint32_t e = first; e < last; ++e) slots.edge(e).retired.signal(turn + 1);
    if (!begins) push();
    ++turn;
    if (begins && turn == until) return done.signal(turn);
    await();
    if (begins) push();
  }
};

void play(benchmark::State& state, Ends& ends, uint32_t n, size_t bytes) {
  Player b{*ends.links.b, ends.slots_b, 0, n, n, n + 1, 8, false};
  Player a{*ends.links.a, ends.slots_a, n, n + 1, 0, n, bytes, true};
  b.await();
  a.await();
  Status status;
  for (auto _ : state) {
    const bool first = a.until == 0;
    a.until += kTurns;
    if (!first) a.await();
    a.push();
    status = a.done.wait(a.until, late());
    if (!status.ok()) break;
  }
  if (!status.ok()) state.SkipWithError(status.to_string().c_str());
  // The links call the players, so they are destroyed first.
  ends.links.a.reset();
  ends.links.b.reset();
}

void hop(benchmark::State& state, const Transport& transport, int spin) {
  Ends ends(transport, {8}, {8}, std::chrono::microseconds(spin));
  play(state, ends, 1, 8);
  state.counters["s/hop"] =
      benchmark::Counter(static_cast<double>(state.iterations()) * 2 * kTurns,
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void hundred(benchmark::State& state, const Transport& transport, int spin) {
  Ends ends(transport, std::vector<uint64_t>(100, 256), {8}, std::chrono::microseconds(spin));
  play(state, ends, 100, 256);
  state.counters["s/turn"] =
      benchmark::Counter(static_cast<double>(state.iterations()) * kTurns,
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

// Sends values one after the other, two of them in flight.
void stream(benchmark::State& state, const Transport& transport, size_t bytes, int spin) {
  Ends ends(transport, {bytes}, {}, std::chrono::microseconds(spin));
  struct Consumer {
    SlotTable& slots;
    uint64_t turn = 0;
    void await() {
      slots.edge(0).arrived.when(turn + 1, [this](const Status& status) {
        if (!status.ok()) return;
        slots.edge(0).retired.signal(++turn);
        await();
      });
    }
  } consumer{ends.slots_b};
  consumer.await();
  const std::vector<std::byte> value(bytes, std::byte{1});
  uint64_t turn = 0;
  for (auto _ : state) {
    Status status;
    if (turn >= kSlotDepth) status = ends.links.a->credit(0).wait(turn + 1 - kSlotDepth, late());
    if (status.ok()) status = ends.links.a->push(0, turn++, value.data(), bytes);
    if (!status.ok()) return state.SkipWithError(status.to_string().c_str());
  }
  if (turn > 0) static_cast<void>(ends.links.a->credit(0).wait(turn, late()).ok());
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * bytes));
  ends.links.a.reset();
  ends.links.b.reset();
}

void raw_hop(benchmark::State& state) {
  RawHop raw;
  for (auto _ : state) {
    for (uint64_t i = 0; i < kTurns; ++i) raw.round_trip();
  }
  state.counters["s/hop"] =
      benchmark::Counter(static_cast<double>(state.iterations()) * 2 * kTurns,
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void raw_stream(benchmark::State& state, size_t bytes) {
  RawStream raw(bytes);
  for (auto _ : state) {
    if (!raw.send_one()) return state.SkipWithError("send");
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * bytes));
}

void register_all() {
  benchmark::RegisterBenchmark("hop_8B/raw_tcp/parked", raw_hop)->UseRealTime();
  for (size_t bytes : {size_t{1} << 20, size_t{100'000'000}}) {
    const std::string name = bytes == 100'000'000 ? "stream_100MB" : "stream_1MB";
    benchmark::RegisterBenchmark((name + "/raw_tcp/parked").c_str(), raw_stream, bytes)
        ->UseRealTime();
  }
  for (const Transport& transport : transports()) {
    const std::string name(transport.name);
    for (int spin : {0, 200}) {
      const std::string how = name + (spin ? "/spinning" : "/parked");
      const auto add = [](const std::string& title, auto body) {
        benchmark::RegisterBenchmark(title.c_str(), body)->UseRealTime();
      };
      add("hop_8B/" + how, [=](benchmark::State& s) { hop(s, transport, spin); });
      add("100_values_of_256B/" + how, [=](benchmark::State& s) { hundred(s, transport, spin); });
      add("stream_1MB/" + how, [=](benchmark::State& s) { stream(s, transport, 1 << 20, spin); });
      add("stream_100MB/" + how,
          [=](benchmark::State& s) { stream(s, transport, 100'000'000, spin); });
      if (!transport.remote) break;  // it has no threads
    }
  }
}

}  // namespace
}  // namespace leat

int main(int count, char** arguments) {
  benchmark::Initialize(&count, arguments);
  leat::register_all();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
