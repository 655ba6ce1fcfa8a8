// Peers on the machine of a server that prove no key: Unix sockets, and the users at their other
// ends.
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>

#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/eventually.h"
#include "tests/temporary_directory.h"
#include "tests/transport/rpc_testing.h"
#include "transport/io/descriptor.h"
#include "transport/rpc/held_socket.h"
#include "transport/rpc/peer_user.h"
#include "transport/rpc/socket_path.h"

namespace leat {
namespace {

constexpr char kOwnSecret[] = "a secret that a master made for itself";

// Leaves a socket at the path, as a process does that is killed.
void leave_socket(const std::string& path) {
  const int descriptor = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  REQUIRE(::bind(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  ::close(descriptor);
}

using Answer = std::function<void(Result<Grant>)>;

RpcServerOptions judging(std::function<Result<Grant>(const LocalPeer&, RpcRole)> judge) {
  RpcServerOptions options;
  options.identity = test_identity(RpcRole::master);
  options.judge_user = [judge = std::move(judge)](const LocalPeer& peer, RpcRole role,
                                                  const Answer& done) { done(judge(peer, role)); };
  return options;
}

Result<Grant> refuse_all(const LocalPeer& peer, RpcRole) {
  return failed_precondition(cat("uid ", peer.user, " has no role here"));
}

Status connect_as(const ProbeHost& host, RpcRole role, const std::string& secret = "") {
  RpcClientOptions options;
  options.address = host.server->address();
  options.identity = test_identity(role);
  options.identity.secret = secret;
  options.deadline = 30s;
  return RpcClient::connect(*host.loop, options).status();
}

// Two ends of a connection over loopback, and the socket that listens.
struct LocalEnds {
  // Listens at the one address, and connects to the other one, with the port that was bound.
  LocalEnds(const std::string& at, const std::string& to) {
    listening = Descriptor(listen_on(parse_socket_address(at).value()).value());
    const std::string bound = local_address(listening.get()).to_string();
    const SocketAddress there =
        parse_socket_address(cat(to, bound.substr(bound.rfind(':')))).value();
    client = Descriptor(::socket(there.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    REQUIRE(::connect(client.get(), reinterpret_cast<const sockaddr*>(&there.storage),
                      there.size) == 0);
    REQUIRE(eventually([&] {
      server = Descriptor(::accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC));
      return static_cast<bool>(server);
    }));
    peer = remote_address(server.get());
    own = local_address(server.get());
  }

  Descriptor listening, client, server;
  SocketAddress peer, own;
};

}  // namespace

TEST_CASE("the socket of a dead process is replaced, and that of a living one is not",
          "[cluster]") {
  const TemporaryDirectory folder;
  const bool closed = GENERATE(false, true);
  REQUIRE(::chmod(folder.path().c_str(), closed ? 0700 : 0755) == 0);
  const std::string path = folder / "s.sock";
  leave_socket(path);
  {
    auto socket = SocketPath::listen(path);
    REQUIRE(socket.ok());
    struct stat there {};
    REQUIRE(::stat(path.c_str(), &there) == 0);
    CHECK((there.st_mode & 0777) == (closed ? 0600 : 0666));
    const auto second = SocketPath::listen(path);
    CHECK(second.status().message() ==
          cat("unix:", path, ": expected a path of its own, another process listens there"));
    CHECK(std::filesystem::exists(path));
  }
  CHECK_FALSE(std::filesystem::exists(path));
}

TEST_CASE("a socket takes the place of no other file, and goes only if it is still there",
          "[cluster]") {
  const TemporaryDirectory folder;
  const std::string path = folder / "s.sock";
  std::ofstream(path) << "somebody's work";
  CHECK_THAT(SocketPath::listen(path).status().message(),
             Catch::Contains("expected nothing, or a socket; there is another kind of file"));
  CHECK(std::filesystem::file_size(path) == 15);
  std::filesystem::remove(path);
  {
    const auto socket = SocketPath::listen(path);
    REQUIRE(socket.ok());
    std::filesystem::remove(path);
    std::ofstream(path) << "of another process";
  }
  CHECK(std::filesystem::exists(path));
  const std::string deep = folder / std::string(200, 'd');
  CHECK(SocketPath::listen(deep).status().code() == Code::invalid_argument);
  CHECK(SocketPath::listen(folder / "none/s.sock").status().code() == Code::unavailable);
}

TEST_CASE("the kernel tells a server the user and the process at a Unix socket", "[cluster]") {
  const TemporaryDirectory folder;
  std::optional<LocalPeer> seen;
  RpcServerOptions options = judging([&](const LocalPeer& peer, RpcRole) -> Result<Grant> {
    seen = peer;
    return Grant{Right::viewer, "ann", 0, 0};
  });
  options.local_socket = folder / "s.sock";
  {
    const ProbeHost host(std::move(options));
    CHECK(host.server->address() == cat("unix:", folder / "s.sock"));
    ProbeCaller caller(host.server->address());
    const auto echoed = caller.echo("hello");
    REQUIRE(echoed.ok());
    CHECK(*echoed == "hello");
  }
  REQUIRE(seen);
  CHECK(seen->user == ::geteuid());
  CHECK(seen->process == ::getpid());
  CHECK_FALSE(std::filesystem::exists(folder / "s.sock"));
}

TEST_CASE("a socket over loopback that its process has closed has no user", "[cluster]") {
  // The kernel lists such a socket as one of root, while what it has sent can still be read.
  for (const size_t unread : {size_t{0}, size_t{7'000}}) {
    CAPTURE(unread);
    LocalEnds ends("127.0.0.1:0", "127.0.0.1");
    CHECK(user_of_peer(ends.peer, ends.own) == ::geteuid());
    CHECK(local_peer(ends.server.get())->user == ::geteuid());
    const std::string bytes(unread, 'x');
    if (unread > 0)
      REQUIRE(::send(ends.client.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
              static_cast<ssize_t>(bytes.size()));
    ends.client = Descriptor();
    CHECK(!user_of_peer(ends.peer, ends.own));
    CHECK(!local_peer(ends.server.get()));
    // Whether the kernel is asked, or its lists are read.
    const auto asked = ask_held_socket(ends.peer, ends.own);
    REQUIRE(asked.ok());
    CHECK(!*asked);
    CHECK(!list_held_socket(ends.peer, ends.own));
  }
}

TEST_CASE("the kernel tells the user of a connection over IPv4, IPv6 and IPv4 in IPv6",
          "[cluster]") {
  const std::pair<std::string, std::string> families[] = {{"127.0.0.1:0", "127.0.0.1"},
                                                          {"[::1]:0", "[::1]"},
                                                          {"[::ffff:127.0.0.1]:0", "127.0.0.1"},
                                                          {"127.0.0.1:0", "[::ffff:127.0.0.1]"}};
  for (const auto& [at, to] : families) {
    CAPTURE(at, to);
    const LocalEnds ends(at, to);
    CHECK(local_peer(ends.server.get()).value_or(LocalPeer{1, 1}).user == ::geteuid());
    const auto asked = ask_held_socket(ends.peer, ends.own);
    REQUIRE(asked.ok());
    const auto listed = list_held_socket(ends.peer, ends.own);
    REQUIRE((*asked && listed));
    CHECK((*asked)->user == listed->user);
    CHECK((*asked)->inode == listed->inode);
    CHECK((*asked)->cookie != 0);
    // The other end is another socket of this process.
    const auto other = ask_held_socket(ends.own, ends.peer);
    REQUIRE(other.ok());
    REQUIRE(*other);
    CHECK((*other)->inode != (*asked)->inode);
    // A socket that listens there is not the end of a connection.
    const SocketAddress none = parse_socket_address("127.0.0.1:1").value();
    const auto listener = ask_held_socket(ends.own, none);
    REQUIRE(listener.ok());
    CHECK(!*listener);
  }
}

TEST_CASE("a server goes on while a user is judged, and turns it away at a deadline", "[cluster]") {
  std::promise<Answer> first;
  std::atomic<int> asked{0};
  RpcServerOptions options;
  options.identity = test_identity(RpcRole::master);
  options.judge_deadline = GENERATE(20ms, 60'000ms);
  const bool in_time = options.judge_deadline > 1s;
  options.judge_user = [&](const LocalPeer&, RpcRole, Answer done) {
    if (asked++ == 0) {
      first.set_value(std::move(done));
    } else {
      done(Grant{Right::viewer, "ann", 0, 0});
    }
  };
  const ProbeHost host(std::move(options));
  auto slow = std::async(std::launch::async, [&] { return connect_as(host, RpcRole::client); });
  Answer answer = first.get_future().get();
  ProbeCaller other(host.server->address());
  CHECK(other.echo("hello").ok());
  if (in_time) answer(Grant{Right::viewer, "bob", 0, 0});
  const Status connected = slow.get();
  CHECK(connected.code() == (in_time ? Code::ok : Code::unavailable));
  CHECK(eventually([&] { return host.server->counts().accepted == (in_time ? 2u : 1u); }));
  if (!in_time) answer(Grant{Right::viewer, "bob", 0, 0});  // too late, and without harm
  CHECK(other.echo("again").ok());
}

TEST_CASE("a user without a role is refused, told what to ask for, and named to the server",
          "[cluster]") {
  const TemporaryDirectory folder;
  const bool over_tcp = GENERATE(true, false);
  std::mutex mutex;
  std::string why;
  RpcServerOptions options = judging(refuse_all);
  if (!over_tcp) options.local_socket = folder / "s.sock";
  options.on_refused = [&](const std::string&, const Status& status) {
    const std::lock_guard lock(mutex);
    why = status.message();
  };
  const ProbeHost host(std::move(options));
  const Status client = connect_as(host, RpcRole::client);
  CHECK(client.code() == Code::failed_precondition);
  // By number: the loop that gets the refusal asks no accounts, which may be slow.
  const std::string user = cat(::geteuid());
  CHECK_THAT(client.message(), Catch::Contains(cat("user ", user, " of this machine")) &&
                                   Catch::Contains(cat("'uid:", user, ": submitter'")));
  CHECK_THAT(connect_as(host, RpcRole::worker).message(),
             Catch::Contains(cat("'uid:", user, ": worker'")));
  const std::string expected = cat("refused for its user: uid ", ::geteuid(), " has no role here");
  CHECK(eventually([&] {
    const std::lock_guard lock(mutex);
    return why.find(expected) != std::string::npos;
  }));
  CHECK(host.server->counts().accepted == 0);
}

TEST_CASE("without a secret only the keys of runners are keys", "[cluster]") {
  RpcServerOptions options = judging(refuse_all);
  options.identity.own_secret = kOwnSecret;
  RpcRole seen = RpcRole::none;
  Grant grant;
  const auto loop = std::move(RpcLoop::start().value());
  const auto listening = RpcServer::listen(
      *loop, std::move(options), [&](const RpcPeer& peer) -> kj::Maybe<capnp::Capability::Client> {
        seen = peer.role;
        grant = peer.grant;
        return nullptr;
      });
  REQUIRE(listening.ok());
  const RpcServer& server = **listening;
  const auto refusal = [&](RpcRole role, const std::string& secret, Seal seal) {
    RpcClientOptions client;
    client.address = server.address();
    client.identity = test_identity(role);
    client.identity.secret = secret;
    client.identity.seal = seal;
    client.deadline = 30s;
    return RpcClient::connect(*loop, client).status().message();
  };
  // The bootstrap is asked only for a peer that was let in, and refuses its role.
  const std::string runner = runner_credential(kOwnSecret, "job-1");
  const Seal seal = GENERATE(Seal::beyond_loopback, Seal::always);
  CHECK_THAT(refusal(RpcRole::runner, runner, seal), Catch::Contains("nothing for the role"));
  CHECK(seen == RpcRole::runner);
  CHECK(grant.name == "job-1");
  CHECK(grant.right == Right::runner);
  seen = RpcRole::none;
  CHECK_THAT(refusal(RpcRole::client, runner, seal), Catch::Contains("nothing for the role"));
  CHECK_THAT(
      refusal(RpcRole::runner, runner_credential("another secret of a master", "job-1"), seal),
      Catch::Contains("authentication failed"));
  CHECK_THAT(refusal(RpcRole::client, kOwnSecret, seal), Catch::Contains("authentication failed"));
  const Grant admin{Right::admin, "mallory", 7, 0};
  CHECK_THAT(refusal(RpcRole::client, write_token({admin, key_of(admin, kOwnSecret)}), seal),
             Catch::Contains("authentication failed"));
  CHECK_THAT(refusal(RpcRole::runner, "", seal), Catch::Contains("has no role there"));
  CHECK(seen == RpcRole::none);
}

}  // namespace leat
