// The keys of tokens: what each proves, and that nothing else fits.
#include <algorithm>
#include <atomic>

#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/eventually.h"
#include "tests/transport/rpc_testing.h"
#include "transport/rpc/grant.h"

namespace leat {
namespace {

constexpr char kGrantSecret[] = "a secret of the cluster of grants";

Grant a_grant(Right right = Right::submitter) { return {right, "alice", 0xabcdef12345, 0}; }

std::string token_of(const Grant& grant, const std::string& secret = kGrantSecret) {
  return write_token({grant, key_of(grant, secret)});
}

int64_t unix_now() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

Result<std::unique_ptr<RpcClient>> connect_with(RpcLoop& loop, const ProbeHost& host,
                                                const std::string& secret,
                                                RpcRole role = RpcRole::client) {
  RpcClientOptions options;
  options.address = host.server->address();
  options.identity = test_identity(role);
  options.identity.secret = secret;
  options.deadline = 30s;
  return RpcClient::connect(loop, options);
}

RpcServerOptions granting() {
  RpcServerOptions options;
  options.identity = test_identity(RpcRole::master);
  options.identity.secret = kGrantSecret;
  return options;
}

}  // namespace

TEST_CASE("a token is read as it was written, and a secret is no token", "[cluster]") {
  for (const Right right :
       {Right::viewer, Right::submitter, Right::operate, Right::admin, Right::worker}) {
    Grant grant = a_grant(right);
    grant.expires = 1'900'000'000;
    const auto read = read_credential(token_of(grant));
    REQUIRE(read.ok());
    CHECK(read->grant == grant);
    CHECK(read->key == key_of(grant, kGrantSecret));
    CHECK(read->key.size() == 32);
  }
  const auto secret = read_credential(kGrantSecret);
  REQUIRE(secret.ok());
  CHECK(secret->grant == Grant());
  CHECK(secret->key == kGrantSecret);
}

TEST_CASE("a damaged token is an error that does not show its key", "[cluster]") {
  const std::string token = token_of(a_grant());
  for (size_t at = 6; at < token.size(); ++at) {
    std::string damaged = token;
    damaged[at] = '~';
    const auto read = read_credential(damaged);
    INFO(damaged);
    CHECK(read.status().code() == Code::invalid_argument);
    CHECK(read.status().message().find(token.substr(token.size() - 20)) == std::string::npos);
  }
  for (const size_t size : {size_t{6}, size_t{20}, token.size() - 1})
    CHECK_FALSE(read_credential(token.substr(0, size)).ok());
  CHECK_FALSE(read_credential(token + "0").ok());
  CHECK_FALSE(read_credential("leat1:member:alice:1:0:" + std::string(64, '0')).ok());
}

TEST_CASE("keys of different grants differ", "[cluster]") {
  std::vector<std::string> keys;
  for (const char* name : {"alice", "bob"}) {
    for (const Right right : {Right::viewer, Right::worker}) {
      for (const uint64_t number : {1, 2}) {
        for (const int64_t expires : {0, 5})
          keys.push_back(key_of({right, name, number, expires}, kGrantSecret));
      }
    }
  }
  std::sort(keys.begin(), keys.end());
  CHECK(std::adjacent_find(keys.begin(), keys.end()) == keys.end());
  CHECK(key_of(a_grant(), kGrantSecret) != key_of(a_grant(), "another secret of a cluster"));
}

TEST_CASE("the rights of people grow, and those of workers and runners stand apart", "[cluster]") {
  CHECK(includes(Right::member, Right::admin));
  CHECK(includes(Right::admin, Right::viewer));
  CHECK_FALSE(includes(Right::viewer, Right::submitter));
  CHECK_FALSE(includes(Right::worker, Right::viewer));
  CHECK_FALSE(includes(Right::runner, Right::viewer));
  CHECK_FALSE(includes(Right::admin, Right::member));
  const Grant worker{Right::worker, "w", 1, 0};
  for (const char* name : {"w", "w.0", "w.12"}) CHECK(may_be_worker(worker, name));
  for (const char* name : {"", "v", "w2", "w.", "w.x", "w.0.1"})
    CHECK_FALSE(may_be_worker(worker, name));
  CHECK(may_be_worker({}, "any"));
  CHECK_FALSE(may_be_worker(a_grant(Right::admin), "alice"));
}

TEST_CASE("the server knows by the key whose connection it is, and its rights", "[cluster]") {
  RpcServerOptions options = granting();
  RpcPeer seen;
  const auto loop = std::move(RpcLoop::start().value());
  options.address = "127.0.0.1:0";
  const auto bootstrap = probe_bootstrap(*loop);
  const auto server = RpcServer::listen(*loop, options, [&](const RpcPeer& peer) {
    seen = peer;
    return bootstrap(peer);
  });
  REQUIRE(server.ok());
  const auto other = std::move(RpcLoop::start().value());
  RpcClientOptions mine;
  mine.address = (*server)->address();
  mine.identity = test_identity();
  mine.identity.secret = token_of(a_grant());
  mine.identity.seal = Seal::always;
  const auto client = RpcClient::connect(*other, mine);
  INFO(client.status());
  REQUIRE(client.ok());
  CHECK((*client)->peer().sealed);
  CHECK(seen.grant == a_grant());
  CHECK(seen.authenticated);
}

TEST_CASE("a token that is forged, of another role, over or unknown is refused", "[cluster]") {
  RpcServerOptions options = granting();
  options.is_revoked = [](const Grant& grant) { return grant.name == "revoked"; };
  const ProbeHost host(options);
  const auto loop = std::move(RpcLoop::start().value());
  const auto refused = [&](const std::string& secret, const std::string& why,
                           RpcRole role = RpcRole::client) {
    const auto client = connect_with(*loop, host, secret, role);
    CHECK(client.status().code() == Code::failed_precondition);
    CHECK_THAT(client.status().message(), Catch::Contains(why));
  };
  // The name, the right, the number and the time are all in the key.
  const std::string key = key_of(a_grant(), kGrantSecret);
  for (Grant forged :
       {Grant{Right::admin, "alice", 0xabcdef12345, 0},
        Grant{Right::submitter, "bob", 0xabcdef12345, 0}, Grant{Right::submitter, "alice", 7, 0},
        Grant{Right::submitter, "alice", 0xabcdef12345, 2'000'000'000}}) {
    refused(write_token({forged, key}), "authentication failed");
  }
  refused(token_of(a_grant(), "another secret of a cluster"), "authentication failed");
  refused(token_of(a_grant()), "nothing for the role worker", RpcRole::worker);
  refused(token_of(a_grant(Right::worker)), "nothing for the role client");
  refused(runner_credential(kGrantSecret, "mlp-1"), "nothing for the role client");
  refused(token_of({Right::viewer, "old", 1, unix_now() - 1}), "has expired");
  refused(token_of({Right::viewer, "revoked", 1, 0}), "was revoked");
  // A member cannot be made of a token.
  refused(key, "authentication failed");
  CHECK(connect_with(*loop, host, token_of(a_grant())).ok());
}

TEST_CASE("a connection ends when its token expires or is revoked", "[cluster]") {
  RpcServerOptions options = granting();
  std::atomic<bool> revoked{false};
  options.is_revoked = [&](const Grant&) { return revoked.load(); };
  const ProbeHost host(options);
  const auto loop = std::move(RpcLoop::start().value());
  const auto member = connect_with(*loop, host, kGrantSecret);
  REQUIRE(member.ok());
  {
    const auto brief = connect_with(*loop, host, token_of({Right::viewer, "x", 1, unix_now() + 2}));
    REQUIRE(brief.ok());
    CHECK(eventually([&] { return host.server->counts().live == 2; }));
    CHECK(eventually([&] { return host.server->counts().live == 1; }));
  }
  const auto one = connect_with(*loop, host, token_of(a_grant()));
  REQUIRE(one.ok());
  CHECK(eventually([&] { return host.server->counts().live == 2; }));
  revoked = true;
  CHECK(eventually([&] { return host.server->counts().live == 1; }));
}

TEST_CASE("two secrets are accepted while one replaces the other", "[cluster]") {
  const std::string fresh = "the secret that comes after it";
  const auto secrets = std::make_shared<Secrets>(kGrantSecret);
  RpcServerOptions options = granting();
  options.identity.secrets = secrets;
  const ProbeHost host(options);
  const auto loop = std::move(RpcLoop::start().value());
  const auto old_member = connect_with(*loop, host, kGrantSecret);
  const auto old_token = connect_with(*loop, host, token_of(a_grant()));
  REQUIRE((old_member.ok() && old_token.ok()));
  CHECK_FALSE(connect_with(*loop, host, fresh).ok());
  secrets->set(fresh, kGrantSecret);
  const auto fresh_member = connect_with(*loop, host, fresh);
  CHECK(fresh_member.ok());
  CHECK(connect_with(*loop, host, token_of(a_grant(), fresh)).ok());
  CHECK(connect_with(*loop, host, kGrantSecret).ok());
  CHECK(eventually([&] { return host.server->counts().live == 3; }));
  secrets->set(fresh, "");
  CHECK_FALSE(connect_with(*loop, host, kGrantSecret).ok());
  // Those of the old one end, the other goes on.
  CHECK(eventually([&] { return host.server->counts().live == 1; }));
}

}  // namespace leat
