// What a client may not make the master hold or do: calls that ClusterClient would never make.
#include "daemon/client/wire_views.h"
#include "daemon/master/lent_calls.h"
#include "daemon/master/permits.h"
#include "devices/base/files.h"
#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/daemon/client/job_master.h"
#include "transport/rpc/call.h"
#include "transport/rpc/chunks.h"
#include "transport/rpc/client.h"

namespace leat {
namespace {

using namespace std::chrono_literals;

using Master = wire::Master::Client;

struct Caller {
  explicit Caller(const JobMaster& master) {
    auto started = RpcLoop::start();
    REQUIRE(started.ok());
    loop = std::move(*started);
    RpcClientOptions options;
    options.address = master.address();
    options.identity.role = RpcRole::client;
    options.identity.cluster = "leat";
    auto connected = RpcClient::connect(*loop, std::move(options));
    INFO(connected.status());
    REQUIRE(connected.ok());
    client = std::move(*connected);
  }
  // `function` returns a promise of a Status.
  template <typename F>
  Status call(F function) {
    return client->call<wire::Master>("Master", 30s, std::move(function));
  }
  Status submit(std::function<void(wire::SubmitRequest::Builder)> fill) {
    return call([fill](Master master) {
      auto request = master.submitRequest();
      auto out = request.initRequest();
      out.setRequestId("request");
      fill(out);
      return request.send().then([](auto&& response) { return status_of(response.getOutcome()); });
    });
  }
  Status upload(uint64_t size, size_t digest_bytes = 32) {
    return call([size, digest_bytes](Master master) {
      auto request = master.uploadRequest();
      request.setSize(size);
      request.initSha256(static_cast<uint32_t>(digest_bytes));
      return request.send().then([](auto&& response) { return status_of(response.getOutcome()); });
    });
  }
  bool alive() {
    return call([](Master master) {
             return master.clusterRequest().send().then(
                 [](auto&& response) { return status_of(response.getOutcome()); });
           })
        .ok();
  }

  std::unique_ptr<RpcLoop> loop;
  std::unique_ptr<RpcClient> client;
};

// Capabilities that live on a loop until it stops.
template <typename Client>
struct Held final : LoopOwned {
  std::vector<Client> clients;
};

}  // namespace

TEST_CASE("a submit with too many or too large files is refused", "[cluster]") {
  JobMaster master;
  Caller caller(master);
  const Status many = caller.submit([](auto request) { request.initFiles(17); });
  CHECK(many.code() == Code::invalid_argument);
  CHECK_THAT(many.message(), Catch::Contains("at most 16 attached files, received 17"));
  const Status digest =
      caller.submit([](auto request) { request.initFiles(1)[0].initBlob().initSha256(31); });
  CHECK(digest.code() == Code::invalid_argument);
  const Status empty = caller.submit([](auto) {});
  CHECK(empty.code() == Code::invalid_argument);  // an empty job file
  CHECK(master.jobs().jobs().empty());
  CHECK(caller.alive());
}

TEST_CASE("an upload of any size that is claimed costs nothing", "[cluster]") {
  JobMaster master;
  Caller caller(master);
  CHECK(caller.upload(~uint64_t{0}).code() == Code::resource_exhausted);
  CHECK(caller.upload((256u << 20) + 1).code() == Code::resource_exhausted);
  CHECK(caller.upload(10, 33).code() == Code::invalid_argument);
  CHECK(caller.upload(256u << 20).ok());
  CHECK(caller.alive());
}

TEST_CASE("a connection has so many files on their way and no more", "[cluster]") {
  JobMaster master;
  Caller caller(master);
  Status last;
  const auto hold = [&] {
    return caller.call([&caller](Master master) {
      auto request = master.uploadRequest();
      request.setSize(10);
      request.initSha256(32);
      return request.send().then([&caller](auto&& response) -> Status {
        const auto outcome = response.getOutcome();
        if (outcome.isError()) return read_status(outcome.getError());
        auto held = kj::heap<Held<wire::Upload::Client>>();
        held->clients.push_back(outcome.getOk());
        caller.loop->context().own(kj::mv(held));
        return {};
      });
    });
  };
  for (int i = 0; i < 16; ++i) REQUIRE(hold().ok());
  CHECK(hold().code() == Code::resource_exhausted);
  Caller other(master);
  CHECK(other.upload(10).ok());
  CHECK(caller.alive());
}

TEST_CASE("a connection has so many calls that wait and no more", "[cluster]") {
  JobMaster master;
  Caller caller(master);
  const std::string id = master.jobs().add("cnn");
  struct Counts {
    std::mutex mutex;
    std::condition_variable changed;
    int refused = 0, answered = 0;
  };
  const auto counts = std::make_shared<Counts>();
  for (int i = 0; i < 70; ++i) {
    caller.client->start<wire::Master>(
        "Master.watch", 60s,
        [id](Master master) {
          auto request = master.watchRequest();
          request.setId(id.c_str());
          request.setSeen(1);
          request.setWaitMs(~0u);
          return request.send().then(
              [](auto&& response) { return status_of(response.getOutcome()); });
        },
        [counts](const Status& status) {
          const std::lock_guard lock(counts->mutex);
          ++(status.code() == Code::resource_exhausted ? counts->refused : counts->answered);
          counts->changed.notify_all();
        });
  }
  const auto await = [&](auto done) {
    std::unique_lock lock(counts->mutex);
    return counts->changed.wait_for(lock, 30s, done);
  };
  CHECK(await([&] { return counts->refused == 6; }));
  CHECK(caller.alive());
  master.jobs().change(id, [](JobView&) {});
  CHECK(await([&] { return counts->answered == 64; }));
  CHECK(counts->refused == 6);
}

TEST_CASE("reads of a file stay inside of it, and are not too large", "[cluster]") {
  JobMaster master;
  Caller caller(master);
  const std::string id = master.jobs().add("cnn", JobState::succeeded);
  const Bytes bytes(3u << 20, std::byte{7});
  master.jobs().leave(id, "w", bytes);
  const auto read = [&](uint64_t offset, uint32_t size) {
    return caller.call([id, offset, size](Master master) {
      auto request = master.fetchRequest();
      request.setId(id.c_str());
      request.setName("w");
      return request.send().then([offset, size](auto&& response) -> kj::Promise<Status> {
        const auto outcome = response.getOutcome();
        if (outcome.isError()) return read_status(outcome.getError());
        auto read = outcome.getOk().getContent().readRequest();
        read.setOffset(offset);
        read.setSize(size);
        return read.send().then([size](auto&& response) -> Status {
          const auto outcome = response.getOutcome();
          if (outcome.isError()) return read_status(outcome.getError());
          return outcome.getOk().size() == size ? Status() : internal_error("short");
        });
      });
    });
  };
  CHECK(read(0, 1000).ok());
  CHECK(read((3u << 20) - 10, 10).ok());
  CHECK(read(3u << 20, 0).ok());
  CHECK(read((3u << 20) - 10, 11).code() == Code::invalid_argument);
  CHECK(read(~uint64_t{0}, 2).code() == Code::invalid_argument);
  CHECK(read(0, (1u << 20) + 1).code() == Code::invalid_argument);
  CHECK(read(0, ~0u).code() == Code::invalid_argument);
  CHECK(caller.alive());
}

TEST_CASE("a list of more jobs than a message holds has the newest", "[cluster]") {
  JobMaster master;
  Caller caller(master);
  const std::string reason(2000, 'x');
  for (int i = 0; i < 600; ++i) {
    master.jobs().change(master.jobs().add("cnn"),
                         [&](JobView& view) { view.condition.reason = reason; });
  }
  std::vector<JobView> jobs;
  const Status status = caller.call([&jobs](Master master) {
    return master.jobsRequest().send().then([&jobs](auto&& response) -> Status {
      const auto outcome = response.getOutcome();
      if (outcome.isError()) return read_status(outcome.getError());
      auto all = read_views<JobView>(outcome.getOk());
      if (!all.ok()) return all.status();
      jobs = std::move(*all);
      return {};
    });
  });
  INFO(status);
  REQUIRE(status.ok());
  REQUIRE(jobs.size() > 200);
  CHECK(jobs.size() < 600);
  CHECK(jobs.back().number == 600);
  for (size_t i = 1; i < jobs.size(); ++i) CHECK(jobs[i].number == jobs[i - 1].number + 1);
}

TEST_CASE("a permit is given back with its last copy, to both that it was of", "[cluster]") {
  Permits all(2);
  Permits mine(1, &all);
  auto first = mine.take();
  REQUIRE(first != nullptr);
  CHECK(mine.take() == nullptr);
  Permits yours(5, &all);
  auto second = yours.take();
  CHECK(second != nullptr);
  CHECK(yours.take() == nullptr);
  const auto copy = first;
  first.reset();
  CHECK(mine.take() == nullptr);
  second.reset();
  CHECK(yours.take() != nullptr);
}

TEST_CASE("a call that was lent leads nowhere once it is taken back", "[cluster]") {
  const auto lent = std::make_shared<LentCalls>();
  int called = 0;
  const auto token = std::make_shared<int>(0);
  const auto lend = [&] {
    return lent->lend<int>([&called, token](Result<int> value) { called += *value; });
  };
  auto first = lend(), second = lend(), dropped = lend();
  CHECK(token.use_count() == 4);
  dropped = nullptr;
  CHECK(token.use_count() == 3);
  first(1);
  first(1);
  CHECK(called == 1);
  CHECK(token.use_count() == 2);
  lent->take_back();
  CHECK(token.use_count() == 1);
  second(1);
  CHECK(called == 1);
}

}  // namespace leat
