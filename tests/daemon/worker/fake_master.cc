#include <kj/debug.h>

#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/daemon/worker/wire_fake_master.h"
#include "transport/rpc/service.h"

namespace leat {

using namespace std::chrono_literals;

class FakeRegistry final : public Service<wire::Registry> {
 public:
  explicit FakeRegistry(FakeMaster& master) : master_(master) {}

 protected:
  kj::Promise<void> registerWorker(RegisterWorkerContext context) override {
    const auto params = context.getParams();
    Status answered;
    std::string at_once;
    {
      const std::lock_guard lock(master_.mutex_);
      at_once = master_.at_once_;
      answered = master_.registration_answer_;
      master_.beats_ = 0;
    }
    auto outcome = context.getResults().initOutcome();
    if (!answered.ok()) {
      write_status(answered, outcome.initError());
      master_.note(cat("refused ", params.getInfo().getName().cStr()));
      return kj::READY_NOW;
    }
    master_.worker_ = params.getWorker();
    if (!at_once.empty()) {
      master_.started_ =
          master_.send_start(at_once, 1)
              .then([this](Status&& status) { master_.note(cat("at once: ", status.message())); })
              .eagerlyEvaluate([this](kj::Exception&& e) {
                master_.note(cat("at once: ", e.getDescription().cStr()));
              });
    }
    auto registered = outcome.initOk();
    registered.setClusterId("00112233445566778899aabbccddeeff");
    const std::string& heart = master_.heart_->address();
    registered.setHeartAddress(heart.substr(heart.rfind(':')));
    registered.setHeartbeatMs(20);
    const auto info = params.getInfo();
    master_.note(cat("registered ", info.getName().cStr(), " ", info.getIncarnation()));
    return kj::READY_NOW;
  }
  kj::Promise<void> runnerExited(RunnerExitedContext context) override {
    const auto params = context.getParams();
    master_.note(cat("exited ", params.getJob().cStr(), " ", params.getAssembly(), ": ",
                     params.getHow().cStr()));
    context.getResults().initOutcome().initOk();
    return kj::READY_NOW;
  }
  kj::Promise<void> log(LogContext context) override {
    const auto params = context.getParams();
    size_t bytes = 0;
    for (const auto line : params.getLines()) bytes += line.size() + 1;
    Status answered;
    {
      const std::lock_guard lock(master_.mutex_);
      answered = master_.log_answer_;
      master_.most_log_bytes_ = std::max(master_.most_log_bytes_, bytes);
    }
    if (!answered.ok()) {
      write_status(answered, context.getResults().initOutcome().initError());
      master_.note(cat("refused lines of ", params.getJob().cStr()));
      return kj::READY_NOW;
    }
    for (const auto line : params.getLines())
      master_.note(cat("said ", params.getJob().cStr(), ": ", line.cStr()));
    context.getResults().initOutcome().initOk();
    return kj::READY_NOW;
  }

 private:
  FakeMaster& master_;
};

class FakeHeart final : public Service<wire::Heart> {
 public:
  explicit FakeHeart(FakeMaster& master) : master_(master) {}

 protected:
  kj::Promise<void> beat(BeatContext context) override {
    Status status;
    {
      const std::lock_guard lock(master_.mutex_);
      ++master_.beats_;
      status = master_.beat_answer_;
    }
    master_.changed_.notify_all();
    answer(status, context.getResults().initOutcome());
    return kj::READY_NOW;
  }

 private:
  FakeMaster& master_;
};

namespace {

RpcIdentity master_identity() {
  RpcIdentity identity;
  identity.role = RpcRole::master;
  identity.cluster = "test";
  return identity;
}

}  // namespace

FakeMaster::FakeMaster() {
  auto loop = RpcLoop::start();
  REQUIRE(loop.ok());
  loop_ = std::move(*loop);
  listen();
}

void FakeMaster::listen() {
  RpcServerOptions options;
  options.identity = master_identity();
  auto heart = RpcServer::listen(*loop_, options, [this](const RpcPeer&) {
    return kj::Maybe<capnp::Capability::Client>(wire::Heart::Client(kj::heap<FakeHeart>(*this)));
  });
  REQUIRE(heart.ok());
  heart_ = std::move(*heart);
  options.address = bound_;
  auto server = RpcServer::listen(*loop_, options, [this](const RpcPeer&) {
    return kj::Maybe<capnp::Capability::Client>(
        wire::Registry::Client(kj::heap<FakeRegistry>(*this)));
  });
  REQUIRE(server.ok());
  server_ = std::move(*server);
  bound_ = server_->address();
}

FakeMaster::~FakeMaster() {
  (void)loop_->run([this] {
    started_ = kj::READY_NOW;
    worker_ = nullptr;
  });
  server_.reset();
  heart_.reset();
}

void FakeMaster::note(std::string event) {
  {
    const std::lock_guard lock(mutex_);
    events_.push_back(std::move(event));
  }
  changed_.notify_all();
}

std::string FakeMaster::await(const std::function<bool(const std::string&)>& is) {
  std::unique_lock lock(mutex_);
  std::string found;
  changed_.wait_for(lock, 60s, [&] {
    for (const std::string& event : events_) {
      if (is(event)) found = event;
    }
    return !found.empty();
  });
  return found;
}

std::string FakeMaster::await(const std::string& beginning) {
  return await([&](const std::string& event) { return event.starts_with(beginning); });
}

std::vector<std::string> FakeMaster::events() {
  const std::lock_guard lock(mutex_);
  return events_;
}

bool FakeMaster::await_beats(uint64_t beats) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, 60s, [&] { return beats_ >= beats; });
}

void FakeMaster::set_beat_answer(Status status) {
  const std::lock_guard lock(mutex_);
  beat_answer_ = std::move(status);
}

void FakeMaster::start_at_once(std::string job) {
  const std::lock_guard lock(mutex_);
  at_once_ = std::move(job);
}

void FakeMaster::set_log_answer(Status status) {
  const std::lock_guard lock(mutex_);
  log_answer_ = std::move(status);
}

size_t FakeMaster::most_log_bytes() {
  const std::lock_guard lock(mutex_);
  return most_log_bytes_;
}

void FakeMaster::set_registration_answer(Status status) {
  const std::lock_guard lock(mutex_);
  registration_answer_ = std::move(status);
}

kj::Promise<Status> FakeMaster::send_start(const std::string& job, uint64_t assembly) {
  auto request = KJ_ASSERT_NONNULL(worker_).startRequest();
  auto spec = request.initSpec();
  spec.setJob(job);
  spec.setAssembly(assembly);
  const std::vector<kj::byte> secret(32, 7);
  spec.setToken(kj::arrayPtr(secret.data(), 32));
  spec.setKey(kj::arrayPtr(secret.data(), 32));
  spec.setCredential(runner_credential(std::string(32, 's'), job).c_str());
  return request.send().then([](auto&& r) { return status_of(r.getOutcome()); });
}

Status FakeMaster::start(const std::string& job, uint64_t assembly) {
  return call(
      *loop_, [&] { return send_start(job, assembly); }, 60s, "Worker.start");
}

Status FakeMaster::advance(const std::string& job, uint64_t assembly) {
  return call(
      *loop_,
      [&]() -> kj::Promise<Status> {
        auto request = KJ_ASSERT_NONNULL(worker_).advanceRequest();
        auto spec = request.initSpec();
        spec.setJob(job);
        spec.setAssembly(assembly);
        const std::vector<kj::byte> secret(32, static_cast<kj::byte>(assembly));
        spec.setToken(kj::arrayPtr(secret.data(), 32));
        spec.setKey(kj::arrayPtr(secret.data(), 32));
        return request.send().then([](auto&& r) { return status_of(r.getOutcome()); });
      },
      60s, "Worker.advance");
}

Status FakeMaster::stop(const std::string& job, uint64_t assembly,
                        std::chrono::milliseconds grace) {
  return call(
      *loop_,
      [&]() -> kj::Promise<Status> {
        auto request = KJ_ASSERT_NONNULL(worker_).stopRequest();
        request.setJob(job);
        request.setAssembly(assembly);
        request.setGraceMs(static_cast<uint32_t>(grace.count()));
        return request.send().then([](auto&& r) { return status_of(r.getOutcome()); });
      },
      60s, "Worker.stop");
}

void FakeMaster::hang_up() {
  (void)loop_->run([this] { worker_ = nullptr; });
  server_.reset();
  heart_.reset();
  {
    const std::lock_guard lock(mutex_);
    events_.clear();
  }
  listen();
}

}  // namespace leat
