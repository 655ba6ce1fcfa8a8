// Tests the limits of the memory and the work that a client can cause in a master, by calls that
// ClusterClient never makes.
#include "daemon/master/lent_calls.h"
#include "daemon/master/permits.h"
#include "daemon/wire/views.h"
#include "devices/base/files.h"
#include "devices/base/forwarding_files.h"
#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/daemon/client/job_master.h"
#include "tests/eventually.h"
#include "tests/slowness.h"
#include "transport/rpc/call.h"
#include "transport/rpc/chunks.h"
#include "transport/rpc/client.h"

namespace leat {
namespace {

using namespace std::chrono_literals;

using Master = wire::Master::Client;

struct Caller {
  explicit Caller(const JobMaster& master, const std::string& secret = "") {
    auto started = RpcLoop::start();
    REQUIRE(started.ok());
    loop = std::move(*started);
    RpcClientOptions options;
    options.address = master.address();
    options.identity.role = RpcRole::client;
    options.identity.cluster = "leat";
    options.identity.secret = secret;
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

// An upload in steps that the test chooses.
class RawUpload {
 public:
  RawUpload(Caller& caller, uint64_t size, std::string_view told) : caller_(caller) {
    const Bytes bytes = of(told);
    const Status begun = caller.call([this, size, sha256 = sha256(bytes)](Master master) {
      auto request = master.uploadRequest();
      request.setSize(size);
      request.setSha256({sha256.data(), sha256.size()});
      return request.send().then([this](auto&& response) -> Status {
        const auto outcome = response.getOutcome();
        if (outcome.isError()) return read_status(outcome.getError());
        auto held = kj::heap<To>();
        held->client = outcome.getOk();
        id_ = caller_.loop->context().own(kj::mv(held));
        return {};
      });
    });
    REQUIRE(begun.to_string() == "ok");
  }
  static Bytes of(std::string_view text) {
    const auto* begin = reinterpret_cast<const std::byte*>(text.data());
    return {begin, begin + text.size()};
  }
  void write(uint64_t offset, std::string_view text) {
    const auto bytes = std::make_shared<const Blob>(of(text));
    const Status written = with([offset, bytes](wire::Upload::Client to) {
      return write_bytes(kj::mv(to), offset, bytes).then([] { return Status(); });
    });
    REQUIRE(written.to_string() == "ok");
  }
  std::string finish() {
    return with([](wire::Upload::Client to) { return finish_upload(kj::mv(to)); }).to_string();
  }
  void drop() {
    caller_.loop->run([this] { caller_.loop->context().release(id_); });
  }

 private:
  struct To final : LoopOwned {
    wire::Upload::Client client = nullptr;
  };
  template <typename F>
  Status with(F function) {
    return caller_.call([this, function](Master) {
      const auto found = caller_.loop->context().owned.find(id_);
      return function(static_cast<To&>(*found->second).client);
    });
  }

  Caller& caller_;
  uint64_t id_ = 0;
};

// A disk that is full after this number of bytes in a file.
class SmallDisk final : public ForwardingFiles {
 public:
  using ForwardingFiles::ForwardingFiles;
  Result<std::unique_ptr<WritableFile>> create(const std::string& path) override {
    LEAT_ASSIGN_OR_RETURN(auto file, files_.create(path));
    return std::unique_ptr<WritableFile>(std::make_unique<Small>(std::move(file)));
  }

 private:
  class Small final : public ForwardingFile {
   public:
    using ForwardingFile::ForwardingFile;
    Status append(std::span<const std::byte> bytes) override {
      if (bytes.size() > room_) return resource_exhausted("cannot write: No space left on device");
      room_ -= bytes.size();
      return file_->append(bytes);
    }

   private:
    size_t room_ = 10;
  };
};

// Holds capabilities that live on a loop until it stops.
template <typename Client>
struct HeldCapability final : LoopOwned {
  std::vector<Client> clients;
};

template <typename Request>
kj::Promise<Status> sent(Request request) {
  return request.send().then([](auto&& response) { return status_of(response.getOutcome()); });
}

template <typename Request>
kj::Promise<Status> sent(Request request, const std::string& id) {
  request.setId(id.c_str());
  return sent(kj::mv(request));
}

}  // namespace

TEST_CASE("a submit with too many or too large files is refused", "[cluster]") {
  JobMaster master;
  Caller caller(master);
  const Status many = caller.submit([](auto request) { request.initFiles(17); });
  CHECK(many.code() == Code::invalid_argument);
  CHECK_THAT(many.message(), Catch::Contains("at most 16 attached files, received 17"));
  const Status parts = caller.submit([](auto request) {
    for (auto file : request.initFiles(5000)) file.setName("resume/x");
  });
  CHECK(parts.code() == Code::invalid_argument);
  CHECK_THAT(parts.message(), Catch::Contains("and 4098 of a checkpoint, received 0 and 5000"));
  const Status digest =
      caller.submit([](auto request) { request.initFiles(1)[0].initBlob().initSha256(31); });
  CHECK(digest.code() == Code::invalid_argument);
  const Status empty = caller.submit([](auto) {});
  CHECK(empty.code() == Code::invalid_argument);  // an empty job file
  CHECK(master.jobs().jobs().empty());
  CHECK(caller.alive());
}

TEST_CASE("a file in a submit that should have been uploaded is refused", "[cluster]") {
  JobMaster master({.secret = "0123456789abcdef"});
  Caller caller(master, "0123456789abcdef");  // a peer with a secret may send larger messages
  const Status status = caller.submit([](auto request) {
    auto file = request.initFiles(1)[0];
    file.setName("graph");
    file.initBytes((1 << 20) + 1);
  });
  CHECK(status.to_string() ==
        "invalid_argument: attached file 'graph': expected at most 1.0 MiB in a file that is not "
        "uploaded, received 1.0 MiB");
  CHECK(caller.alive());
}

TEST_CASE("an id of no bytes or of too many is refused by every call", "[cluster]") {
  JobMaster master;
  Caller caller(master);
  for (const size_t size : {0, 257}) {
    const std::string id(size, 'a');
    const std::string refusal =
        cat("invalid_argument: job's id: expected 1 to 256 bytes, received ", size);
    const auto refused = [&](const char* what, auto function) {
      INFO(what);
      CHECK(caller.call(function).to_string() == refusal);
    };
    refused("job", [id](Master master) { return sent(master.jobRequest(), id); });
    refused("cancel", [id](Master master) { return sent(master.cancelRequest(), id); });
    refused("remove", [id](Master master) { return sent(master.removeRequest(), id); });
    refused("watch", [id](Master master) { return sent(master.watchRequest(), id); });
    refused("logs", [id](Master master) { return sent(master.logsRequest(), id); });
    refused("files", [id](Master master) { return sent(master.filesRequest(), id); });
    refused("fetch", [id](Master master) { return sent(master.fetchRequest(), id); });
    refused("drain", [id](Master master) {
      auto request = master.drainRequest();
      request.setWorker(id.c_str());
      return sent(kj::mv(request));
    });
  }
  CHECK(caller.alive());
}

TEST_CASE("a master without sessions opens none", "[cluster]") {
  JobMaster master;
  Caller caller(master);
  CHECK(caller.call([](Master master) { return sent(master.openSessionRequest()); }).to_string() ==
        "unimplemented: there are no sessions here");
}

TEST_CASE("an upload of any size that is claimed costs nothing", "[cluster]") {
  JobMaster master;
  Caller caller(master);
  CHECK(caller.upload(~uint64_t{0}).code() == Code::resource_exhausted);
  const Status large = caller.upload((uint64_t{16} << 30) + 1);
  CHECK(large.code() == Code::resource_exhausted);
  CHECK_THAT(large.message(), Catch::Contains("expected at most 16.0 GiB"));
  CHECK(caller.upload(10, 33).code() == Code::invalid_argument);
  CHECK(caller.upload(uint64_t{16} << 30).ok());
  CHECK(master.jobs().blobs() == 0);
  CHECK(caller.alive());
}

TEST_CASE("an upload is kept when its bytes are what was told, and else leaves nothing",
          "[cluster]") {
  JobMaster master;
  Caller caller(master);
  const auto blobs_become = [&](size_t count) {
    return eventually([&] { return master.jobs().blobs() == count; });
  };
  SECTION("as it was told") {
    RawUpload upload(caller, 12, "hello, world");
    upload.write(0, "hello");
    CHECK(blobs_become(1));  // an upload is in progress
    upload.write(5, ", world");
    CHECK(upload.finish() == "ok");
    CHECK(upload.finish() == "failed_precondition: upload was finished before");
    upload.drop();
    CHECK(master.jobs().blobs() == 1);
    RawUpload empty(caller, 0, "");
    CHECK(empty.finish() == "ok");
    CHECK(master.jobs().blobs() == 2);
    return;
  }
  SECTION("with other bytes") {
    RawUpload upload(caller, 5, "hello");
    upload.write(0, "jello");
    CHECK_THAT(upload.finish(),
               Catch::StartsWith("invalid_argument: upload: expected bytes of SHA-256 2cf24dba"));
  }
  SECTION("with fewer bytes") {
    RawUpload upload(caller, 5, "hello");
    upload.write(0, "hell");
    CHECK(upload.finish() == "invalid_argument: upload: expected 5 bytes, received 4");
  }
  SECTION("with more bytes") {
    RawUpload upload(caller, 5, "hello");
    upload.write(0, "hello");
    upload.write(5, "!");
    CHECK_THAT(upload.finish(), Catch::Contains("upload of 5 bytes: expected at most") &&
                                    Catch::Contains("at offset 5, received 1 at 5"));
  }
  SECTION("with bytes elsewhere") {
    RawUpload upload(caller, 5, "hello");
    upload.write(1, "ello");
    CHECK_THAT(upload.finish(), Catch::Contains("at offset 0, received 4 at 1"));
  }
  SECTION("not to its end") {
    RawUpload upload(caller, 5, "hello");
    upload.write(0, "hel");
    CHECK(blobs_become(1));
    upload.drop();
  }
  SECTION("over a connection that ends") {
    Caller other(master);
    RawUpload upload(other, 5, "hello");
    upload.write(0, "hel");
    CHECK(blobs_become(1));
    other.client.reset();
  }
  CHECK(blobs_become(0));
  CHECK(caller.alive());
}

TEST_CASE("an upload of which no byte comes any more is given up, one that goes on is not",
          "[cluster]") {
  JobMaster master({.upload_silence = 200ms * kSlowness});
  Caller caller(master);
  RawUpload silent(caller, 5, "hello"), other(caller, 100'000, "x");
  silent.write(0, "hel");
  uint64_t at = 0;
  CHECK(eventually([&] {
    other.write(at++, "x");
    return at > 10 && master.jobs().blobs() == 1;
  }));
  CHECK_THAT(silent.finish(), Catch::StartsWith("deadline_exceeded: upload of 5 bytes: no byte "
                                                "came for "));
  CHECK(other.finish() == cat("invalid_argument: upload: expected 100000 bytes, received ", at));
  CHECK(eventually([&] { return master.jobs().blobs() == 0; }));
}

TEST_CASE("a disk that is full refuses an upload by that name, and keeps nothing of it",
          "[cluster]") {
  SmallDisk disk(real_files());
  JobMaster master({.files = &disk});
  Caller caller(master);
  RawUpload upload(caller, 12, "hello, world");
  upload.write(0, "hello");
  upload.write(5, ", world");
  CHECK(upload.finish() == "resource_exhausted: cannot write: No space left on device");
  CHECK(eventually([&] { return master.jobs().blobs() == 0; }));
  RawUpload small(caller, 5, "hello");
  small.write(0, "hello");
  CHECK(small.finish() == "ok");
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
        auto held = kj::heap<HeldCapability<wire::Upload::Client>>();
        held->clients.push_back(outcome.getOk());
        caller.loop->context().own(kj::mv(held));
        return {};
      });
    });
  };
  for (int i = 0; i < 16; ++i) REQUIRE(hold().ok());
  CHECK(hold().code() == Code::resource_exhausted);
  const std::string id = master.jobs().add("cnn", JobState::succeeded);
  master.jobs().leave(id, "w", Bytes(3));
  const auto fetch = [id](Master master) {
    auto request = master.fetchRequest();
    request.setName("w");
    return sent(kj::mv(request), id);
  };
  CHECK(
      caller.call(fetch).to_string() ==
      "resource_exhausted: too many files on their way at a time; try again when some have ended");
  Caller other(master);
  CHECK(other.upload(10).ok());
  CHECK(other.call(fetch).ok());
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
