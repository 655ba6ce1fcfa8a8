// Calls of a session that a master refuses. RemoteSession never makes them.
#include "daemon/client/session_client.h"
#include "daemon/wire/cluster.capnp.h"
#include "daemon/wire/session_messages.h"
#include "devices/base/text.h"
#include "ops/capnp/graph_file.h"
#include "ops/catalogue.h"
#include "tests/daemon/leatd_process.h"
#include "tests/daemon/session_testing.h"
#include "tests/temporary_directory.h"
#include "transport/rpc/call.h"
#include "transport/rpc/client.h"

namespace leat {
namespace {

using namespace testing;
using namespace std::chrono_literals;

using WireSession = wire::Session::Client;

// Holds capabilities that live on the loop until it stops.
template <typename Client>
struct Kept final : LoopOwned {
  explicit Kept(Client kept) : client(kj::mv(kept)) {}
  Client client;
};

template <typename Request>
kj::Promise<Status> outcome_of(Request request) {
  return request.send().then([](auto&& response) { return status_of(response.getOutcome()); });
}

// A session on `leatd dev` whose calls the test writes itself.
class RawSession {
 public:
  RawSession()
      : dev_(
            {"dev", "--workers", "1", "--threads", "1", "--listen", "127.0.0.1:0", "--http", "off"},
            {"TMPDIR=" + temporary_.path()}) {
    RpcClientOptions options;
    options.address = dev_.ready().listen;
    options.identity.role = RpcRole::client;
    options.identity.cluster = "leat";
    client_ = must(RpcClient::connect(*loop_, std::move(options)));
    must(client_->call<wire::Master>("openSession", 60s, [this](wire::Master::Client master) {
      const RemoteSessionOptions defaults;
      auto request = master.openSessionRequest();
      auto out = request.initRequest();
      out.setRequestId("request");
      out.setName("raw");
      out.setNumWorkers(1);
      out.setStrategy(defaults.strategy.c_str());
      out.setShards(1);
      out.setPlans(64);
      out.setTimeoutMs(60'000);
      return request.send().then([this](auto&& response) -> Status {
        const auto outcome = response.getOutcome();
        if (outcome.isError()) return read_status(outcome.getError());
        session_ = keep(outcome.getOk().getSession());
        return {};
      });
    }));
  }

  // Calls `function`, which takes the session and returns a promise of a Status.
  template <typename F>
  std::string call(F function) {
    return client_
        ->call<wire::Master>(
            "Session", 60s,
            [this, function](wire::Master::Client) {
              const auto found = loop_->context().owned.find(session_);
              return function(static_cast<Kept<WireSession>&>(*found->second).client);
            })
        .to_string();
  }
  // Stages a blob of this size, and holds its upload.
  std::string stage(uint64_t size, uint32_t digest_bytes = 32) {
    return call([this, size, digest_bytes](WireSession session) {
      auto request = session.stageRequest();
      request.setNumber(size);
      request.setSize(size);
      request.initSha256(digest_bytes);
      return request.send().then([this](auto&& response) -> Status {
        const auto outcome = response.getOutcome();
        if (outcome.isError()) return read_status(outcome.getError());
        keep(wire::Upload::Client(outcome.getOk()));
        return {};
      });
    });
  }
  std::string extend(const Graph& graph, const std::vector<ValueId>& ids) {
    const Bytes bytes = must(write_graph(graph));
    return call([bytes, ids](WireSession session) {
      auto request = session.extendRequest();
      request.initGraph().setBytes({reinterpret_cast<const kj::byte*>(bytes.data()), bytes.size()});
      auto list = request.initInputIds(static_cast<uint32_t>(ids.size()));
      for (uint32_t i = 0; i < list.size(); ++i) list.set(i, ids[i]);
      return outcome_of(kj::mv(request));
    });
  }
  // Runs a step that is fed one value as "x". `fill` writes the value.
  std::string run(const std::string& fetch, std::function<void(wire::FedValue::Builder)> fill) {
    return call([fetch, fill](WireSession session) {
      auto request = session.runRequest();
      auto step = request.initStep();
      auto signature = step.initSignature();
      signature.initFeeds(1).set(0, "x");
      signature.initFetches(1).set(0, fetch.c_str());
      fill(step.initFeeds(1)[0]);
      return outcome_of(kj::mv(request));
    });
  }

 private:
  template <typename Client>
  uint64_t keep(Client client) {
    return loop_->context().own(kj::heap<Kept<Client>>(kj::mv(client)));
  }

  const TemporaryDirectory temporary_;
  LeatdProcess dev_;
  std::unique_ptr<RpcLoop> loop_ = must(RpcLoop::start());
  std::unique_ptr<RpcClient> client_;
  uint64_t session_ = 0;
};

void fill(wire::FedValue::Builder out, const char* dtype, const std::vector<int64_t>& sizes,
          const std::vector<kj::byte>& bytes) {
  auto type = out.initType();
  type.setDtype(dtype);
  auto dims = type.initDims(static_cast<uint32_t>(sizes.size()));
  for (uint32_t i = 0; i < dims.size(); ++i) dims.set(i, sizes[i]);
  out.initContent().setBytes({bytes.data(), bytes.size()});
}

}  // namespace

TEST_CASE("bytes that a session may not hold are refused before they come", "[cluster]") {
  RawSession raw;
  CHECK(raw.stage(10, 31) == "invalid_argument: sha256: expected 32 bytes, received 31");
  CHECK(raw.stage((uint64_t{1} << 30) + 1) ==
        "resource_exhausted: stage: 1.0 GiB more are more than the session may hold");
  CHECK(raw.stage((256u << 20) + 1) ==
        "resource_exhausted: upload of 268435457 bytes: expected at most 268435456");
  const Catalogue catalogue = standard_catalogue();
  SessionGraph s(catalogue);
  const ValueId x = s.g.input("x", DType::f32, Shape{512});
  s.value("large", "Concat", std::vector<ValueId>(256, x), {{"axis", int64_t{0}}});
  s.value("small", "Neg", {x});
  CHECK(raw.extend(s.get(), {0}) == "ok");
  const auto step = [&](const char* fetch) {
    return raw.run(fetch, [](auto out) { fill(out, "float", {512}, std::vector<kj::byte>(2048)); });
  };
  CHECK(step("large") == "ok");
  for (int i = 0; i < 4; ++i) CHECK(raw.stage(256u << 20) == "ok");
  CHECK(step("large") ==
        "resource_exhausted: the step has run; its fetches, 512.0 KiB of them in one, are more "
        "than the session may hold");
  CHECK(step("small") == "ok");
}

TEST_CASE("the arguments of a session's calls are checked", "[cluster]") {
  RawSession raw;
  CHECK(raw.call([](WireSession session) {
    auto request = session.extendRequest();
    request.initGraph().initBytes((256u << 10) + 1);
    return outcome_of(kj::mv(request));
  }) == "invalid_argument: expected at most 256.0 KiB in a call, received 256.0 KiB");
  CHECK(raw.call([](WireSession session) {
    auto request = session.extendRequest();
    request.initGraph().setStaged(7);
    return outcome_of(kj::mv(request));
  }) == "failed_precondition: expected bytes that were staged as 7, there are none");
  const auto fed = [&](const char* dtype, const std::vector<int64_t>& sizes,
                       const std::vector<kj::byte>& bytes) {
    return raw.run("y", [=](auto out) { fill(out, dtype, sizes, bytes); });
  };
  const std::string types = "invalid_argument: a tensor: expected a type and a shape, received ";
  CHECK(fed("flout", {2}, {}) == types + "flout[2]");
  CHECK(fed("float", {-1}, {}) == types + "float[-1]");
  CHECK(fed("float", {2}, std::vector<kj::byte>(7)) ==
        "invalid_argument: float[2]: received 7 bytes");
  CHECK(fed("float", {1}, std::vector<kj::byte>(7)) ==
        "invalid_argument: float[1]: received 7 bytes");
  CHECK(fed("", {}, {1}) == "invalid_argument: no tensor: received 1 bytes");
  CHECK(fed("bool", {2}, {1, 2}) == "invalid_argument: bool[2]: expected bytes of 0 or 1");
}

TEST_CASE("ids of a graph's inputs are where they can be", "[cluster]") {
  RawSession raw;
  const Catalogue catalogue = standard_catalogue();
  SessionGraph s(catalogue);
  const ValueId x = s.g.input("x", DType::f32, Shape{1});
  s.g.input("z", DType::f32, Shape{1});
  s.value("y", "Neg", {x});
  const Graph& graph = s.get();
  const std::string ids = "invalid_argument: ids of inputs: ";
  CHECK(raw.extend(graph, {0}) == ids + "expected 2, received 1");
  CHECK_THAT(raw.extend(graph, {1, 2}),
             Catch::StartsWith(ids) && Catch::Contains("reads 'x' before it is there"));
  CHECK(raw.extend(graph, {0, 7}) == ids + "expected ascending ids of values, received 0,7");
  CHECK(raw.extend(graph, {0, 2}) == "ok");
}

}  // namespace leat
