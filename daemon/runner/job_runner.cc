#include "daemon/runner/job_runner.h"

#include <sys/stat.h>

#include <algorithm>

#include "devices/base/text.h"

namespace leat {
namespace {

// The threads of the data plane poll this long before they park: longer than a step without
// computation takes on many workers. If steps take longer, the threads learn it and park sooner.
constexpr std::chrono::microseconds kSpin{200};

// The number of compute threads; 0 in the configuration stands for all cores that this process may
// use.
int threads_of(const RunnerConfig& config) {
  return config.threads > 0 ? config.threads : cpu::usable_cores();
}

Arrivals::Options arrivals_of(const RunnerConfig& config, const Logger& log) {
  Arrivals::Options options;
  options.assembly = config.assembly;
  options.incarnation = config.incarnation;
  options.log = log;
  return options;
}

// The bytes that the job may use, by device: all of its memory, but on the CPU the worker's limit.
std::vector<uint64_t> limits_of(const RunnerConfig& config, DeviceHost& host) {
  std::vector<uint64_t> limits;
  for (size_t d = 0; d < host.devices(); ++d) limits.push_back(host.device(d).memory_bytes());
  if (config.memory_limit > 0) limits[0] = std::min(config.memory_limit, limits[0]);
  return limits;
}

}  // namespace

JobRunner::JobRunner(RunnerConfig config, const Catalogue& catalogue,
                     std::unique_ptr<shm::Waiter> waiter, TurnLog::News news, Logger log,
                     std::vector<std::unique_ptr<Device>> accelerators)
    : config_(std::move(config)),
      reactor_(kSpin),
      waiter_(std::move(waiter)),
      arrivals_(arrivals_of(config_, log)),
      host_(static_cast<int>(config_.assembly.task), threads_of(config_), std::move(accelerators)),
      memory_(limits_of(config_, host_)),
      parts_{config_, catalogue, host_,           {reactor_, *waiter_, arrivals_},
             memory_, binding_,  std::move(news), std::move(log)},
      job_strand_(control_.strand()),
      runs_(parts_, control_, job_strand_),
      data_(parts_, runs_, control_, job_strand_) {}

Result<std::unique_ptr<JobRunner>> JobRunner::create(
    RunnerConfig config, const Catalogue& catalogue, TurnLog::News news, Logger log,
    std::vector<std::unique_ptr<Device>> accelerators) {
  LEAT_ASSIGN_OR_RETURN(auto waiter, shm::Waiter::create(kSpin));
  std::unique_ptr<JobRunner> runner(new JobRunner(std::move(config), catalogue, std::move(waiter),
                                                  std::move(news), std::move(log),
                                                  std::move(accelerators)));
  // A runner that may not share memory opens no socket, so its peers learn no address for it.
  if (runner->config_.may_share_memory) runner->listen();
  return runner;
}

// A kind that is allowed and lacking is no error: values go through the host's memory then.
std::vector<WireKind> JobRunner::wires_of(Device& device) {
  std::vector<WireKind> wires;
  for (const WireKind kind : config_.gpu_wires) {
    const Status has = device.has_wires(kind);
    if (has.ok()) {
      wires.push_back(kind);
    } else {
      parts_.log.warning("has no wires of kind ", name_of(kind), ": ", has.message());
    }
  }
  return wires;
}

std::vector<RunnerDevice> JobRunner::accelerators() {
  std::vector<RunnerDevice> facts;
  for (size_t d = 1; d < host_.devices(); ++d) {
    Device& device = host_.device(d);
    facts.push_back({device.name(), std::string(device.kind()), device.memory_bytes(),
                     device.alignment(), device.description(), wires_of(device)});
  }
  return facts;
}

// Opens the socket to which peers on this machine bring their shared memory. If the path is too
// long for a socket, they use TCP.
void JobRunner::listen() {
  const std::string address = cat("unix:", config_.directory, "/peers");
  // The kernel lists sockets by the paths that they were bound to, for every process of the network
  // namespace: one that is relative to the working directory shows the way to no other job.
  const bool is_confined = config_.confinement.is_on;
  auto listener = Listener::open(reactor_, is_confined ? "unix:peers" : address, arrivals_,
                                 Listener::Options());
  if (!listener.ok())
    return parts_.log.warning("shares no memory with its peers: ", listener.status().message());
  // Its peers have other users. They know the path, and prove the key of the assembly.
  if (config_.confinement.user != 0) (void)::chmod("peers", 0666);
  listener_ = std::move(*listener);
  unix_address_ = address;
}

JobRunner::~JobRunner() {
  // First the runs are ended, so that no strand waits in one. When the strands have stopped, this
  // thread releases the runs that are left.
  stop(unavailable("the runner has ended"));
  control_.stop();
  data_.stop();
  for (const auto& run : runs_.runs()) run->release();
}

}  // namespace leat
