#include "tests/transport/rpc_testing.h"

#include <capnp/rpc-twoparty.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

#include "devices/base/text.h"
#include "tests/catch.h"
#include "transport/rpc/chunks.h"
#include "transport/rpc/service.h"
#include "transport/rpc/socket.h"

extern char** environ;

namespace leat {
namespace {

using probe::Probe;

// The state that all Probe servers of a process share. Used on the loop's thread.
struct Shared {
  RpcLoop& loop;
  uint32_t holding = 0;
  std::shared_ptr<const Blob> blob = std::make_shared<const Blob>();
  std::shared_ptr<ByteBudget> uploads = std::make_shared<ByteBudget>();
};

class ProbeServer final : public Service<Probe> {
 public:
  explicit ProbeServer(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}

 protected:
  kj::Promise<void> echo(EchoContext context) override {
    context.getResults().setText(context.getParams().getText());
    return kj::READY_NOW;
  }
  kj::Promise<void> hold(HoldContext) override {
    ++shared_->holding;
    kj::Promise<void> never = kj::NEVER_DONE;
    return never.attach(kj::defer([shared = shared_] { --shared->holding; }));
  }
  kj::Promise<void> holding(HoldingContext context) override {
    context.getResults().setCalls(shared_->holding);
    return kj::READY_NOW;
  }
  kj::Promise<void> take(TakeContext context) override {
    context.getResults().setProbe(kj::heap<ProbeServer>(shared_));
    return kj::READY_NOW;
  }
  kj::Promise<void> fail(FailContext context) override {
    answer(read_status(context.getParams().getHow()), context.getResults().initOutcome());
    return kj::READY_NOW;
  }
  kj::Promise<void> crash(CrashContext) override { throw std::runtime_error("it broke"); }
  kj::Promise<void> elsewhere(ElsewhereContext context) override {
    auto waiting = answered_elsewhere<std::string>(shared_->loop, "elsewhere");
    std::thread([done = waiting.done, text = std::string(context.getParams().getText().cStr())] {
      done(text);
    }).detach();  // the thread ends before the answer arrives
    return waiting.promise.then([context](Result<std::string> text) mutable {
      context.getResults().setText(text.value());
    });
  }
  kj::Promise<void> send(SendContext context) override {
    auto outcome = context.getResults().initOutcome();
    const auto params = context.getParams();
    const auto digest = read_digest(params.getSha256());
    if (!digest.ok()) {
      write_status(digest.status(), outcome.initError());
      return kj::READY_NOW;
    }
    auto sink = receive_upload({params.getSize(), *digest}, {.bytes = 4u << 20, .deadline = 60s},
                               shared_->uploads, shared_->loop.context().timer,
                               [shared = shared_](Blob blob) {
                                 shared->blob = std::make_shared<const Blob>(std::move(blob));
                                 return Status();
                               });
    if (sink.ok()) {
      outcome.setOk(*sink);
    } else {
      write_status(sink.status(), outcome.initError());
    }
    return kj::READY_NOW;
  }
  kj::Promise<void> fetch(FetchContext context) override {
    auto results = context.getResults();
    const BlobInfo info = describe(*shared_->blob);
    results.setSize(info.size);
    results.setSha256(kj::arrayPtr(info.sha256.data(), info.sha256.size()));
    results.setFrom(offer_download(shared_->blob));
    return kj::READY_NOW;
  }
  kj::Promise<void> fill(FillContext context) override {
    context.getResults().initBytes(context.getParams().getSize());
    return kj::READY_NOW;
  }

 private:
  std::shared_ptr<Shared> shared_;
};

size_t setting(const char* name, size_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoul(text, nullptr, 10);
}

// Prints lines of level warning and above for the test that started this process.
class TellingSink final : public LogSink {
 public:
  void write(LogLevel level, std::string_view, std::string_view text) override {
    std::printf("%s %s\n", std::string(log_level_name(level)).c_str(), std::string(text).c_str());
    std::fflush(stdout);
  }
};

// Waits for the test to kill this process, or ends with the test.
[[noreturn]] void wait_until_killed() {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (;;) ::pause();
}

}  // namespace

RpcServer::Bootstrap probe_bootstrap(RpcLoop& loop) {
  auto shared = std::make_shared<Shared>(Shared{.loop = loop});
  return [shared](const RpcPeer& peer) -> kj::Maybe<capnp::Capability::Client> {
    if (peer.role == RpcRole::runner) return nullptr;
    return capnp::Capability::Client(kj::heap<ProbeServer>(shared));
  };
}

RpcIdentity test_identity(RpcRole role) {
  return {.protocol_version = 2,
          .features = 3,
          .required_features = 1,
          .role = role,
          .cluster = "test",
          .secret = {}};
}

ProbeHost::ProbeHost(RpcServerOptions options) {
  if (options.identity.cluster.empty()) options.identity = test_identity(RpcRole::master);
  auto started = RpcLoop::start();
  REQUIRE(started.ok());
  loop = std::move(*started);
  auto listening = RpcServer::listen(*loop, std::move(options), probe_bootstrap(*loop));
  INFO(listening.status());
  REQUIRE(listening.ok());
  server = std::move(*listening);
}

ProbeCaller::ProbeCaller(const std::string& address, RpcClientOptions options) {
  if (options.identity.cluster.empty()) options.identity = test_identity();
  options.address = address;
  auto started = RpcLoop::start();
  REQUIRE(started.ok());
  loop = std::move(*started);
  auto connected = RpcClient::connect(*loop, std::move(options));
  INFO(connected.status());
  REQUIRE(connected.ok());
  client = std::move(*connected);
}

Result<std::string> echo(RpcClient& client, const std::string& text,
                         std::chrono::milliseconds deadline) {
  return client.call<Probe>("Probe.echo", deadline, [text](Probe::Client probe) {
    auto request = probe.echoRequest();
    request.setText(text);
    return request.send().then(
        [](auto&& response) { return std::string(response.getText().cStr()); });
  });
}

bool fails_within_echoes(const RpcClient::Connected& client) {
  const std::string words = "words that are not to be changed";
  for (int i = 0; client.ok() && i < 20; ++i) {
    const auto echoed = echo(**client, words);
    if (!echoed.ok()) return true;
    CHECK(*echoed == words);
  }
  return !client.ok();
}

Result<std::string> ProbeCaller::echo(const std::string& text, std::chrono::milliseconds deadline) {
  return leat::echo(*client, text, deadline);
}

// Processes
// -----------------------------------------------------------------------------------------

OtherProcess::OtherProcess(const std::string& hidden_test, std::vector<std::string> settings) {
  int pipe[2];
  REQUIRE(::pipe2(pipe, O_CLOEXEC) == 0);
  std::string self = "/proc/self/exe", test = hidden_test;
  char* arguments[] = {self.data(), test.data(), nullptr};
  std::vector<char*> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) variables.push_back(*variable);
  for (std::string& setting : settings) variables.push_back(setting.data());
  variables.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, pipe[1], STDOUT_FILENO);
  const int failed =
      ::posix_spawn(&pid_, self.c_str(), &actions, nullptr, arguments, variables.data());
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(pipe[1]);
  output_ = pipe[0];
  REQUIRE(failed == 0);
}

OtherProcess::~OtherProcess() {
  kill();
  ::close(output_);
}

void OtherProcess::kill() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

bool OtherProcess::running() const { return pid_ > 0 && ::waitpid(pid_, nullptr, WNOHANG) == 0; }

std::string OtherProcess::line(const std::string& word) {
  for (;;) {
    const size_t end = read_.find('\n');
    if (end != std::string::npos) {
      const std::string line = read_.substr(0, end);
      read_.erase(0, end + 1);
      if (line.rfind(word, 0) == 0) return line.substr(word.size());
      continue;
    }
    pollfd poll{.fd = output_, .events = POLLIN, .revents = 0};
    REQUIRE(::poll(&poll, 1, 60'000) == 1);
    char bytes[1024];
    const ssize_t size = ::read(output_, bytes, sizeof(bytes));
    REQUIRE(size > 0);
    read_.append(bytes, static_cast<size_t>(size));
  }
}

size_t OtherProcess::memory(const std::string& field) const {
  std::ifstream status(cat("/proc/", pid_, "/status"));
  for (std::string line; std::getline(status, line);) {
    if (line.rfind(field + ":", 0) == 0) {
      return std::strtoull(line.c_str() + field.size() + 1, nullptr, 10) << 10;
    }
  }
  return 0;
}

ServerProcess::ServerProcess(std::vector<std::string> settings)
    : process("[.rpc_server]", std::move(settings)), address(process.line("listening ")) {}

TEST_CASE("a server of Probe until it is killed", "[.rpc_server]") {
  if (const size_t descriptors = setting("LEAT_DESCRIPTORS", 0); descriptors > 0) {
    const rlimit limit{descriptors, descriptors};
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &limit) == 0);
  }
  RpcServerOptions options;
  options.log = Logger("server", LogLevel::warning, std::make_shared<TellingSink>());
  options.limits.message_deadline =
      std::chrono::milliseconds(setting("LEAT_MESSAGE_DEADLINE_MS", 30'000));
  options.limits.calls = setting("LEAT_CALLS", options.limits.calls);
  options.limits.call_bytes = setting("LEAT_CALL_BYTES", options.limits.call_bytes);
  options.limits.exports = setting("LEAT_EXPORTS", options.limits.exports);
  options.limits.unauthenticated_message_bytes =
      setting("LEAT_MESSAGE_BYTES", options.limits.unauthenticated_message_bytes);
  const ProbeHost host(options);
  std::printf("listening %s\n", host.server->address().c_str());
  std::fflush(stdout);
  wait_until_killed();
}

TEST_CASE("a client that holds calls until it is killed", "[.rpc_holding_client]") {
  const size_t calls = setting("LEAT_CLIENT_CALLS", 0);
  const std::vector<kj::byte> bytes(setting("LEAT_CLIENT_BYTES", 0));
  ProbeCaller caller(std::getenv("LEAT_CLIENT_ADDRESS"));
  for (size_t i = 0; i < calls; ++i) {
    caller.client->start<Probe>(
        "Probe.hold", 60s,
        [&bytes](Probe::Client probe) {
          auto request = probe.holdRequest();
          request.setBytes(kj::arrayPtr(bytes.data(), bytes.size()));
          return request.send().ignoreResult();
        },
        [](const Status&) {});
  }
  REQUIRE(caller.echo("behind them", 60s).ok());
  std::printf("holding\n");
  std::fflush(stdout);
  wait_until_killed();
}

// Attackers
// -----------------------------------------------------------------------------------------

RawSocket::RawSocket(const std::string& address) {
  const auto parsed = parse_socket_address(address);
  REQUIRE(parsed.ok());
  fd_ = ::socket(parsed->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  REQUIRE(fd_ >= 0);
  const timeval patience{.tv_sec = 5, .tv_usec = 0};
  ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  ::setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
  REQUIRE(::connect(fd_, reinterpret_cast<const sockaddr*>(&parsed->storage), parsed->size) == 0);
}

RawSocket::~RawSocket() {
  if (fd_ >= 0) ::close(fd_);
}

bool RawSocket::write(const std::string& bytes) {
  size_t sent = 0;
  while (sent < bytes.size()) {
    const ssize_t size = ::send(fd_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (size <= 0) return false;
    sent += static_cast<size_t>(size);
  }
  return true;
}

std::string RawSocket::read(size_t size) {
  std::string bytes(size, '\0');
  size_t got = 0;
  while (got < size) {
    const ssize_t more = ::recv(fd_, bytes.data() + got, size - got, 0);
    if (more <= 0) break;
    got += static_cast<size_t>(more);
  }
  return bytes.substr(0, got);
}

std::optional<std::string> RawSocket::read_to_end() {
  std::string bytes;
  char some[4096];
  for (;;) {
    const ssize_t more = ::recv(fd_, some, sizeof(some), 0);
    if (more == 0 || (more < 0 && errno == ECONNRESET)) return bytes;
    if (more < 0) return std::nullopt;
    bytes.append(some, static_cast<size_t>(more));
  }
}

void RawSocket::greet() {
  const RpcIdentity identity = test_identity();
  OpenerHandshake opener(identity, "the server", random_nonce());
  REQUIRE(write(std::string(opener.hello().begin(), opener.hello().end())));
  const std::string answered = read(kRpcAnswerBytes);
  REQUIRE(answered.size() == kRpcAnswerBytes);
  RpcAnswer answer;
  std::copy(answered.begin(), answered.end(), answer.begin());
  const auto proof = opener.on_answer(answer);
  REQUIRE(proof.ok());
  REQUIRE(write(std::string(proof->begin(), proof->end())));
  REQUIRE(read(kRpcVerdictBytes).size() == kRpcVerdictBytes);
}

std::string header_of(uint32_t segments_less_one, uint32_t words) {
  const uint32_t header[] = {segments_less_one, words};
  return std::string(reinterpret_cast<const char*>(header), sizeof(header));
}

struct NaiveClient::Inside {
  explicit Inside(int fd)
      : io(kj::setupAsyncIo()),
        stream(io.lowLevelProvider->wrapSocketFd(fd, kj::LowLevelAsyncIoProvider::TAKE_OWNERSHIP)),
        client(*stream) {}
  kj::AsyncIoContext io;
  kj::Own<kj::AsyncIoStream> stream;
  capnp::TwoPartyClient client;
};

NaiveClient::NaiveClient(const std::string& address) {
  RawSocket socket(address);
  socket.greet();
  inside_ = std::make_unique<Inside>(socket.release());
}

NaiveClient::~NaiveClient() = default;

Probe::Client NaiveClient::bootstrap() { return inside_->client.bootstrap().castAs<Probe>(); }
kj::WaitScope& NaiveClient::wait_scope() { return inside_->io.waitScope; }
kj::Timer& NaiveClient::timer() { return inside_->io.provider->getTimer(); }

bool NaiveClient::disconnected(std::chrono::milliseconds within) {
  return inside_->client.onDisconnect()
      .then([] { return true; })
      .exclusiveJoin(timer().afterDelay(to_kj(within)).then([] { return false; }))
      .wait(wait_scope());
}

struct SteadyEchoes::Inside {
  explicit Inside(const std::string& address) : caller(address), thread([this] { beat(); }) {}
  void beat() {
    while (!stop) {
      const auto before = std::chrono::steady_clock::now();
      failed += caller.echo("beat").ok() ? 0 : 1;
      longest = std::max(longest, std::chrono::steady_clock::now() - before);
      ++beats;
    }
  }
  ProbeCaller caller;
  std::atomic<bool> stop{false};
  std::atomic<int> failed{0};
  int beats = 0;
  std::chrono::steady_clock::duration longest{};
  std::thread thread;
};

SteadyEchoes::SteadyEchoes(const std::string& address)
    : inside_(std::make_unique<Inside>(address)) {}

SteadyEchoes::~SteadyEchoes() {
  inside_->stop = true;
  if (inside_->thread.joinable()) inside_->thread.join();
}

std::chrono::milliseconds SteadyEchoes::longest() {
  inside_->stop = true;
  inside_->thread.join();
  CHECK(inside_->failed == 0);
  CHECK(inside_->beats > 0);
  return std::chrono::duration_cast<std::chrono::milliseconds>(inside_->longest);
}

void report(const std::string& line) {
  if (std::getenv("LEAT_REPORT") != nullptr) std::fprintf(stderr, "%s\n", line.c_str());
}

size_t allowed_growth(size_t bytes) {
#if defined(LEAT_SANITIZED)
  return 16 * bytes + (256u << 20);
#else
  return bytes;
#endif
}

std::string mebibytes(size_t bytes) { return cat(bytes >> 20, " MiB"); }

}  // namespace leat
