#include "tests/daemon/master/fake_worker.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "daemon/wire/cluster.capnp.h"
#include "daemon/wire/views.h"
#include "devices/base/text.h"
#include "tests/catch.h"
#include "transport/rpc/call.h"
#include "transport/rpc/client.h"
#include "transport/rpc/service.h"

namespace leat::testing {
namespace {

std::string bytes_of(capnp::Data::Reader data) { return {data.asChars().begin(), data.size()}; }
kj::ArrayPtr<const kj::byte> data_of(const std::string& bytes) {
  return kj::arrayPtr(reinterpret_cast<const kj::byte*>(bytes.data()), bytes.size());
}

std::unique_ptr<RpcLoop> start_loop() {
  auto loop = RpcLoop::start();
  REQUIRE(loop.ok());
  return std::move(*loop);
}

std::unique_ptr<RpcClient> connect(RpcLoop& loop, const std::string& address, RpcRole role,
                                   std::function<void(const Status&)> on_lost = nullptr,
                                   const std::string& secret = "") {
  RpcClientOptions options;
  options.identity.secret = secret;
  options.address = address;
  options.identity.role = role;
  options.identity.cluster = "test";
  options.on_lost = std::move(on_lost);
  auto client = RpcClient::connect(loop, std::move(options));
  INFO(client.status());
  REQUIRE(client.ok());
  return std::move(*client);
}

}  // namespace

// Runners -----------------------------------------------------------------------------------------

struct FakeRunner::Inside {
  class Service final : public leat::Service<wire::Runner> {
   public:
    explicit Service(Inside& inside) : inside_(inside) {}

   protected:
    kj::Promise<void> advance(AdvanceContext context) override {
      const std::lock_guard lock(inside_.mutex);
      inside_.advanced.push_back(context.getParams().getAssembly());
      if (inside_.refuses) return kj::NEVER_DONE;
      answer(Status(), context.getResults().initOutcome());
      return kj::READY_NOW;
    }
    kj::Promise<void> inspectDataset(InspectDatasetContext) override { return never(); }
    kj::Promise<void> prepare(PrepareContext) override { return never(); }

   private:
    kj::Promise<void> never() {
      inside_.called = true;
      return kj::NEVER_DONE;
    }
    Inside& inside_;
  };

  std::atomic<bool> called{false};
  std::mutex mutex;
  std::vector<uint64_t> advanced;
  bool refuses = false;
  Status registered;
  std::unique_ptr<RpcLoop> loop = start_loop();
  std::unique_ptr<RpcClient> client;
};

FakeRunner::FakeRunner(std::unique_ptr<Inside> inside) : inside_(std::move(inside)) {}
FakeRunner::~FakeRunner() = default;

std::unique_ptr<FakeRunner> FakeRunner::connect(const std::string& master, const Order& order,
                                                const std::string& token) {
  auto inside = std::make_unique<Inside>();
  inside->client = testing::connect(*inside->loop, master, RpcRole::runner);
  std::unique_ptr<FakeRunner> runner(new FakeRunner(std::move(inside)));
  runner->inside_->registered = runner->registers(order, token);
  return runner;
}

Status FakeRunner::registers(const Order& order, const std::string& token) {
  return inside_->client->call<wire::Registry>(
      "registerRunner", 30s, [&, raw = inside_.get()](wire::Registry::Client registry) {
        auto request = registry.registerRunnerRequest();
        auto info = request.initInfo();
        info.setJob(order.job);
        info.setAssembly(order.assembly);
        info.setTask(order.task);
        info.setToken(data_of(token.empty() ? order.token : token));
        info.setIncarnation(order.assembly);
        info.setDeviceName(cat("job:worker/task:", order.task, "/cpu:0"));
        info.setMemoryBytes(uint64_t{1} << 30);
        info.setThreads(1);
        request.setRunner(kj::heap<Inside::Service>(*raw));
        return request.send().then(
            [](auto&& response) -> Status { return status_of(response.getOutcome()); });
      });
}

Status FakeRunner::registered() const { return inside_->registered; }
bool FakeRunner::called() const { return inside_->called; }

std::vector<uint64_t> FakeRunner::advanced() const {
  const std::lock_guard lock(inside_->mutex);
  return inside_->advanced;
}

void FakeRunner::refuse_to_advance() {
  const std::lock_guard lock(inside_->mutex);
  inside_->refuses = true;
}

// Workers -----------------------------------------------------------------------------------------

struct FakeWorker::Inside {
  class Service final : public leat::Service<wire::Worker> {
   public:
    explicit Service(Inside& inside) : inside_(inside) {}

   protected:
    kj::Promise<void> start(StartContext context) override {
      const auto spec = context.getParams().getSpec();
      const std::lock_guard lock(inside_.mutex);
      inside_.started.push_back({to_string(spec.getJob()), spec.getAssembly(), spec.getTask(),
                                 bytes_of(spec.getToken()), bytes_of(spec.getKey())});
      answer(inside_.start_answer, context.getResults().initOutcome());
      return kj::READY_NOW;
    }
    kj::Promise<void> advance(AdvanceContext context) override {
      const auto spec = context.getParams().getSpec();
      const std::lock_guard lock(inside_.mutex);
      inside_.advanced.push_back(cat(to_string(spec.getJob()), "/", spec.getAssembly()));
      answer(Status(), context.getResults().initOutcome());
      return kj::READY_NOW;
    }
    kj::Promise<void> stop(StopContext context) override {
      const auto params = context.getParams();
      const std::lock_guard lock(inside_.mutex);
      inside_.stopped.push_back(cat(to_string(params.getJob()), "/", params.getAssembly()));
      if (inside_.ignores_stops) return kj::NEVER_DONE;
      answer(Status(), context.getResults().initOutcome());
      return kj::READY_NOW;
    }

   private:
    Inside& inside_;
  };

  void beat_on();
  Status beat(RpcClient& to, uint64_t sequence);

  std::string name;
  uint64_t incarnation = 0;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Order> started;
  std::vector<std::string> stopped, advanced;
  Status start_answer, registered, heart;
  std::string cluster_id, heart_address;
  bool ignores_stops = false, lost = false, silent = false;
  std::unique_ptr<RpcLoop> loop = start_loop();
  std::unique_ptr<RpcClient> client;
  std::unique_ptr<RpcLoop> heart_loop = start_loop();
  std::unique_ptr<RpcClient> hearts;
  std::thread beating;
};

FakeWorker::FakeWorker(const std::string& master, const std::string& name, uint64_t incarnation,
                       bool beats, const Claim& claim, const std::string& secret)
    : inside_(std::make_unique<Inside>()) {
  Inside& in = *inside_;
  in.name = name;
  in.incarnation = incarnation;
  in.client = connect(
      *in.loop, master, RpcRole::worker,
      [&in](const Status&) {
        const std::lock_guard lock(in.mutex);
        in.lost = true;
      },
      secret);
  in.registered = in.client->call<wire::Registry>("register", 30s, [&](wire::Registry::Client to) {
    auto request = to.registerWorkerRequest();
    auto info = request.initInfo();
    info.setName(name);
    info.setIncarnation(incarnation);
    info.setDataAddress("127.0.0.1:1");
    info.setMachine("here");
    auto devices = info.initDevices(1 + claim.gpus);
    for (uint32_t i = 0; i < devices.size(); ++i) {
      devices[i].setKind(i == 0 ? "cpu" : "gpu");
      devices[i].setName(i == 0 ? "cpu:0" : cat("gpu:", i - 1));
      devices[i].setMemoryBytes(i == 0 ? claim.memory : claim.gpu_memory);
      devices[i].setThreads(i == 0 ? claim.cores : 0);
    }
    info.initDatasets(1).set(0, "digits");
    request.setWorker(kj::heap<Inside::Service>(in));
    return request.send().then([&in](auto&& response) -> Status {
      const auto outcome = response.getOutcome();
      if (const Status status = status_of(outcome); !status.ok()) return status;
      in.cluster_id = to_string(outcome.getOk().getClusterId());
      in.heart_address = to_string(outcome.getOk().getHeartAddress());
      return {};
    });
  });
  if (!in.registered.ok() || !beats) return;
  in.heart_address = master.substr(0, master.rfind(':')) + in.heart_address;
  in.hearts = connect(*in.heart_loop, in.heart_address, RpcRole::worker, nullptr, secret);
  in.beating = std::thread([&in] { in.beat_on(); });
}

FakeWorker::~FakeWorker() {
  stop_beating();
  inside_->client.reset();
  inside_->loop->stop();
}

void FakeWorker::Inside::beat_on() {
  for (uint64_t sequence = 1;; ++sequence) {
    Status answered = beat(*hearts, sequence);
    std::unique_lock lock(mutex);
    heart = std::move(answered);
    if (changed.wait_for(lock, 25ms, [&] { return silent; })) return;
  }
}

Status FakeWorker::Inside::beat(RpcClient& to, uint64_t sequence) {
  return to.call<wire::Heart>("beat", 30s, [&](wire::Heart::Client hearts) {
    auto request = hearts.beatRequest();
    request.setName(name);
    request.setIncarnation(incarnation);
    request.setSequence(sequence);
    return request.send().then(
        [](auto&& response) -> Status { return status_of(response.getOutcome()); });
  });
}

void FakeWorker::stop_beating() {
  {
    const std::lock_guard lock(inside_->mutex);
    inside_->silent = true;
    inside_->changed.notify_all();
  }
  if (inside_->beating.joinable()) inside_->beating.join();
}

Status FakeWorker::registered() const { return inside_->registered; }
std::string FakeWorker::cluster_id() const { return inside_->cluster_id; }

std::vector<Order> FakeWorker::started() const {
  const std::lock_guard lock(inside_->mutex);
  return inside_->started;
}

std::vector<std::string> FakeWorker::stopped() const {
  const std::lock_guard lock(inside_->mutex);
  return inside_->stopped;
}

std::vector<std::string> FakeWorker::advanced() const {
  const std::lock_guard lock(inside_->mutex);
  return inside_->advanced;
}

Order FakeWorker::order(size_t number) const {
  REQUIRE(eventually([&] { return started().size() > number; }));
  return started()[number];
}

bool FakeWorker::lost() const {
  const std::lock_guard lock(inside_->mutex);
  return inside_->lost;
}

Status FakeWorker::heart() const {
  const std::lock_guard lock(inside_->mutex);
  return inside_->heart;
}

void FakeWorker::refuse_to_start(const Status& status) {
  const std::lock_guard lock(inside_->mutex);
  inside_->start_answer = status;
}

void FakeWorker::ignore_stops() {
  const std::lock_guard lock(inside_->mutex);
  inside_->ignores_stops = true;
}

Status FakeWorker::exited(const Order& order, const std::string& how) {
  return inside_->client->call<wire::Registry>("exited", 30s, [&](wire::Registry::Client to) {
    auto request = to.runnerExitedRequest();
    request.setJob(order.job);
    request.setAssembly(order.assembly);
    request.setHow(how);
    return request.send().then(
        [](auto&& response) -> Status { return status_of(response.getOutcome()); });
  });
}

Status FakeWorker::log(const std::string& job, const std::vector<std::string>& lines) {
  return inside_->client->call<wire::Registry>("log", 30s, [&](wire::Registry::Client to) {
    auto request = to.logRequest();
    request.setJob(job);
    request.setAssembly(1);
    auto out = request.initLines(static_cast<unsigned>(lines.size()));
    for (unsigned i = 0; i < lines.size(); ++i) out.set(i, lines[i]);
    return request.send().then(
        [](auto&& response) -> Status { return status_of(response.getOutcome()); });
  });
}

}  // namespace leat::testing
