#include "transport/io/handshake.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <condition_variable>
#include <functional>
#include <future>
#include <mutex>
#include <thread>

#include "devices/cpu/cpu_device.h"
#include "tests/eventually.h"
#include "tests/no_descriptors.h"
#include "tests/transport/link_testing.h"
#include "tests/transport/relay.h"
#include "transport/io/handover.h"
#include "transport/io/listener.h"
#include "transport/tcp/tcp_link.h"

using namespace leat;

namespace {

Identity an_identity() {
  Identity id;
  id.cluster.fill(1);
  id.plan.fill(2);
  id.assembly = 3;
  id.run = 4;
  id.source = 5;
  id.destination = 6;
  id.source_incarnation = 7;
  id.destination_incarnation = 8;
  return id;
}

RunKey a_key() {
  RunKey key;
  key.fill(9);
  return key;
}

LinkHello a_hello() {
  LinkHello hello;
  hello.identity = an_identity();
  return hello;
}

class TestGate final : public Listener::Gate {
 public:
  std::optional<Listener::Expected> expect(const LinkHello& hello) override {
    if (hello.identity.run != an_identity().run) return std::nullopt;
    return Listener::Expected{an_identity(), a_key()};
  }
  void accepted(Connection connection) override {
    std::lock_guard lock(mutex_);
    connections_.push_back(std::move(connection));
    changed_.notify_all();
  }
  void refused(const Status& why) override {
    std::lock_guard lock(mutex_);
    refusals_.push_back(why);
    changed_.notify_all();
  }
  Connection next() {
    std::unique_lock lock(mutex_);
    REQUIRE(changed_.wait_until(lock, soon(), [&] { return !connections_.empty(); }));
    Connection first = std::move(connections_.front());
    connections_.erase(connections_.begin());
    return first;
  }
  Status next_refusal() {
    std::unique_lock lock(mutex_);
    REQUIRE(changed_.wait_until(lock, soon(), [&] { return !refusals_.empty(); }));
    const Status first = refusals_.front();
    refusals_.erase(refusals_.begin());
    return first;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Connection> connections_;
  std::vector<Status> refusals_;
};

struct Door {
  explicit Door(Listener::Options options = {}, const std::string& at = "127.0.0.1:0") {
    auto opened = Listener::open(reactor, at, gate, std::move(options));
    INFO(opened.status());
    REQUIRE(opened.ok());
    listener = std::move(*opened);
  }
  Result<Connection> dial(const LinkHello& hello = a_hello(), const RunKey& key = a_key()) {
    return leat::dial(listener->address(), hello, key, soon());
  }
  void check_open() {
    CHECK(dial().ok());
    CHECK(gate.next().hello.identity == an_identity());
  }
  Reactor reactor;
  TestGate gate;
  std::unique_ptr<Listener> listener;
};

void check_connected(const Descriptor& a, const Descriptor& b) {
  const auto sent = value_of(1, 1, 100);
  std::vector<std::byte> got(100);
  REQUIRE(send_all(a.get(), sent, soon(), "a").ok());
  REQUIRE(receive_all(b.get(), got, soon(), "b").ok());
  CHECK(got == sent);
}

}  // namespace

TEST_CASE("messages of the handshake read back as they were written") {
  LinkHello hello = a_hello();
  hello.role = SocketRole::shm;
  hello.nonce = link_nonce();
  const auto read = decode_hello(encode(hello));
  REQUIRE(read.ok());
  CHECK(read->identity == hello.identity);
  CHECK(read->role == hello.role);
  CHECK(read->nonce == hello.nonce);
  LinkAnswer answer;
  answer.refusal = LinkRefusal::plan;
  answer.nonce = link_nonce();
  answer.proof.fill(77);
  const auto answered = decode_answer(encode(answer));
  REQUIRE(answered.ok());
  CHECK(answered->refusal == LinkRefusal::plan);
  CHECK(answered->nonce == answer.nonce);
  CHECK(answered->proof == answer.proof);
  const auto verdict = decode_verdict(encode(LinkRefusal::key));
  REQUIRE(verdict.ok());
  CHECK(*verdict == LinkRefusal::key);
}

TEST_CASE("bytes that are no message of the handshake are refused") {
  const auto with = [](auto bytes, size_t at, int value) {
    bytes[at] = static_cast<std::byte>(value);
    return bytes;
  };
  const HelloBytes hello = encode(a_hello());
  CHECK(decode_hello(with(hello, 0, 'G')).status().message() ==
        "handshake: expected a hello of Leat, received other bytes");
  size_t roles = 0;  // bytes of the role
  for (size_t at = 4; at < hello.size(); ++at) {
    const Status status = decode_hello(with(hello, at, 3)).status();
    if (status.ok()) continue;
    ++roles;
    CHECK(status.message().starts_with("handshake: role: expected 0 to 2, received "));
  }
  CHECK(roles == 4);

  const AnswerBytes answer = encode(LinkAnswer());
  REQUIRE(decode_answer(with(answer, 4, static_cast<int>(LinkRefusal::seal))).ok());
  for (const AnswerBytes& bytes :
       {with(answer, 0, 'G'), with(answer, 4, static_cast<int>(LinkRefusal::seal) + 1)}) {
    CHECK(decode_answer(bytes).status().message() ==
          "handshake: expected the answer of Leat, received other bytes");
  }
  const VerdictBytes verdict = encode(LinkRefusal::none);
  REQUIRE(decode_verdict(with(verdict, 4, static_cast<int>(LinkRefusal::seal))).ok());
  for (const VerdictBytes& bytes :
       {with(verdict, 0, 'G'), with(verdict, 4, static_cast<int>(LinkRefusal::seal) + 1)}) {
    CHECK(decode_verdict(bytes).status().message() ==
          "handshake: expected the verdict of Leat, received other bytes");
  }
}

TEST_CASE("a dialer with the right identity and key is let in", "[cluster]") {
  for (const char* address : {"127.0.0.1:0", "[::1]:0"}) {
    if (address[0] == '[' && !listen_socket(address).ok()) continue;  // a machine without IPv6
    Door door({}, address);
    auto dialed = door.dial();
    INFO(dialed.status());
    REQUIRE(dialed.ok());
    const Connection accepted = door.gate.next();
    CHECK(accepted.hello.identity == an_identity());
    check_connected(dialed->socket, accepted.socket);
    check_connected(accepted.socket, dialed->socket);
  }
}

TEST_CASE("a dialer that has to ask for TLS and does not is refused", "[cluster]") {
  Listener::Options options;
  options.seal = Seal::always;
  Door door(options);
  const auto refused = door.dial();
  CHECK(refused.status().code() == Code::failed_precondition);
  CHECK_THAT(refused.status().message(), Catch::Contains("it refused: TLS is not what it expects"));
  LinkHello asks = a_hello();
  asks.features = kSealed;
  auto dialed = door.dial(asks);
  INFO(dialed.status());
  REQUIRE(dialed.ok());
  Connection accepted = door.gate.next();
  CHECK(accepted.hello.features == kSealed);
  // Both ends have the same key, and only for this connection.
  CHECK(seal_key(a_key(), dialed->hello) == seal_key(a_key(), accepted.hello));
  LinkHello other = accepted.hello;
  other.nonce = link_nonce();
  CHECK(seal_key(a_key(), other) != seal_key(a_key(), accepted.hello));
}

TEST_CASE("a byte changed behind the handshake ends a sealed link as damage", "[cluster]") {
  // Far behind the handshakes in the clear and of TLS, so that it is in a value.
  constexpr size_t kFlipped = 300'000;
  LinkEnds ends({1u << 20}, {});
  cpu::CpuDevice device(0, 1);
  for (const LinkEdge& edge : ends.setup_b.incoming)
    REQUIRE(ends.slots_b.open(edge.edge, edge.bytes, device).ok());
  Reactor reactor_a, reactor_b;
  TestGate gate;
  auto listener = Listener::open(reactor_b, "127.0.0.1:0", gate, {});
  REQUIRE(listener.ok());
  const Relay relay(
      (*listener)->address(), [](Relay::Way way, size_t before, std::vector<std::byte>& bytes) {
        if (way == Relay::Way::up && before <= kFlipped && kFlipped < before + bytes.size())
          bytes[kFlipped - before] ^= std::byte{1};
      });
  LinkHello hello = a_hello();
  hello.features = kSealed;
  std::vector<Wire> dialed, accepted;
  // The bulk socket first, so that its bytes are those that the relay counts.
  for (const std::string& address : {relay.address(), (*listener)->address()}) {
    auto connection = dial(address, hello, a_key(), soon());
    REQUIRE(connection.ok());
    const TlsKey key = seal_key(a_key(), connection->hello);
    dialed.emplace_back(std::move(connection->socket));
    accepted.emplace_back(std::move(gate.next().socket));
    auto other = std::async(std::launch::async, [&] {
      return accepted.back().seal(TlsSession::Side::server, key, soon(), "a");
    });
    REQUIRE(dialed.back().seal(TlsSession::Side::client, key, soon(), "b").ok());
    REQUIRE(other.get().ok());
  }
  auto a = tcp::make_link(reactor_a, std::move(dialed[1]), std::move(dialed[0]), ends.setup_a);
  auto b = tcp::make_link(reactor_b, std::move(accepted[1]), std::move(accepted[0]), ends.setup_b);
  REQUIRE((a.ok() && b.ok()));
  static_cast<void>(push_value(**a, 0, 0, 1u << 20).ok());
  CHECK(eventually([&] { return !(*b)->status().ok(); }));
  CHECK(ends.slots_b.edge(0).arrived.value() == 0);
  CHECK((*b)->fault() == LinkFault::damaged);
  CHECK_THAT((*b)->status().message(), Catch::Contains("a record of TLS from worker-0"));
}

TEST_CASE("a unix address works like any other") {
  char directory[] = "/tmp/leat-handshake-XXXXXX";
  REQUIRE(::mkdtemp(directory));
  const std::string path = std::string(directory) + "/port";
  {
    Door door({}, "unix:" + path);
    auto dialed = door.dial();
    INFO(dialed.status());
    REQUIRE(dialed.ok());
    check_connected(dialed->socket, door.gate.next().socket);
  }
  ::unlink(path.c_str());
  ::rmdir(directory);
}

TEST_CASE("a refused handshake names the field that differs, on both sides") {
  struct Case {
    const char* field;
    std::function<void(LinkHello&)> change;
    const char* values;
  };
  const Case cases[] = {
      {"version", [](LinkHello& h) { h.oldest = h.newest = 9; },
       "expected 1 to 1, received 9 to 9"},
      {"cluster", [](LinkHello& h) { h.identity.cluster.fill(0xab); },
       "expected 0101010101010101, received abababababababab"},
      {"assembly", [](LinkHello& h) { h.identity.assembly = 2; }, "expected 3, received 2"},
      {"run", [](LinkHello& h) { h.identity.run = 40; }, "there is no 40"},
      {"plan", [](LinkHello& h) { h.identity.plan.fill(0xcd); },
       "expected 0202020202020202, received cdcdcdcdcdcdcdcd"},
      {"source", [](LinkHello& h) { h.identity.source = 50; }, "expected 5, received 50"},
      {"destination", [](LinkHello& h) { h.identity.destination = 60; }, "expected 6, received 60"},
      {"source incarnation", [](LinkHello& h) { h.identity.source_incarnation = 70; },
       "expected 7, received 70"},
      {"destination incarnation", [](LinkHello& h) { h.identity.destination_incarnation = 80; },
       "expected 8, received 80"},
  };
  Door door;
  for (const Case& c : cases) {
    INFO(c.field);
    LinkHello hello = a_hello();
    c.change(hello);
    const Status status = door.dial(hello).status();
    CHECK(status.code() == Code::failed_precondition);
    CHECK(status.message().find(std::string("it refused: ") + c.field + " is not") !=
          std::string::npos);
    const std::string logged = door.gate.next_refusal().message();
    CHECK(logged.find(std::string(": ") + c.field + ": ") != std::string::npos);
    CHECK(logged.find(c.values) != std::string::npos);
  }
  door.check_open();
}

TEST_CASE("neither end passes without the run's key") {
  Door door;
  RunKey wrong = a_key();
  wrong[31] ^= 1;
  // The dialer learns that the listener does not know its key.
  CHECK(door.dial(a_hello(), wrong).status().message().find("key: it does not know") !=
        std::string::npos);
  // The listener refuses, too, if the dialer continues in spite of that.
  auto socket = connect_socket(door.listener->address(), soon());
  REQUIRE(socket.ok());
  const HelloBytes hello = encode(a_hello());
  AnswerBytes answer;
  VerdictBytes verdict;
  REQUIRE(send_all(socket->get(), hello, soon(), "t").ok());
  REQUIRE(receive_all(socket->get(), answer, soon(), "t").ok());
  const auto proof = prove(wrong, Prover::dialer, hello, answer);
  REQUIRE(send_all(socket->get(), std::as_bytes(std::span(proof)), soon(), "t").ok());
  REQUIRE(receive_all(socket->get(), verdict, soon(), "t").ok());
  CHECK(*decode_verdict(verdict) == LinkRefusal::key);
  door.check_open();
}

TEST_CASE("a proof is of one side and one handshake") {
  const HelloBytes hello = encode(a_hello());
  LinkAnswer answer;
  const AnswerBytes first = encode(answer);
  answer.nonce[0] = 1;
  const AnswerBytes second = encode(answer);
  const auto proof = prove(a_key(), Prover::dialer, hello, first);
  CHECK(same(proof, prove(a_key(), Prover::dialer, hello, first)));
  CHECK_FALSE(same(proof, prove(a_key(), Prover::listener, hello, first)));
  CHECK_FALSE(same(proof, prove(a_key(), Prover::dialer, hello, second)));
  CHECK(link_nonce() != link_nonce());
}

TEST_CASE("a dialer that goes after any byte costs nothing") {
  Door door;
  const HelloBytes hello = encode(a_hello());
  for (size_t n = 0; n <= hello.size(); n += n < 8 ? 1 : 19) {
    auto socket = connect_socket(door.listener->address(), soon());
    REQUIRE(socket.ok());
    REQUIRE(send_all(socket->get(), std::span(hello).first(n), soon(), "t").ok());
    *socket = Descriptor();
    CHECK(door.gate.next_refusal().message().find("the dialer went") != std::string::npos);
  }
  door.check_open();
}

TEST_CASE("a dialer that is slow or says nonsense is sent away") {
  Listener::Options options;
  options.handshake = 200ms;
  Door door(options);
  auto socket = connect_socket(door.listener->address(), soon());
  REQUIRE(socket.ok());
  CHECK(door.gate.next_refusal().code() == Code::deadline_exceeded);
  std::byte one;
  CHECK(receive_all(socket->get(), {&one, 1}, soon(), "t").code() == Code::unavailable);
  auto other = connect_socket(door.listener->address(), soon());
  REQUIRE(other.ok());
  const std::vector<std::byte> nonsense(kHelloBytes, std::byte{'G'});
  REQUIRE(send_all(other->get(), nonsense, soon(), "t").ok());
  CHECK(door.gate.next_refusal().code() == Code::invalid_argument);
}

TEST_CASE("a listener with enough handshakes at once says that it is busy") {
  Listener::Options options;
  options.most_pending = 1;
  Door door(options);
  auto first = connect_socket(door.listener->address(), soon());
  REQUIRE(first.ok());
  const Status status = door.dial().status();
  INFO(status);
  CHECK(status.code() == Code::unavailable);
  CHECK(status.message().find("busy") != std::string::npos);
  *first = Descriptor();
  CHECK(door.gate.next_refusal().code() == Code::resource_exhausted);
  CHECK(door.gate.next_refusal().code() == Code::unavailable);
  door.check_open();
}

TEST_CASE("dialing says what is wrong with an address, or that no process listens there") {
  for (const char* bad : {"", "127.0.0.1", "80", "localhost:80", "unix:", ":1", "[::1:80"}) {
    INFO(bad);
    CHECK_THAT(dial(bad, a_hello(), a_key(), soon()).status().to_string(),
               Catch::StartsWith("invalid_argument: address '" + std::string(bad) +
                                 "': expected an IP address and a port"));
  }
  std::string address;
  {
    Door door;
    address = door.listener->address();
  }
  CHECK(dial(address, a_hello(), a_key(), soon()).status().to_string() ==
        "unavailable: connecting to " + address + ": Connection refused");
  CHECK_THAT(dial("unix:/nowhere/socket", a_hello(), a_key(), soon()).status().message(),
             Catch::StartsWith("connecting to unix:/nowhere/socket: No such file or directory"));
}

TEST_CASE("an option that this system does not have is refused") {
  Door door;
  SocketOptions options;
  options.congestion = "none-such";
  const Status status =
      dial(door.listener->address(), a_hello(), a_key(), soon(), options).status();
  CHECK(status.to_string() ==
        "invalid_argument: congestion control 'none-such': expected one "
        "that this system has");
  const Descriptor alone(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  CHECK_THAT(apply({}, alone.get()).message(), Catch::StartsWith("the peer of a socket: "));
}

TEST_CASE("sockets without a descriptor or an end say which call failed") {
  auto pair = socket_pair();
  REQUIRE(pair.ok());
  std::byte one{};
  Status connecting, pairing, waiting;
  {
    const NoDescriptors none;
    connecting = connect_socket("127.0.0.1:1", soon()).status();
    pairing = socket_pair().status();
    waiting = receive_all(pair->first.get(), {&one, 1}, soon(), "waiting");  // too many for poll()
  }
  CHECK_THAT(connecting.message(), Catch::StartsWith("socket for 127.0.0.1:1: "));
  CHECK_THAT(pairing.message(), Catch::StartsWith("socketpair: "));
  CHECK_THAT(waiting.message(), Catch::StartsWith("waiting: "));
  CHECK(waiting.code() != Code::deadline_exceeded);
  const Descriptor null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  CHECK_THAT(receive_all(null.get(), {&one, 1}, soon(), "no socket").message(),
             Catch::StartsWith("no socket: "));
  CHECK_THAT(receive_descriptors(null.get(), {&one, 1}, 1, soon(), "no socket").status().message(),
             Catch::StartsWith("no socket: "));
}

TEST_CASE("a descriptor that cannot be watched is refused") {
  class Deaf final : public Reactor::Watched {
    bool readable() override { return false; }
    void writable() override {}
  } deaf;
  Reactor reactor;
  const Descriptor file(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  CHECK_THAT(reactor.watch(file.get(), deaf).status().message(),
             Catch::StartsWith("watching a socket: "));
}

TEST_CASE("a dialer turns away from a listener that chooses or refuses too late") {
  // Plays the listener up to the verdict.
  const auto greeted = [](uint16_t version, LinkRefusal verdict) {
    auto pair = socket_pair();
    REQUIRE(pair.ok());
    std::thread listener([&] {
      HelloBytes hello;
      Sha256Digest proof;
      if (!receive_all(pair->second.get(), hello, soon(), "t").ok()) return;
      LinkAnswer answer;
      answer.version = version;
      answer.proof = prove(a_key(), Prover::listener, hello, encode(answer));
      if (!send_all(pair->second.get(), encode(answer), soon(), "t").ok()) return;
      const auto of_dialer = std::as_writable_bytes(std::span(proof));
      if (!receive_all(pair->second.get(), of_dialer, soon(), "t").ok()) return;
      (void)send_all(pair->second.get(), encode(verdict), soon(), "t").ok();
    });
    const auto done = greet(std::move(pair->first), a_hello(), a_key(), soon(), "p").status();
    listener.join();
    return done.to_string();
  };
  CHECK(greeted(1, LinkRefusal::none) == Status().to_string());
  CHECK(greeted(9, LinkRefusal::none) ==
        "failed_precondition: handshake with p: version: it chose 9");
  CHECK(greeted(1, LinkRefusal::key) ==
        "failed_precondition: handshake with p: it refused: key is not what it expects");
}

TEST_CASE("dialing a peer that never answers ends at its deadline") {
  auto silent = listen_socket("127.0.0.1:0");
  REQUIRE(silent.ok());
  CHECK(dial(silent->address, a_hello(), a_key(), in(10ms)).status().code() ==
        Code::deadline_exceeded);
}

TEST_CASE("an accepted connection can be handed to another process's end of a unix socket") {
  Door door;
  auto dialed = door.dial();
  REQUIRE(dialed.ok());
  auto unix_pair = socket_pair();
  REQUIRE(unix_pair.ok());
  REQUIRE(hand_over(unix_pair->first.get(), door.gate.next(), soon()).ok());
  auto taken = take_over(unix_pair->second.get(), soon());
  INFO(taken.status());
  REQUIRE(taken.ok());
  CHECK(taken->hello.identity == an_identity());
  check_connected(dialed->socket, taken->socket);
  // Bytes that are no hello are refused, and nothing leaks.
  const HelloBytes hello = encode(a_hello());
  REQUIRE(send_all(unix_pair->first.get(), hello, soon(), "t").ok());
  CHECK(take_over(unix_pair->second.get(), soon()).status().code() == Code::invalid_argument);
  CHECK(take_over(unix_pair->second.get(), in(5ms)).status().code() == Code::deadline_exceeded);
  unix_pair->first = Descriptor();
  CHECK(take_over(unix_pair->second.get(), soon()).status().code() == Code::unavailable);
}
