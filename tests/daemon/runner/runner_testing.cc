#include "tests/daemon/runner/runner_testing.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <future>
#include <mutex>
#include <optional>

#include "daemon/remote/wire_remote_host.h"
#include "daemon/runner/job_runner.h"
#include "daemon/runner/reporter.h"
#include "daemon/runner/wire_runner_service.h"
#include "daemon/wire/run_messages.h"
#include "daemon/worker/runner_boot.h"
#include "devices/base/text.h"
#include "ops/catalogue.h"
#include "scheduler/capnp/plan_file.h"
#include "tests/async_device.h"
#include "tests/catch.h"
#include "tests/daemon/child_process.h"
#include "tests/daemon/runner/wire_runner.h"
#include "tests/daemon/session_testing.h"
#include "transport/io/handover.h"
#include "transport/io/listener.h"
#include "transport/rpc/call.h"
#include "transport/rpc/chunks.h"
#include "transport/rpc/client.h"
#include "transport/rpc/server.h"
#include "transport/rpc/service.h"

namespace leat::testing {
namespace {

using namespace std::chrono_literals;

constexpr char kSecret[] = "a secret of this test";
constexpr auto kDeadline = 60s;
// The time for a call that may take as long as a connect().
constexpr auto kLong = 120s;
constexpr std::array<uint8_t, 16> kCluster = {1, 2, 3};

const Catalogue& standard() {
  static const Catalogue catalogue = standard_catalogue();
  return catalogue;
}

Deadline soon() { return std::chrono::steady_clock::now() + kDeadline; }

capnp::Data::Reader data_of(const Bytes& bytes) {
  return {reinterpret_cast<const kj::byte*>(bytes.data()), bytes.size()};
}
template <size_t N>
capnp::Data::Reader data_of(const std::array<uint8_t, N>& bytes) {
  return {bytes.data(), N};
}

// The state that all connections of the master share.
struct Table {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<uint32_t, std::string> unix_addresses;  // of the registered runners
  std::map<std::pair<uint32_t, uint64_t>, Heard> heard;
  std::vector<std::string> starved;
  std::string wrong;  // the first invalid call of a runner

  // Used on the loop.
  std::map<uint32_t, wire::Runner::Client> runners;
  std::map<uint32_t, std::shared_ptr<RemoteHost>> remotes;
  bool held = false;
  std::vector<kj::Own<kj::PromiseFulfiller<void>>> waiting;

  void note(const Status& status) {
    if (status.ok()) return;
    std::lock_guard lock(mutex);
    wrong = status.to_string();
  }
  void take(uint32_t task, wire::RunReport::Reader report) {
    std::lock_guard lock(mutex);
    Heard& run = heard[{task, report.getRun()}];
    const auto rows = report.getRows();
    if (rows.size() > 0 && report.getFirstRow() != run.rows.size())
      wrong = cat("first row ", report.getFirstRow(), ", not ", run.rows.size());
    if (rows.size() > 0 && report.getTurns() != run.rows.size() + rows.size())
      wrong = cat("turns ", report.getTurns(), " with ", rows.size(), " rows");
    if (report.getTurns() < run.turns) wrong = "turns went back";
    if (!run.failure.ok()) wrong = "a report after the failure";
    for (const auto row : rows) {
      const auto* begin = reinterpret_cast<const std::byte*>(row.begin());
      run.rows.emplace_back(begin, begin + row.size());
    }
    run.turns = report.getTurns();
    if (report.getFailure().getCode() != wire::Status::Code::OK)
      run.failure = read_status(report.getFailure());
    run.derived = report.getDerived();
    ++run.reports;
    changed.notify_all();
  }
};

class Registry final : public Service<wire::Registry> {
 public:
  explicit Registry(std::shared_ptr<Table> table) : table_(std::move(table)) {}

 protected:
  kj::Promise<void> registerRunner(RegisterRunnerContext context) override {
    const auto info = context.getParams().getInfo();
    task_ = info.getTask();
    table_->runners.insert_or_assign(task_, context.getParams().getRunner());
    std::lock_guard lock(table_->mutex);
    if (info.getToken().size() != 32 || info.getAssembly() != kAssembly ||
        info.getJob() != "tiny" ||
        info.getDeviceName() != cat("job:worker/task:", task_, "/cpu:0").c_str())
      table_->wrong = "a registration";
    table_->unix_addresses[task_] = info.getUnixAddress();
    table_->changed.notify_all();
    context.getResults().initOutcome().initOk();
    return kj::READY_NOW;
  }
  kj::Promise<void> report(ReportContext context) override {
    const auto reports = context.getParams().getReports();
    if (const auto remote = table_->remotes.find(task_); remote != table_->remotes.end()) {
      table_->note(take_reports(*remote->second, reports));
    } else {
      for (const auto report : reports) table_->take(task_, report);
    }
    context.getResults().initOutcome().initOk();
    if (!table_->held) return kj::READY_NOW;
    auto pair = kj::newPromiseAndFulfiller<void>();
    table_->waiting.push_back(kj::mv(pair.fulfiller));
    return kj::mv(pair.promise);
  }
  kj::Promise<void> inputStarved(InputStarvedContext context) override {
    const auto params = context.getParams();
    std::lock_guard lock(table_->mutex);
    if (params.getAssembly() != kAssembly || params.getWaitedMs() == 0)
      table_->wrong = "a starved input";
    table_->starved.push_back(cat("node-", task_, ": ", params.getHow().cStr()));
    context.getResults().initOutcome().initOk();
    return kj::READY_NOW;
  }

 private:
  const std::shared_ptr<Table> table_;
  uint32_t task_ = 0;
};

// Returns the boot message that a worker would send.
Bytes boot_message(const RunnerConfig& config) {
  RunnerOrder order;
  order.job = config.job;
  order.assembly = config.assembly.number;
  order.task = config.assembly.task;
  order.threads = static_cast<uint32_t>(config.threads);
  std::copy(config.token.begin(), config.token.end(), order.token.begin());
  order.key = config.assembly.key;
  order.credential = config.secret;
  RunnerSurroundings around;
  around.seal = config.seal;
  around.node = config.worker;
  around.master = config.master_address;
  around.cluster = config.cluster;
  around.memory_limit = config.memory_limit;
  around.datasets = config.datasets;
  around.transports = {"tcp"};
  if (config.may_share_memory) around.transports.push_back("shm");
  around.log_level = config.log_level;
  return runner_boot(order, around, config.directory, config.incarnation);
}

// A runner in this process, assembled as its own process assembles it.
struct InProcess {
  InProcess(RunnerConfig config, const RunnerTestOptions& test) {
    loop = must(RpcLoop::start({}, RpcLoop::kSpin));
    reporter.emplace(*loop, kDeadline);
    std::vector<std::unique_ptr<Device>> accelerators;
    if (test.accelerators) {
      AsyncDeviceOptions device;
      device.most_turns_given_way = 20;
      device.seed = config.incarnation;
      accelerators.push_back(std::make_unique<AsyncDevice>(device));
    }
    static const Catalogue with_accelerators = async_catalogue();
    runner = must(JobRunner::create(std::move(config),
                                    test.accelerators ? with_accelerators : standard(),
                                    reporter->news(), Logger(), std::move(accelerators)));
    runner->set_input_patience(test.input_patience);
    runner->on_starved([this](const StarvedInput& starved) { tell_of_starved(*master, starved); });
    runner->on_failed_link([this](const FailedLink& failed) {
      const std::lock_guard lock(mutex);
      failed_links.push_back(failed);
    });
    RpcClientOptions options;
    options.address = runner->config().master_address;
    options.identity.role = RpcRole::runner;
    options.identity.cluster = runner->config().cluster;
    options.identity.secret = runner->config().secret;
    master = must(RpcClient::connect(*loop, std::move(options)));
    reporter->start(*runner, *master, [](const Status&) {});
    must(register_runner(*master, *loop, *runner, kDeadline));
  }
  ~InProcess() { loop->stop(); }
  std::unique_ptr<RpcLoop> loop;
  std::optional<Reporter> reporter;
  std::unique_ptr<JobRunner> runner;
  std::unique_ptr<RpcClient> master;
  std::mutex mutex;
  std::vector<FailedLink> failed_links;
};

// A `leatd runner`, with the ends that its worker holds.
struct Process {
  explicit Process(const Bytes& boot) {
    auto sockets = must(socket_pair());
    socket = std::move(sockets.first);
    ChildProcess::Options options;
    options.fd_3 = sockets.second.get();
    child.emplace(LEATD_BINARY, std::vector<std::string>{"runner"}, options);
    must(send_all(socket.get(), boot, soon(), "booting a runner"));
  }
  Descriptor socket;
  std::optional<ChildProcess> child;
};

// One machine of the cluster: a runner, and the data port of its worker.
struct Node final : Listener::Gate {
  std::optional<Listener::Expected> expect(const LinkHello& hello) override {
    Identity identity = hello.identity;
    identity.destination_incarnation = config.incarnation;
    return Listener::Expected{identity, config.assembly.key};
  }
  void accepted(Connection connection) override { give(std::move(connection)); }

  void give(Connection connection) {
    if (process) {
      // A runner that has ended takes no connection, and its peers report that.
      static_cast<void>(leat::hand_over(process->socket.get(), std::move(connection), soon()).ok());
    } else {
      inside->runner->arrived(std::move(connection));
    }
  }

  TemporaryDirectory directory;
  RunnerConfig config;
  std::unique_ptr<InProcess> inside;
  std::unique_ptr<Process> process;
  std::unique_ptr<Listener> port;
};

}  // namespace

struct RunnerTestCluster::Inside {
  // The partition of a run that is on that runner: the one that was prepared there, or else its
  // own.
  RunPart part(uint32_t task, uint64_t run) {
    const std::lock_guard lock(parts_mutex);
    const auto found = parts.find({task, run});
    return {run, found == parts.end() ? task : found->second};
  }
  void note(uint32_t task, const RunPart& part) {
    const std::lock_guard lock(parts_mutex);
    parts[{task, part.run}] = part.partition;
  }

  explicit Inside(const RunnerTestOptions& options) {
    loop = must(RpcLoop::start({}, RpcLoop::kSpin));
    RpcServerOptions serving;
    serving.identity.role = RpcRole::master;
    serving.identity.cluster = "test";
    serving.identity.secret = kSecret;
    server = must(RpcServer::listen(*loop, serving, [table = table](const RpcPeer& peer) {
      if (peer.role != RpcRole::runner) return kj::Maybe<capnp::Capability::Client>();
      return kj::Maybe<capnp::Capability::Client>(
          wire::Registry::Client(kj::heap<Registry>(table)));
    }));
    for (int i = 0; i < options.runners; ++i) add(options, static_cast<uint32_t>(i));
    std::unique_lock lock(table->mutex);
    REQUIRE(table->changed.wait_until(lock, soon(), [&] {
      return table->unix_addresses.size() == static_cast<size_t>(options.runners);
    }));
  }

  ~Inside() {
    for (auto& node : nodes) node->port.reset();
    nodes.clear();
    (void)loop->run([&] {
      table->runners.clear();
      table->remotes.clear();
      table->waiting.clear();
    });
    server.reset();
    loop->stop();
    CHECK(table->wrong == "");
  }

  void add(const RunnerTestOptions& options, uint32_t task) {
    auto node = std::make_unique<Node>();
    RunnerConfig& config = node->config;
    config.job = "tiny";
    config.assembly.number = kAssembly;
    config.assembly.task = task;
    config.threads = options.threads;
    config.token.assign(32, 5);
    config.assembly.key.fill(9);
    config.incarnation = 1000 + task;
    config.worker = cat("node-", task);
    config.master_address = server->address();
    config.cluster = "test";
    config.secret = runner_credential(kSecret, config.job);
    config.seal = options.seal;
    config.directory = node->directory.path();
    config.datasets = options.datasets;
    config.may_share_memory = options.may_share_memory;
    config.gpu_wires = options.gpu_wires;
    config.memory_limit = options.memory_limit;
    config.log_level = "off";
    Listener::Options listening;
    listening.seal = options.seal;
    node->port = must(Listener::open(reactor, "127.0.0.1:0", *node, listening));
    if (options.processes) {
      node->process = std::make_unique<Process>(boot_message(config));
    } else {
      node->inside = std::make_unique<InProcess>(config, options);
    }
    nodes.push_back(std::move(node));
  }

  // `function` takes the runner's capability. `what` is for messages.
  template <typename F>
  auto ask(uint32_t task, const char* what, F function) {
    return leat::call(
        *loop,
        [this, task, function = std::move(function)]() mutable {
          return function(table->runners.at(task));
        },
        kLong, what);
  }
  template <typename Request>
  static kj::Promise<Status> sent(Request request) {
    return request.send().then([](auto&& response) { return status_of(response.getOutcome()); });
  }
  template <typename Request>
  static kj::Promise<Status> sent(Request request, std::shared_ptr<const Blob> blob) {
    return request.send().then([blob](auto&& response) -> kj::Promise<Status> {
      const auto outcome = response.getOutcome();
      if (Status status = status_of(outcome); !status.ok()) return status;
      return upload(outcome.getOk(), blob);
    });
  }

  Reactor reactor;
  std::shared_ptr<Table> table = std::make_shared<Table>();
  std::unique_ptr<RpcLoop> loop;
  std::unique_ptr<RpcServer> server;
  std::vector<std::unique_ptr<Node>> nodes;
  std::mutex parts_mutex;
  std::map<std::pair<uint32_t, uint64_t>, uint32_t> parts;
};

RunnerTestCluster::RunnerTestCluster(const RunnerTestOptions& options)
    : inside_(std::make_unique<Inside>(options)) {}
RunnerTestCluster::~RunnerTestCluster() = default;

wire::Runner::Client WireRunner::of(RunnerTestCluster& cluster, uint32_t task) {
  return cluster.inside_->table->runners.at(task);
}

RpcLoop& RunnerTestCluster::loop() { return *inside_->loop; }

std::shared_ptr<RemoteHost> RunnerTestCluster::remote(uint32_t task) {
  const Endpoint at = endpoint(task);
  RunnerFacts facts;
  facts.node = at.node;
  facts.job = config(task).job;
  facts.assembly = kAssembly;
  facts.task = task;
  facts.incarnation = at.incarnation;
  facts.device_name = cat("job:worker/task:", task, "/cpu:0");
  facts.memory_bytes = uint64_t{1} << 32;
  facts.threads = static_cast<uint32_t>(config(task).threads);
  facts.data_address = at.data_address;
  facts.machine = at.machine;
  facts.unix_address = at.unix_address;
  if (auto& inside = inside_->nodes[task]->inside)
    facts.accelerators = inside->runner->accelerators();
  std::shared_ptr<RemoteHost> remote;
  REQUIRE(loop().run([&] {
    remote = make_remote_host(loop(), facts, inside_->table->runners.at(task));
    inside_->table->remotes[task] = remote;
  }));
  return remote;
}

Status RunnerTestCluster::prepare(uint32_t task, uint64_t run, uint32_t partition,
                                  const Bytes& plan) {
  const auto blob = std::make_shared<const Blob>(plan);
  inside_->note(task, {run, partition});
  return inside_->ask(task, "prepare", [run, partition, blob](wire::Runner::Client runner) {
    auto request = runner.prepareRequest();
    request.setRun(run);
    request.setPartition(partition);
    request.setPlanSize(blob->size());
    request.setPlanSha256(data_of(sha256(*blob)));
    return Inside::sent(kj::mv(request), blob);
  });
}

Status RunnerTestCluster::connect(uint32_t task, uint64_t run, const RunSetup& setup) {
  return inside_->ask(task, "connect",
                      [part = inside_->part(task, run), setup](wire::Runner::Client runner) {
                        auto request = runner.connectRequest();
                        request.setRun(part.run);
                        request.setPartition(part.partition);
                        write_setup(setup, request.initSetup());
                        return Inside::sent(kj::mv(request));
                      });
}

Status RunnerTestCluster::extend(uint32_t task, uint64_t run, uint64_t limit,
                                 const std::vector<std::pair<uint32_t, Bytes>>& feeds) {
  return inside_->ask(task, "extend",
                      [part = inside_->part(task, run), limit, feeds](wire::Runner::Client runner) {
                        auto request = runner.extendRequest();
                        request.setRun(part.run);
                        request.setPartition(part.partition);
                        request.setLimit(limit);
                        auto out = request.initFeeds(static_cast<unsigned>(feeds.size()));
                        for (unsigned i = 0; i < out.size(); ++i) {
                          out[i].setIndex(feeds[i].first);
                          out[i].setValue(data_of(feeds[i].second));
                        }
                        return Inside::sent(kj::mv(request));
                      });
}

Status RunnerTestCluster::feed(uint32_t task, uint64_t run, uint32_t index, const Bytes& value) {
  const auto blob = std::make_shared<const Blob>(value);
  return inside_->ask(task, "feed",
                      [part = inside_->part(task, run), index, blob](wire::Runner::Client runner) {
                        auto request = runner.feedRequest();
                        request.setRun(part.run);
                        request.setPartition(part.partition);
                        request.setIndex(index);
                        request.setSize(blob->size());
                        request.setSha256(data_of(sha256(*blob)));
                        return Inside::sent(kj::mv(request), blob);
                      });
}

Status RunnerTestCluster::renumber(uint32_t task, uint64_t run, uint64_t step) {
  return inside_->ask(task, "renumber",
                      [part = inside_->part(task, run), step](wire::Runner::Client runner) {
                        auto request = runner.renumberRequest();
                        request.setRun(part.run);
                        request.setPartition(part.partition);
                        request.setStep(step);
                        return Inside::sent(kj::mv(request));
                      });
}

Status RunnerTestCluster::abort(uint32_t task, uint64_t run, const Status& cause) {
  return inside_->ask(task, "abort",
                      [part = inside_->part(task, run), cause](wire::Runner::Client runner) {
                        auto request = runner.abortRequest();
                        request.setRun(part.run);
                        request.setPartition(part.partition);
                        write_status(cause, request.initCause());
                        return Inside::sent(kj::mv(request));
                      });
}

Status RunnerTestCluster::release(uint32_t task, uint64_t run) {
  return inside_->ask(task, "release",
                      [part = inside_->part(task, run)](wire::Runner::Client runner) {
                        auto request = runner.releaseRequest();
                        request.setRun(part.run);
                        request.setPartition(part.partition);
                        return Inside::sent(kj::mv(request));
                      });
}

Status RunnerTestCluster::advance(uint32_t task, RunnerAssembly to) {
  to.task = task;
  const Status status = inside_->ask(task, "advance", [to](wire::Runner::Client runner) {
    auto request = runner.advanceRequest();
    request.setAssembly(to.number);
    request.setKey(data_of(to.key));
    request.setTask(to.task);
    return Inside::sent(kj::mv(request));
  });
  if (status.ok()) inside_->nodes[task]->config.assembly = to;
  return status;
}

Result<uint64_t> RunnerTestCluster::turns(uint32_t task, uint64_t run) {
  return inside_->ask(task, "describe",
                      [part = inside_->part(task, run)](wire::Runner::Client runner) {
                        auto request = runner.describeRequest();
                        request.setRun(part.run);
                        request.setPartition(part.partition);
                        return request.send().then([](auto&& response) -> Result<uint64_t> {
                          const auto outcome = response.getOutcome();
                          if (Status status = status_of(outcome); !status.ok()) return status;
                          return outcome.getOk().getTurns();
                        });
                      });
}

Result<Bytes> RunnerTestCluster::read_variables(uint32_t task) {
  return inside_->ask(task, "readVariables", [](wire::Runner::Client runner) {
    return runner.readVariablesRequest().send().then(
        [](auto&& response) -> kj::Promise<Result<Blob>> {
          const auto outcome = response.getOutcome();
          if (Status status = status_of(outcome); !status.ok()) return Result<Blob>(status);
          BlobInfo info{.size = outcome.getOk().getSize(), .sha256 = {}};
          info.sha256 = read_digest(outcome.getOk().getSha256()).value();
          return download(outcome.getOk().getContent(), info, 1 << 20);
        });
  });
}

Status RunnerTestCluster::write_variables(uint32_t task, const Bytes& file, Restore what) {
  const auto blob = std::make_shared<const Blob>(file);
  return inside_->ask(task, "writeVariables", [blob, what](wire::Runner::Client runner) {
    auto request = runner.writeVariablesRequest();
    request.setSize(blob->size());
    request.setSha256(data_of(sha256(*blob)));
    request.setRestore(static_cast<wire::Restore>(what));
    return Inside::sent(kj::mv(request), blob);
  });
}

Result<DatasetReport> RunnerTestCluster::inspect(uint32_t task, const DatasetFiles& files,
                                                 int64_t classes) {
  return inside_->ask(task, "inspectDataset", [files, classes](wire::Runner::Client runner) {
    auto request = runner.inspectDatasetRequest();
    write_dataset_files(files, request.initFiles());
    write_class_check({"labels", classes, {}}, request.initCheck());
    return request.send().then([](auto&& response) -> Result<DatasetReport> {
      const auto outcome = response.getOutcome();
      if (Status status = status_of(outcome); !status.ok()) return status;
      return read_dataset(outcome.getOk());
    });
  });
}

Status RunnerTestCluster::prepare_all(uint64_t run, const Plan& plan) {
  for (uint32_t p = 0; p < plan.partitions.size(); ++p) {
    LEAT_ASSIGN_OR_RETURN(const EncodedPlan encoded, encode_plan_for(plan, p));
    LEAT_RETURN_IF_ERROR(prepare(p, run, p, pack_plan(encoded)));
  }
  return {};
}

// Each runner waits for the others, so all are asked at once.
Status RunnerTestCluster::connect_all(uint64_t run, const RunSetup& setup) {
  std::vector<std::future<Status>> asked;
  for (uint32_t p = 0; p < setup.peers.size(); ++p)
    asked.push_back(std::async(std::launch::async, [=, this] { return connect(p, run, setup); }));
  Status first;
  for (auto& answer : asked) {
    const Status status = answer.get();
    if (first.ok()) first = status;
  }
  return first;
}

void RunnerTestCluster::extend_all(uint64_t run, uint64_t limit) {
  for (uint32_t t = 0; t < inside_->nodes.size(); ++t) must(extend(t, run, limit));
}

void RunnerTestCluster::release_all(uint64_t run) {
  for (uint32_t t = 0; t < inside_->nodes.size(); ++t) must(release(t, run));
}

RunSetup RunnerTestCluster::setup(const Plan& plan, const std::string& transport) const {
  RunSetup setup;
  setup.options.name = plan.name;
  setup.options.seed = 11;
  setup.cluster = kCluster;
  setup.assembly = kAssembly;
  setup.plan = sha256(must(encode_plan(plan)).message);
  setup.transport = transport;
  for (uint32_t p = 0; p < plan.partitions.size(); ++p) setup.peers.push_back(endpoint(p));
  return setup;
}

std::vector<std::string> RunnerTestCluster::starved() const {
  std::lock_guard lock(inside_->table->mutex);
  return inside_->table->starved;
}

std::vector<FailedLink> RunnerTestCluster::failed_links(uint32_t task) const {
  InProcess& runner = *inside_->nodes[task]->inside;
  const std::lock_guard lock(runner.mutex);
  return runner.failed_links;
}

Heard RunnerTestCluster::heard(uint32_t task, uint64_t run) const {
  std::lock_guard lock(inside_->table->mutex);
  return inside_->table->heard[{task, run}];
}

Heard RunnerTestCluster::await(uint32_t task, uint64_t run, uint64_t turns) {
  Table& table = *inside_->table;
  std::unique_lock lock(table.mutex);
  const bool came = table.changed.wait_until(lock, soon(), [&] {
    const Heard& heard = table.heard[{task, run}];
    return heard.turns >= turns || !heard.failure.ok();
  });
  const Heard heard = table.heard[{task, run}];
  INFO("task " << task << " run " << run << " is at turn " << heard.turns);
  REQUIRE(came);
  return heard;
}

void RunnerTestCluster::hold_reports(bool held) {
  REQUIRE(inside_->loop->run([&] {
    Table& table = *inside_->table;
    table.held = held;
    for (auto& waiting : table.waiting) waiting->fulfill();
    table.waiting.clear();
  }));
}

Endpoint RunnerTestCluster::endpoint(uint32_t task) const {
  const Node& node = *inside_->nodes[task];
  Endpoint endpoint;
  endpoint.task = task;
  endpoint.node = node.config.worker;
  endpoint.incarnation = node.config.incarnation;
  endpoint.data_address = node.port->address();
  endpoint.machine = "this one";
  std::lock_guard lock(inside_->table->mutex);
  endpoint.unix_address = inside_->table->unix_addresses[task];
  return endpoint;
}

const RunnerConfig& RunnerTestCluster::config(uint32_t task) const {
  return inside_->nodes[task]->config;
}

void RunnerTestCluster::hand_over(uint32_t task, Connection connection) {
  inside_->nodes[task]->give(std::move(connection));
}

void RunnerTestCluster::signal(uint32_t task, int number) {
  inside_->nodes[task]->process->child->signal(number);
}
std::string RunnerTestCluster::limits_of(uint32_t task) {
  return contents_of(cat("/proc/", inside_->nodes[task]->process->child->pid(), "/limits"));
}
void RunnerTestCluster::close_worker(uint32_t task) {
  inside_->nodes[task]->process->socket = Descriptor();
}
void RunnerTestCluster::close_master() {
  (void)inside_->loop->run([&] { inside_->table->runners.clear(); });
  inside_->server.reset();
}
int RunnerTestCluster::exit_code(uint32_t task) {
  const auto code = inside_->nodes[task]->process->child->wait(30s);
  REQUIRE(code.has_value());
  return *code;
}

int exit_code_of_runner(const Bytes& boot) {
  Process process(boot);
  const auto code = process.child->wait(30s);
  REQUIRE(code.has_value());
  return *code;
}

RunnerPulse RunnerTestCluster::next_pulse(uint32_t task, Deadline deadline) {
  const int socket = inside_->nodes[task]->process->socket.get();
  std::array<std::byte, kPulseBytes> bytes{};
  must(receive_all(socket, bytes, deadline, "a pulse"));
  const auto pulse = read_pulse(bytes);
  REQUIRE(pulse.has_value());
  return *pulse;
}

std::pair<uint64_t, bool> RunnerTestCluster::await_pulse(uint32_t task, uint64_t turns) {
  for (const Deadline deadline = soon();;) {
    const RunnerPulse pulse = next_pulse(task, deadline);
    if (pulse.turns >= turns) return {pulse.turns, pulse.activity != RunnerActivity::idle};
  }
}

void RunnerTestCluster::await_waiting(uint32_t task) {
  const Deadline deadline = soon();
  while (next_pulse(task, deadline).activity != RunnerActivity::waits_for_peers) {
  }
}

}  // namespace leat::testing
