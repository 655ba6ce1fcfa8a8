// The quotas of users on a real cluster: uploads that run at the same time, and jobs that wait for
// the workers of their user.
#include "daemon/wire/views.h"
#include "devices/base/sha256.h"
#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/daemon/job_scene.h"
#include "tests/daemon/process_cluster.h"
#include "tests/daemon/small_client.h"
#include "tests/eventually.h"
#include "tests/must.h"
#include "tests/small_models.h"
#include "transport/rpc/call.h"
#include "transport/rpc/chunks.h"
#include "transport/rpc/client.h"

namespace leat {
namespace {

// A connection to the master with one upload, in steps that the test chooses.
class UploadingClient {
 public:
  UploadingClient(const std::string& master, const std::string& user, Bytes bytes)
      : bytes_(std::move(bytes)) {
    loop_ = must(RpcLoop::start());
    RpcClientOptions options;
    options.address = master;
    options.identity.role = RpcRole::client;
    options.identity.cluster = "leat";
    client_ = must(RpcClient::connect(*loop_, std::move(options)));
    must(call([&](wire::Master::Client to) {
      auto request = to.uploadRequest();
      const Sha256Digest digest = sha256(bytes_);
      request.setSize(bytes_.size());
      request.setSha256({digest.data(), digest.size()});
      request.setUser(user.c_str());
      return request.send().then([this](auto&& response) -> Status {
        const auto outcome = response.getOutcome();
        if (outcome.isError()) return read_status(outcome.getError());
        auto held = kj::heap<Held>();
        held->client = outcome.getOk();
        id_ = loop_->context().own(kj::mv(held));
        return {};
      });
    }));
  }

  // Sends bytes up to `end`, at most kMaxTransferBytes. They are on the master's disk when it
  // returns: a write is a stream, which answers when its window has room, unless it is called as
  // any other method is.
  void send(size_t end) {
    must(with([this, end](wire::Upload::Client to) {
      constexpr uint16_t kWrite = 0;  // the method's number in common.capnp
      auto request = to.typelessRequest(capnp::typeId<wire::Upload>(), kWrite, {});
      auto params = request.initAs<wire::Upload::WriteParams>();
      params.setOffset(sent_);
      params.setBytes(
          kj::arrayPtr(reinterpret_cast<const kj::byte*>(bytes_.data()) + sent_, end - sent_));
      return request.send().ignoreResult().then([] { return Status(); });
    }));
    sent_ = end;
  }
  Status finish() {
    return with([](wire::Upload::Client to) { return finish_upload(kj::mv(to)); });
  }
  Status upload() {
    send(bytes_.size());
    return finish();
  }

 private:
  struct Held : LoopOwned {
    wire::Upload::Client client = nullptr;
  };
  template <typename F>
  Status call(F function) {
    return client_->call<wire::Master>("Master", std::chrono::seconds(30), std::move(function));
  }
  template <typename F>
  Status with(F function) {
    return call([this, function](wire::Master::Client) {
      return function(static_cast<Held&>(*loop_->context().owned.find(id_)->second).client);
    });
  }

  const Bytes bytes_;
  size_t sent_ = 0;
  std::unique_ptr<RpcLoop> loop_;
  std::unique_ptr<RpcClient> client_;
  uint64_t id_ = 0;
};

Bytes bytes_of(char content, size_t size = 2000) {
  return Bytes(size, static_cast<std::byte>(content));
}

}  // namespace

TEST_CASE("two uploads at once to a real master do not pass a quota together", "[cluster]") {
  ProcessCluster cluster(
      {.workers = 0,
       .master = {"--set", "quotas.user_uploads=3KiB", "--set", "quotas.uploads=5KiB"}});
  const std::string master = cluster.master().ready().listen;
  auto first = std::make_unique<UploadingClient>(master, "ann", bytes_of('a'));
  UploadingClient second(master, "ann", bytes_of('b'));
  first->send(10);
  // Of the two, 20 bytes are on the disk.
  second.send(10);
  const Status refused = second.finish();
  CHECK(refused.code() == Code::resource_exhausted);
  CHECK(refused.message() ==
        "upload of 2.0 KiB: 'ann' may have 3.0 KiB of files together (quotas.user_uploads), and "
        "has 0 B, with 2.0 KiB under way");
  // Another user has room, until all files together have none.
  CHECK(UploadingClient(master, "bob", bytes_of('c')).upload().ok());
  const Status all = UploadingClient(master, "eve", bytes_of('d')).upload();
  CHECK_THAT(all.message(), Catch::Contains("5.0 KiB of all files together (quotas.uploads), "
                                            "2.0 KiB are there, and 2.0 KiB under way"));
  // A client that is gone gives its bytes back, and those of a file that arrived stay.
  first.reset();
  CHECK(eventually([&] { return UploadingClient(master, "ann", bytes_of('b')).upload().ok(); }));
  CHECK_FALSE(UploadingClient(master, "ann", bytes_of('a')).upload().ok());

  const std::string audit =
      run_leat(cluster.folder().path(), {"audit", cluster.folder() / "master"}).out;
  CHECK_THAT(audit, Catch::Contains("\"upload\"") && Catch::Contains("(quotas.user_uploads)") &&
                        Catch::Contains("(quotas.uploads)"));
}

TEST_CASE("a job on a real cluster waits for the quota of its user, and says so", "[cluster]") {
  JobScene scene(ProcessClusterOptions{
      .workers = 2, .master = {"--set", "quotas.workers=1", "--set", "quotas.jobs=2"}});
  const std::string first = scene.submit(scene.endless({"num_workers=1"}));
  scene.await_step(first, 1, 1);
  const std::string second = scene.submit(scene.endless({"num_workers=1"}));
  const std::string why =
      "waits for 1 worker: clients without a name may hold 1 worker together (quotas.workers), and "
      "holds 1";
  CHECK(must(scene.client().job(second)).condition.reason == why);
  const Finished told = scene.cluster().leat("why", {second});
  INFO(told.out << told.err);
  CHECK_THAT(told.out, Catch::Contains("The job waits for the quota of its user (" + why + ")"));
  // A third one is one too many, and one of two workers could never begin.
  const SmallJob small(kTinyCnn);
  const auto refuse = [&](const std::vector<std::string>& set) {
    return scene.client().submit(request_of(small, scene.endless(set))).status().message();
  };
  CHECK_THAT(refuse({"num_workers=1"}), Catch::Contains("(quotas.jobs), and there are 2"));
  scene.cancel(first);
  scene.await_step(second, 1, 1);
  scene.await_end(first);
  CHECK_THAT(refuse({"num_workers=2"}),
             Catch::Contains("may hold 1 worker together (quotas.workers), and it asks for 2"));
  scene.cancel(second);
  scene.await_end(second);
  const std::string audit =
      run_leat(scene.cluster().folder().path(), {"audit", scene.cluster().folder() / "master"}).out;
  CHECK_THAT(audit, Catch::Contains("and it asks for 2"));
}

}  // namespace leat
