#include "daemon/worker/worker.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/un.h>

#include <cerrno>
#include <filesystem>

#include "daemon/base/version.h"
#include "daemon/process/state_folder.h"
#include "daemon/worker/advertised_address.h"
#include "daemon/worker/machine.h"
#include "devices/base/files.h"
#include "devices/base/text.h"
#include "devices/cpu/cpu_device.h"
#include "ops/data/stores/store_files.h"

namespace leat {
namespace {

// The master has this time to answer that it knows of the drain.
constexpr std::chrono::milliseconds kTellMaster{1'000};
// A drain looks this often whether this worker is still a member.
constexpr std::chrono::milliseconds kLook{50};

// The path of a socket below the runners' folder: "/<20 digits>/<a few letters>".
constexpr size_t kBelowDirectory = 20 + 12;

constexpr size_t kMostDatasets = 1000;  // the master accepts a few more

std::string_view transport_name(WorkerTransport transport) {
  switch (transport) {
    case WorkerTransport::local:
      return "local";
    case WorkerTransport::shm:
      return "shm";
    case WorkerTransport::tcp:
      return "tcp";
  }
  return "";
}

std::vector<WireKind> wires_of(GpuWires wires) {
  switch (wires) {
    case GpuWires::none:
      return {};
    case GpuWires::ipc:
      return {WireKind::ipc};
    case GpuWires::insecure_nccl:
      return {WireKind::nccl};
    case GpuWires::insecure_all:
      return {WireKind::ipc, WireKind::nccl};
  }
  return {};
}

// Returns the facts with which this worker registers. The link draws the incarnation.
WorkerInfo describe(const WorkerConfig& config, const std::string& data_address, uint32_t threads) {
  WorkerInfo info;
  info.worker.name = config.name;
  info.address = data_address;
  info.machine = machine_id();
  info.version = leat_version();
  const cpu::CpuDevice device(0, 1);
  WorkerDevice cpu{"cpu", device.name(), device.memory_bytes(), threads, cpu::cpu_model()};
  // The master plans with the memory that a runner may use, and not with all that there is.
  if (config.memory_limit > 0) cpu.memory_bytes = std::min(cpu.memory_bytes, config.memory_limit);
  info.devices.push_back(cpu);
  // The names come first: paths are for jobs that name a path, and the least needed if there are
  // too many.
  for (const auto& [name, path] : config.datasets) info.datasets.push_back(name);
  for (const auto& [name, path] : config.datasets) {
    if (info.datasets.size() < kMostDatasets) info.datasets.push_back(path);
  }
  if (config.local_paths) info.datasets.emplace_back(kAnyPath);
  return info;
}

// A job may be given to this worker for its data sets, so they must exist.
Status check_datasets(const WorkerConfig& config) {
  for (const auto& [name, path] : config.datasets) {
    std::error_code error;
    // A store may be out of reach for a while: the jobs that read it tell.
    if (is_store_path(path) || std::filesystem::exists(path, error)) continue;
    return failed_precondition(cat("datasets.", name,
                                   ": expected a folder or a file, there is no '", path, "'",
                                   error ? cat(" (", error.message(), ")") : ""));
  }
  return {};
}

}  // namespace

// Locks the state directory for this process, and removes the files of a killed worker.
Status Worker::take_state(const WorkerConfig& config, const Logger& log) {
  const std::string& directory = config.state_dir;
  LEAT_ASSIGN_OR_RETURN(const std::string warning, take_state_folder(directory));
  if (!warning.empty()) log.warning(warning);
  const std::string path = directory + "/lock";
  lock_ = Descriptor(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock_) return system_error(cat("'", path, "'"), errno);
  // The kernel drops the lock when this process ends in any way.
  if (flock(lock_.get(), LOCK_EX | LOCK_NB) < 0) {
    return failed_precondition(
        cat("state directory '", directory, "': another worker runs on it; give each its own"));
  }
  runners_directory_ = directory + "/runners";
  // A path that is too long would fail later, in each runner, and with a worse message.
  constexpr size_t kLongest = sizeof(sockaddr_un::sun_path) - 1 - kBelowDirectory;
  if (runners_directory_.size() > kLongest) {
    return invalid_argument(cat("state_dir '", directory, "': expected at most ",
                                kLongest - std::string_view("/runners").size(),
                                " characters, for the paths of sockets below it, received ",
                                directory.size()));
  }
  std::error_code error;
  // The lock is held, so no other worker uses the folder, and the runners of a killed one are dead.
  std::filesystem::remove_all(runners_directory_, error);
  std::filesystem::create_directory(runners_directory_, error);
  std::filesystem::permissions(runners_directory_, std::filesystem::perms::owner_all, error);
  if (error) return unavailable(cat("'", runners_directory_, "': ", error.message()));
  LEAT_ASSIGN_OR_RETURN(confinement_, RunnerConfinement::open(config, runners_directory_, log));
  return {};
}

namespace {

RpcIdentity identity_of(const WorkerConfig& config) {
  RpcIdentity identity;
  identity.role = RpcRole::worker;
  identity.cluster = config.cluster;
  identity.secret = config.security.secret;
  identity.secrets = config.security.secrets;
  identity.seal = config.security.seal();
  identity.certificates = config.security.current_certificates();
  return identity;
}

}  // namespace

Result<std::unique_ptr<Worker>> Worker::start(const WorkerConfig& config,
                                              const std::string& program, Logger log,
                                              std::function<void()> on_given_up,
                                              const std::optional<Gpu>& gpu) {
  std::unique_ptr<Worker> daemon(new Worker());
  daemon->name_ = config.name;
  LEAT_RETURN_IF_ERROR(check_datasets(config));
  LEAT_RETURN_IF_ERROR(daemon->take_state(config, log));
  const auto threads =
      static_cast<uint32_t>(config.threads > 0 ? config.threads : cpu::usable_cores());
  MasterLinkOptions options;
  options.master = config.master;
  options.identity = identity_of(config);
  options.log = log;
  options.name_patience = config.name_patience;
  options.on_given_up = std::move(on_given_up);
  // A runner inherits all of this from the configuration of its worker.
  RunnerSurroundings& around = options.surroundings;
  around.program = program;
  around.directory = daemon->runners_directory_;
  around.node = config.name;
  around.master = config.master;
  around.cluster = config.cluster;
  around.seal = config.security.seal();
  around.threads = threads;
  if (gpu) around.environment.push_back(cat("CUDA_VISIBLE_DEVICES=", gpu->visible));
  around.memory_limit = config.memory_limit;
  around.datasets = config.datasets;
  if (config.local_paths) around.datasets[std::string(kAnyPath)] = kAnyPath;
  for (const WorkerTransport transport : config.transports)
    around.transports.emplace_back(transport_name(transport));
  around.gpu_wires = wires_of(config.gpu_wires);
  around.log_level = log_level_name(config.log.level);
  around.limits = config.runner;
  around.confinement = daemon->confinement_.get();
  around.rejoin_within = options.adopt_within = config.adopt_within;

  // The data port asks the runners which of them a connection is for, so they are made before it.
  // The link tells the master the data port's address, so it is made last; runners pass their
  // output to it once it exists.
  RunnerNews news{[&link = daemon->master_](const auto& job, uint64_t assembly, auto lines) {
                    if (link) link->wrote(job, assembly, std::move(lines));
                  },
                  [&link = daemon->master_](const auto& job, uint64_t assembly, const auto& end) {
                    if (link) link->exited(job, assembly, end);
                  }};
  LEAT_ASSIGN_OR_RETURN(daemon->runners_, Runners::create(std::move(news), log.named("runners")));
  LEAT_ASSIGN_OR_RETURN(daemon->data_port_,
                        DataPort::open(daemon->reactor_, config.data, around.seal,
                                       *daemon->runners_, log.named("data")));
  LEAT_ASSIGN_OR_RETURN(const std::string address,
                        advertised_address(config.data_address, daemon->data_address()));
  options.info = describe(config, address, threads);
  if (gpu) options.info.devices.push_back(gpu->device);
  LEAT_ASSIGN_OR_RETURN(daemon->master_, MasterLink::create(std::move(options)));
  // This comes last: orders of the master may arrive at once.
  daemon->master_->start(*daemon->runners_);
  return daemon;
}

bool Worker::drain(std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  // Without a master, no job can leave this worker in an orderly way.
  if (!status().ok()) return runners_->size() == 0;
  master_->drain(std::min(patience, kTellMaster));  // also without a runner: one may start soon
  if (runners_->size() == 0) return true;
  // The wait is in short pieces, because a lost membership does not wake it.
  while (status().ok() && std::chrono::steady_clock::now() < deadline) {
    if (runners_->wait_until_none(std::min(deadline, std::chrono::steady_clock::now() + kLook)))
      return true;
  }
  return runners_->size() == 0;
}

void Worker::stop(std::chrono::milliseconds grace) {
  if (std::exchange(stopped_, true)) return;
  // The runners end before the link, which still tells the master of their ends.
  if (runners_) runners_->stop_all(grace);
  if (master_) master_->stop();
}

Worker::~Worker() {
  stop(std::chrono::milliseconds(0));
  data_port_.reset();  // because it uses the runners
  runners_.reset();    // because they use the link
}

}  // namespace leat
