// Links over the wires of two devices, with an inner link of each transport.
#include "transport/direct/direct_link.h"

#include <future>
#include <optional>

#include "tests/async_device.h"
#include "tests/must.h"
#include "tests/transport/link_testing.h"
#include "transport/direct/announcement.h"
#include "transport/direct/wire_offer.h"

namespace leat {
namespace {

using direct::DirectLinkMaker;
using testing::AsyncDevice;
using testing::AsyncWires;

// Tokens are 0 bytes; the others go over wires.
const std::vector<uint64_t> kMixed = {0, 1, 8, 4096, 300000, 0, 1048576 + 3};
// The incarnations of the runners.
constexpr uint64_t kRunnerA = 11, kRunnerB = 12;
constexpr WireKind kKinds[] = {WireKind::ipc, WireKind::nccl};

Transport transport_named(std::string_view name) {
  for (Transport& transport : transports()) {
    if (transport.name == name) return transport;
  }
  FAIL("no transport " << name);
  return {};
}

// Two devices with a link between them. worker-0 dials.
class DirectEnds {
 public:
  DirectEnds(std::vector<uint64_t> a_to_b, std::vector<uint64_t> b_to_a) : ends(a_to_b, b_to_a) {}
  // The inner link is destroyed before the threads that serve it.
  ~DirectEnds() {
    a.reset();
    b.reset();
  }
  void connect(const Transport& transport, WireKind kind) { connect(transport, kind, ends); }
  void connect(const Transport& transport, WireKind kind, LinkEnds& over) {
    auto maker_a = must(DirectLinkMaker::create(over.setup_a, wires_of_a(kind)));
    auto maker_b = must(DirectLinkMaker::create(
        over.setup_b, {kind, device_b.get(), over.next_edge, false, kRunnerA, memory_b}));
    LinkPair inner = must(transport.pair(maker_a.inner_setup(), maker_b.inner_setup(), 0us));
    threads_ = inner.threads;
    auto other =
        std::async(std::launch::async, [&] { return maker_b.connect(std::move(inner.b), soon()); });
    a = must(maker_a.connect(std::move(inner.a), soon()));
    b = must(other.get());
  }
  // Makes a link at worker-0 alone. The other end of its inner link, `far_link`, is the test's, and
  // offers nothing.
  Status connect_half(WireKind kind, LinkEnds& far, std::unique_ptr<Link>& far_link) {
    auto maker = must(DirectLinkMaker::create(ends.setup_a, wires_of_a(kind)));
    const LinkSetup mine = maker.inner_setup();
    far.setup_b.incoming = mine.outgoing;
    far.setup_b.outgoing = mine.incoming;
    LinkPair inner = must(transport_named("local").pair(mine, far.setup_b, 0us));
    far_link = std::move(inner.b);
    std::vector<std::byte> offer(mine.incoming.back().bytes);
    must(far_link->push(mine.incoming.back().edge, 0, offer.data(), offer.size()));
    auto made = maker.connect(std::move(inner.a), soon());
    LEAT_RETURN_IF_ERROR(made.status());
    a = std::move(*made);
    return {};
  }

  direct::WireSetup wires_of_a(WireKind kind) {
    return {kind, device_a.get(), ends.next_edge, true, kRunnerB, memory_a};
  }

  // Writes the value to the device, and gives it to the link.
  Status push(Link& link, AsyncDevice& device, uint32_t edge, uint64_t turn, uint64_t bytes) {
    if (turn >= kSlotDepth)
      LEAT_RETURN_IF_ERROR(link.credit(edge).wait(turn + 1 - kSlotDepth, soon()));
    if (bytes == 0) return link.push_in_place(edge, turn, nullptr, 0);
    auto& buffer = departures_[{edge, turn % kSlotDepth}];
    if (!buffer) buffer = must(device.allocate(bytes));
    // The value before it in this place has left.
    if (turn >= kSlotDepth)
      LEAT_RETURN_IF_ERROR(link.sent(edge)->wait(turn + 1 - kSlotDepth, soon()));
    const auto value = value_of(edge, turn, bytes);
    device.copy_to_device(buffer->data(), value.data(), bytes);
    LEAT_RETURN_IF_ERROR(device.queue(QueueFor::copies_in).settle(soon()));
    return link.push_in_place(edge, turn, buffer->data(), bytes);
  }
  // Awaits the value in the slots of the device, and retires it.
  void check(SlotTable& slots, AsyncDevice& device, uint32_t edge, uint64_t turn) {
    const Status arrived = slots.edge(edge).arrived.wait(turn + 1, soon());
    INFO("edge " << edge << " turn " << turn << ": " << arrived);
    REQUIRE(arrived.ok());
    const size_t bytes = slots.edge(edge).bytes;
    std::vector<std::byte> value(bytes);
    if (bytes > 0) {
      device.copy_to_host(value.data(), slots.slot(edge, turn), bytes);
      REQUIRE(device.queue(QueueFor::copies_out).settle(soon()).ok());
    }
    REQUIRE((value == value_of(edge, turn, bytes)));
    slots.edge(edge).retired.signal(turn + 1);
  }

  // The devices outlive the links and their memory.
  std::unique_ptr<AsyncDevice> device_a = std::make_unique<AsyncDevice>();
  std::unique_ptr<AsyncDevice> device_b = std::make_unique<AsyncDevice>();
  std::shared_ptr<direct::WireMemory> memory_a = std::make_shared<direct::WireMemory>();
  std::shared_ptr<direct::WireMemory> memory_b = std::make_shared<direct::WireMemory>();
  LinkEnds ends;
  std::unique_ptr<Link> a, b;

 private:
  std::map<std::pair<uint32_t, uint64_t>, std::unique_ptr<Buffer>> departures_;
  std::shared_ptr<void> threads_;
};

// A link at worker-0 that is being made. The other end of its inner link is the test's.
struct HalfLink {
  explicit HalfLink(DirectEnds& ends)
      : maker(must(DirectLinkMaker::create(ends.ends.setup_a, ends.wires_of_a(WireKind::ipc)))) {
    const LinkSetup mine = maker.inner_setup();
    far.setup_b.incoming = mine.outgoing;
    far.setup_b.outgoing = mine.incoming;
    inner = must(transport_named("tcp").pair(mine, far.setup_b, 0us));
    threads = inner.threads;
  }
  // Rises when the offer of worker-0 is there.
  Timeline& offered() { return far.slots_b.edge(far.setup_b.incoming.back().edge).arrived; }

  LinkEnds far{{}, {1, 1, 1, 1}};
  std::shared_ptr<void> threads;  // outlive the link
  DirectLinkMaker maker;
  LinkPair inner;
};

}  // namespace

TEST_CASE("values go from device to device whole and in order, both ways", "[cluster]") {
  for (const Transport& transport : transports()) {
    for (const WireKind kind : kKinds) {
      INFO(transport.name << ", " << name_of(kind));
      DirectEnds ends(kMixed, kMixed);
      ends.connect(transport, kind);
      const auto n = static_cast<uint32_t>(kMixed.size());
      for (uint64_t turn = 0; turn < 6; ++turn) {
        for (uint32_t e = 0; e < n; ++e) {
          REQUIRE(ends.push(*ends.a, *ends.device_a, e, turn, kMixed[e]).ok());
          REQUIRE(ends.push(*ends.b, *ends.device_b, n + e, turn, kMixed[e]).ok());
        }
        for (uint32_t e = 0; e < n; ++e) {
          ends.check(ends.ends.slots_b, *ends.device_b, e, turn);
          ends.check(ends.ends.slots_a, *ends.device_a, n + e, turn);
        }
      }
      // The values' bytes count, beside those of the inner link.
      CHECK(ends.a->counters().bytes_by_wire == 6 * (1 + 8 + 4096 + 300000 + 1048576 + 3));
      CHECK(ends.a->counters().bytes_sent > ends.a->counters().bytes_by_wire);
      CHECK(ends.b->counters().bytes_received > 6 * 1350000);
      CHECK(ends.a->status().ok());
    }
  }
}

TEST_CASE("values may be pushed before they are read, as many as a wire has slots", "[cluster]") {
  for (const WireKind kind : kKinds) {
    DirectEnds ends({5000, 70000}, {});
    ends.connect(transport_named("tcp"), kind);
    for (uint64_t turn = 0; turn < kSlotDepth; ++turn) {
      REQUIRE(ends.push(*ends.a, *ends.device_a, 1, turn, 70000).ok());
      REQUIRE(ends.push(*ends.a, *ends.device_a, 0, turn, 5000).ok());
    }
    for (uint64_t turn = 0; turn < 20; ++turn) {
      ends.check(ends.ends.slots_b, *ends.device_b, 0, turn);
      ends.check(ends.ends.slots_b, *ends.device_b, 1, turn);
      REQUIRE(ends.push(*ends.a, *ends.device_a, 0, turn + kSlotDepth, 5000).ok());
      REQUIRE(ends.push(*ends.a, *ends.device_a, 1, turn + kSlotDepth, 70000).ok());
    }
  }
}

TEST_CASE("a value that is closed before it comes is given back when it is there", "[cluster]") {
  DirectEnds ends({4000}, {});
  ends.connect(transport_named("tcp"), WireKind::nccl);
  ends.ends.slots_b.close(0, 0);
  REQUIRE(ends.push(*ends.a, *ends.device_a, 0, 0, 4000).ok());
  REQUIRE(ends.push(*ends.a, *ends.device_a, 0, 1, 4000).ok());
  ends.check(ends.ends.slots_b, *ends.device_b, 0, 1);
  REQUIRE(ends.push(*ends.a, *ends.device_a, 0, 2, 4000).ok());
  ends.check(ends.ends.slots_b, *ends.device_b, 0, 2);
}

TEST_CASE("an abort ends every wait at both ends, with its cause", "[cluster]") {
  for (const WireKind kind : kKinds) {
    DirectEnds ends({4000}, {4000});
    ends.connect(transport_named("shm"), kind);
    AsyncWires::all().hold(true);
    REQUIRE(ends.push(*ends.a, *ends.device_a, 0, 0, 4000).ok());
    ends.a->abort(internal_error("the step failed"));
    // The bytes are free again: the wire is over.
    CHECK(ends.a->sent(0)->wait(1, soon()).message().find("the step failed") != std::string::npos);
    CHECK(ends.ends.slots_a.edge(1).arrived.wait(1, soon()).code() == Code::internal);
    const Status at_peer = ends.ends.slots_b.edge(0).arrived.wait(1, soon());
    CHECK(at_peer.code() == Code::internal);
    CHECK(at_peer.message().find("the step failed") != std::string::npos);
    CHECK(ends.a->fault() == LinkFault::none);
    CHECK(ends.b->fault() == LinkFault::none);
    AsyncWires::all().hold(false);
  }
}

TEST_CASE("the end of a peer ends the wires to it", "[cluster]") {
  for (const WireKind kind : kKinds) {
    DirectEnds ends({4000}, {4000});
    std::promise<void> told;
    ends.ends.setup_a.on_failure = [&] { told.set_value(); };
    ends.connect(transport_named("tcp"), kind);
    REQUIRE(ends.push(*ends.b, *ends.device_b, 1, 0, 4000).ok());
    ends.check(ends.ends.slots_a, *ends.device_a, 1, 0);
    ends.b.reset();
    const Status gone = ends.ends.slots_a.edge(1).arrived.wait(2, soon());
    CHECK(gone.code() == Code::unavailable);
    CHECK(gone.message().find("worker-1") != std::string::npos);
    REQUIRE(told.get_future().wait_until(soon()) == std::future_status::ready);
    CHECK_FALSE(ends.a->status().ok());
    CHECK(ends.a->sent(0)->wait(1, soon()).code() == Code::unavailable);
  }
}

TEST_CASE("a wire that fails by itself is a lost link, and the peer learns why", "[cluster]") {
  for (const WireKind kind : kKinds) {
    for (const bool at_sender : {false, true}) {
      INFO(name_of(kind) << (at_sender ? ", sender" : ", receiver"));
      DirectEnds ends({4000}, {});
      ends.connect(transport_named("tcp"), kind);
      AsyncWires::all().fail(unavailable("the network of the GPUs is cut"), at_sender);
      Link& failed = at_sender ? *ends.a : *ends.b;
      const std::string names = at_sender ? "worker-0 to worker-1" : "worker-1 to worker-0";
      const Status sent = ends.a->sent(0)->wait(1, soon());
      const Status arrived = ends.ends.slots_b.edge(0).arrived.wait(1, soon());
      CHECK(failed.status().message() ==
            cat("link ", names, ": wire (", name_of(kind), "): the network of the GPUs is cut"));
      CHECK(failed.fault() == LinkFault::lost);
      for (const Status& seen : {sent, arrived}) {
        CHECK(seen.code() == Code::unavailable);
        CHECK(seen.message().find("the network of the GPUs is cut") != std::string::npos);
      }
      CHECK((at_sender ? *ends.b : *ends.a).fault() == LinkFault::none);
      CHECK_FALSE(ends.push(*ends.a, *ends.device_a, 0, 0, 4000).ok());
    }
  }
}

TEST_CASE("a number that no value can have breaks the protocol", "[cluster]") {
  for (const uint64_t number : {uint64_t{7}, ~uint64_t{0}, uint64_t{2}}) {
    DirectEnds ends({}, {4000});
    LinkEnds far({}, {1, 1, 1, 1});
    std::unique_ptr<Link> inner;
    must(ends.connect_half(WireKind::ipc, far, inner));
    const direct::Announcement announced(number);
    REQUIRE(inner->push(0, 0, announced.bytes.data(), announced.bytes.size()).ok());
    const Status status = ends.ends.slots_a.edge(0).arrived.wait(1, soon());
    CHECK(status.code() == Code::invalid_argument);
    CHECK(status.message().find("worker-1 broke the protocol: edge 0 turn 0: expected the number "
                                "of a value") != std::string::npos);
  }
}

TEST_CASE("a number that comes twice breaks the protocol", "[cluster]") {
  DirectEnds ends({}, {4000, 4000});
  LinkEnds far({}, {1, 1, 1, 1});
  std::unique_ptr<Link> inner;
  must(ends.connect_half(WireKind::nccl, far, inner));
  const direct::Announcement announced(1);
  REQUIRE(inner->push(0, 0, announced.bytes.data(), announced.bytes.size()).ok());
  REQUIRE_FALSE(ends.ends.slots_a.edge(0).arrived.failed());
  (void)inner->push(1, 0, announced.bytes.data(), announced.bytes.size());
  CHECK(ends.ends.slots_a.edge(0).arrived.wait(1, soon()).code() == Code::invalid_argument);
}

TEST_CASE("an offer that is none ends the connecting", "[cluster]") {
  DirectEnds ends({4000}, {});
  LinkEnds far({}, {1, 1, 1, 1});
  std::unique_ptr<Link> inner;
  const Status failed = ends.connect_half(WireKind::ipc, far, inner);
  CHECK(failed.code() == Code::invalid_argument);
  CHECK(failed.message() ==
        "link worker-0 to worker-1: worker-1 broke the protocol: expected the offer of a wire, "
        "received none; while connecting wires of kind ipc");
}

TEST_CASE("memory to which a peer may write stays until the peer has closed it", "[cluster]") {
  DirectEnds ends({4000}, {4000});
  ends.connect(transport_named("tcp"), WireKind::ipc);
  CHECK(ends.memory_a->kept() == 0);
  ends.a.reset();
  // Only one end is closed so far.
  CHECK(ends.memory_a->kept() == 1);
  ends.b.reset();
  CHECK(ends.memory_b->kept() == 1);
  // The next link of the same processes says so.
  LinkEnds next({4000}, {4000});
  ends.connect(transport_named("tcp"), WireKind::ipc, next);
  CHECK(ends.memory_a->kept() == 0);
  CHECK(ends.memory_b->kept() == 0);
  ends.a.reset();
  ends.b.reset();
  // The last one may say so in vain: the other process is another one.
  CHECK(ends.memory_a->kept() == 1);
  ends.memory_a->closed_by(kRunnerB + 1, std::vector<uint64_t>{1, 2, 3});
  CHECK(ends.memory_a->kept() == 1);
}

TEST_CASE("memory that only this process writes is free when the link has ended", "[cluster]") {
  DirectEnds ends({4000}, {4000});
  ends.connect(transport_named("tcp"), WireKind::nccl);
  ends.a.reset();
  ends.b.reset();
  CHECK(ends.memory_a->kept() == 0);
  CHECK(ends.memory_b->kept() == 0);
}

TEST_CASE("the numbers of closed memories are told again, as many as an offer has room for") {
  direct::WireMemory memory;
  CHECK(memory.closed_here(kRunnerB).empty());
  for (uint64_t number = 1; number <= 1000; ++number) memory.closed_here(kRunnerB, number);
  const std::vector<uint64_t> told = memory.closed_here(kRunnerB);
  REQUIRE(told.size() == direct::WireMemory::kMostTold);
  CHECK(told.front() == 1001 - told.size());
  CHECK(told.back() == 1000);
  const direct::WireOffer offer{7, std::string(kMostOfferBytes, 'x'), told};
  const auto bytes = offer.written();
  const auto read = must(direct::WireOffer::read(bytes.data()));
  CHECK(read.memory == 7);
  CHECK(read.offer == offer.offer);
  CHECK(read.closed == told);
  for (const size_t at : {size_t{8}, 16 + kMostOfferBytes}) {
    auto damaged = bytes;
    damaged[at + 2] = std::byte{1};
    CHECK(direct::WireOffer::read(damaged.data()).status().code() == Code::invalid_argument);
  }
}

TEST_CASE("connecting ends when it is cancelled, and when the peer gives up", "[cluster]") {
  for (const bool cancelled_here : {true, false}) {
    INFO(cancelled_here);
    DirectEnds ends({4000}, {4000});
    HalfLink half(ends);
    auto connecting = std::async(std::launch::async, [&] {
      return half.maker.connect(std::move(half.inner.a), in(std::chrono::hours(1))).status();
    });
    // The offer that this end waits for does not come.
    REQUIRE(half.offered().wait(1, soon()).ok());
    const Status cause = internal_error("there is no more time");
    cancelled_here ? half.maker.cancel(cause) : half.inner.b->abort(cause);
    REQUIRE(connecting.wait_until(soon()) == std::future_status::ready);
    const Status ended = connecting.get();
    CHECK(ended.code() == Code::internal);
    CHECK(ended.message().find("there is no more time") != std::string::npos);
  }
}

TEST_CASE("connecting that was cancelled before it began returns at once", "[cluster]") {
  DirectEnds ends({4000}, {4000});
  HalfLink half(ends);
  half.maker.cancel(internal_error("there is no more time"));
  const Status ended =
      half.maker.connect(std::move(half.inner.a), in(std::chrono::hours(1))).status();
  CHECK(ended.message() == "there is no more time");
  // The peer is told.
  const Status told = half.offered().wait(1, soon());
  CHECK(told.message().find("there is no more time") != std::string::npos);
}

TEST_CASE("a kind of wires is chosen alike at both ends") {
  Endpoint a, b;
  CHECK_FALSE(direct::choose_wire(a, b));
  a.wires = {WireKind::ipc, WireKind::nccl};
  CHECK_FALSE(direct::choose_wire(a, b));
  b.wires = {WireKind::nccl, WireKind::ipc};
  // An unknown machine is no machine that both are on.
  CHECK(direct::choose_wire(a, b) == WireKind::nccl);
  a.machine = b.machine = "node-a";
  CHECK(direct::choose_wire(a, b) == WireKind::ipc);
  b.machine = "node-b";
  CHECK(direct::choose_wire(b, a) == WireKind::nccl);
  b.wires = {WireKind::ipc};
  CHECK_FALSE(direct::choose_wire(b, a));
}

}  // namespace leat
