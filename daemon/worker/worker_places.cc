#include "daemon/worker/worker_places.h"

#include <filesystem>
#include <future>

#include "daemon/process/field_reader.h"
#include "daemon/process/leatd_exit.h"
#include "daemon/status/status_routes.h"
#include "daemon/worker/runner_metrics.h"
#include "devices/base/text.h"
#include "devices/cpu/cpu_device.h"

namespace leat {
namespace {

// The time for jobs to leave a worker that is about to end.
constexpr std::chrono::milliseconds kDrain{5'000};
// The time for a driver to answer: a GPU that no process uses may take seconds to begin.
constexpr std::chrono::seconds kLookAtGpus{20};

// The address with a port that is `more` higher; as it is if the system chooses the port, or if it
// has none.
std::string port_above(const std::string& address, size_t more) {
  const auto parts = split_host_port(address);
  if (!parts || parts->port == 0) return address;
  const size_t colon = address.rfind(':');
  return cat(address.substr(0, colon + 1), parts->port + more);
}

std::vector<Gpu> gpus_for(const WorkerConfig& config, const std::string& program,
                          const Logger& log) {
  if (!config.gpus) return {};
  auto gpus = find_gpus(program, kLookAtGpus);
  if (gpus.ok()) return std::move(*gpus);
  log.warning("offers no GPU: ", gpus.status().message());
  return {};
}

}  // namespace

std::vector<WorkerPlace> divide_machine(const WorkerConfig& config, const std::vector<Gpu>& gpus,
                                        int cores) {
  std::vector<WorkerPlace> places;
  for (const Gpu& gpu : gpus) {
    for (int64_t i = 0; i < config.runners_per_gpu; ++i) places.push_back({config, gpu});
  }
  if (places.empty()) places.push_back({config, {}});
  const auto count = static_cast<int64_t>(places.size());
  for (size_t i = 0; count > 1 && i < places.size(); ++i) {
    WorkerConfig& own = places[i].config;
    own.name = cat(config.name, ".", i);
    own.state_dir = cat(config.state_dir, "/", i);
    own.data = port_above(config.data, i);
    own.data_address = port_above(config.data_address, i);
    const int64_t threads = config.threads > 0 ? config.threads : cores;
    own.threads = std::max<int64_t>(1, threads / count);
    own.memory_limit = config.memory_limit / static_cast<uint64_t>(count);
  }
  return places;
}

Result<std::unique_ptr<WorkerPlaces>> WorkerPlaces::start(
    const WorkerConfig& config, const std::string& program, Logger log,
    const std::function<void()>& on_given_up) {
  std::unique_ptr<WorkerPlaces> daemon(new WorkerPlaces());
  const auto places = divide_machine(config, gpus_for(config, program, log), cpu::usable_cores());
  for (const WorkerPlace& place : places) {
    if (places.size() > 1) {
      std::error_code error;  // Worker::start() reports a folder that is not there
      std::filesystem::create_directories(config.state_dir, error);
    }
    const Logger own = places.size() > 1 ? log.named(place.config.name) : log;
    if (place.gpu)
      own.info("offers ", place.gpu->device.name, ": ", place.gpu->device.description, ", ",
               human_bytes(place.gpu->device.memory_bytes));
    LEAT_ASSIGN_OR_RETURN(auto worker,
                          Worker::start(place.config, program, own, on_given_up, place.gpu));
    daemon->workers_.push_back(std::move(worker));
  }
  LEAT_RETURN_IF_ERROR(daemon->open_http(config, log.named("http")));
  return daemon;
}

WorkerPlaces::~WorkerPlaces() {
  stop(std::chrono::milliseconds(0));
  http_.reset();  // before the workers that it tells of
}

Status WorkerPlaces::status() const {
  for (const auto& worker : workers_) LEAT_RETURN_IF_ERROR(worker->status());
  return {};
}

Status WorkerPlaces::gave_up() const {
  for (const auto& worker : workers_) LEAT_RETURN_IF_ERROR(worker->master().gave_up());
  return {};
}

size_t WorkerPlaces::runners() const {
  size_t count = 0;
  for (const auto& worker : workers_) count += worker->runners().size();
  return count;
}

bool WorkerPlaces::drain(std::chrono::milliseconds patience) {
  std::vector<std::future<bool>> drains;
  for (const auto& worker : workers_)
    drains.push_back(std::async(std::launch::async, [&] { return worker->drain(patience); }));
  bool all = true;
  for (auto& drained : drains) all = drained.get() && all;
  return all;
}

void WorkerPlaces::stop(std::chrono::milliseconds grace) {
  std::vector<std::future<void>> stops;
  for (const auto& worker : workers_)
    stops.push_back(std::async(std::launch::async, [&] { worker->stop(grace); }));
  for (auto& stopped : stops) stopped.get();
}

// Serves the daemon's own health: it is ready while its workers are members of the cluster.
Status WorkerPlaces::open_http(const WorkerConfig& config, Logger log) {
  if (config.http == "off") return {};
  HttpOptions options;
  options.policy.names = {config.name};
  options.policy.token = config.security.http_token;
  LEAT_ASSIGN_OR_RETURN(options.tls, open_tls(config.security, log));
  options.log = std::move(log);
  options.counters = std::make_shared<HttpCounters>();
  // The HTTP server calls this on the thread of the reactor.
  const auto metrics = [this, counters = options.counters] {
    uint64_t progress = 0;
    std::vector<RunnersOfWorker> runners_of;
    for (const auto& worker : workers_) {
      progress += worker->runners().pulse().progress;
      runners_of.push_back({worker->name(), worker->runners().works()});
    }
    std::vector<Metric> all = http_metrics(*counters);
    const auto add = [&all](std::string name, std::string help, MetricKind kind, double value) {
      all.push_back({std::move(name), std::move(help), kind, {{{}, value}}});
    };
    add("leat_worker_registered", "1 if the worker is a member of its cluster, else 0",
        MetricKind::gauge, status().ok() ? 1 : 0);
    add("leat_worker_places", "Runners that fit the machine: one, or those of its GPUs",
        MetricKind::gauge, static_cast<double>(workers_.size()));
    add("leat_worker_runners", "Jobs that have a runner here", MetricKind::gauge,
        static_cast<double>(runners()));
    add("leat_worker_steps_total", "Steps that its runners have done", MetricKind::counter,
        static_cast<double>(progress));
    for (Metric& each : runner_metrics(runners_of)) all.push_back(std::move(each));
    return all;
  };
  LEAT_ASSIGN_OR_RETURN(
      http_, HttpServer::open(reactor_, config.http,
                              health_routes([this] { return status(); }, metrics), options));
  return {};
}

Status run_worker(const WorkerConfig& config, Lifetime& lifetime, Logger log) {
  std::error_code error;
  const std::string program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return unavailable(cat("/proc/self/exe: ", error.message()));
  const auto give_up = [&lifetime] { lifetime.request_stop("its name is another worker's"); };
  LEAT_ASSIGN_OR_RETURN(const auto daemon, WorkerPlaces::start(config, program, log, give_up));
  std::vector<Registration> watched;
  std::vector<std::string> ports;
  for (const auto& worker : daemon->workers()) {
    RpcLoop& loop = worker->master().loop();
    watched.push_back(lifetime.watch(
        "rpc", [&loop](LifeSign heart) { (void)loop.post([heart] { heart.beat(); }); }));
    ports.push_back(worker->data_address());
  }
  const Registration dumped = lifetime.on_dump([&daemon] {
    return cat("member: ", daemon->status().ok() ? "yes" : daemon->status().message(),
               "; runners: ", daemon->runners());
  });
  lifetime.ready(cat(ports.size() > 1 ? "data ports " : "data port ", join(ports, ", "),
                     ", master ", config.master),
                 {.listen = "", .http = daemon->http_address(), .data = ports.front()});
  lifetime.wait_for_stop();
  // Another worker has the name. This one is not a member, so there is nothing to drain.
  if (const Status why = daemon->gave_up(); !why.ok()) {
    daemon->stop(std::chrono::milliseconds(0));
    lifetime.fail_with(kLeatdNameTaken);
    return why;
  }
  lifetime.stopping(cat("jobs to leave ", daemon->runners(), " runners"));
  if (!daemon->drain(kDrain))
    log.warning(daemon->runners(), " runners are left that jobs did not leave in ", kDrain.count(),
                " ms");
  lifetime.stopping(cat(daemon->runners(), " runners"));
  daemon->stop(config.runner.stop_deadline);
  return {};
}

}  // namespace leat
