// `leatd runner`: the process of one job on one machine.
#include "daemon/runner/run_runner.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "daemon/chaos/commit_chaos.h"
#include "daemon/chaos/fault_injector.h"
#include "daemon/chaos/flip_bit.h"
#include "daemon/process/memory_bound.h"
#include "daemon/runner/job_runner.h"
#include "daemon/runner/reporter.h"
#include "daemon/runner/runner_start.h"
#include "daemon/runner/wire_master_files.h"
#include "daemon/runner/wire_runner_service.h"
#include "daemon/runner/worker_socket.h"
#include "daemon/wire/cluster.capnp.h"
#include "daemon/wire/registration.h"
#include "devices/base/counted.h"
#include "devices/base/text.h"
#include "ops/catalogue.h"
#include "ops/plugins.h"
#include "transport/rpc/call.h"
#include "transport/rpc/client.h"

namespace leat {
namespace {

using SteadyClock = std::chrono::steady_clock;
using namespace std::chrono_literals;

// The exit codes of the process, besides kRunnerOutOfMemory.
enum : int { kAsked = 0, kFailed = 1, kWorkerGone = 3, kMasterGone = 4, kDeviceFailed = 6 };
constexpr auto kStart = 10s;  // from the start to being registered
constexpr auto kEnd = 3s;     // from the reason to the end, by force
// The time for a restarted master to learn of this runner from its worker.
constexpr auto kRefused = 5s;
constexpr auto kLinkNews = 1s;  // for the master to take them
// A worker commits a fault that it is asked for within this time.
constexpr auto kFault = 10s;
constexpr std::chrono::milliseconds kLookForFault{20};
constexpr std::chrono::milliseconds kAgain{200}, kLeastDial{100}, kForEver{-1};

// The reason to end the process: the first one counts, and a signal is one. Threads: any; wait():
// one.
class Ending {
 public:
  // `signals`: a signalfd.
  explicit Ending(int signals)
      : signals_(signals), happened_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

  // Ends the process with this code. A later reason is only a consequence of the first.
  void because(int code, const Status& why) {
    {
      std::lock_guard lock(mutex_);
      if (why_) return;
      why_ = why;
      code_ = code;
    }
    const uint64_t one = 1;
    (void)!::write(happened_.get(), &one, sizeof one);
  }

  // The master is lost, which is not yet a reason to end.
  void lost_master(const Status& why) {
    {
      std::lock_guard lock(mutex_);
      lost_ = why;
    }
    const uint64_t one = 1;
    (void)!::write(happened_.get(), &one, sizeof one);
  }
  // Returns each loss once.
  std::optional<Status> take_lost_master() {
    std::lock_guard lock(mutex_);
    return std::exchange(lost_, std::nullopt);
  }

  // Returns true as soon as there is a reason, and false after `timeout` (negative: never) or when
  // the master is lost. Threads: one.
  bool wait(std::chrono::milliseconds timeout) {
    {
      std::lock_guard lock(mutex_);
      if (why_) return true;
    }
    // The eventfd stays readable until it is read, so a reason that came just before is not missed.
    pollfd ready[] = {{happened_.get(), POLLIN, 0}, {signals_, POLLIN, 0}};
    if (::poll(ready, 2, static_cast<int>(timeout.count())) > 0) read_signal();
    uint64_t drained;
    (void)!::read(happened_.get(), &drained, sizeof drained);
    std::lock_guard lock(mutex_);
    return why_.has_value();
  }
  int code() const {
    std::lock_guard lock(mutex_);
    return code_;
  }
  Status why() const {
    std::lock_guard lock(mutex_);
    return why_.value_or(Status());
  }

 private:
  // A read of a signalfd that has no signal returns at once, because the descriptor is
  // non-blocking.
  void read_signal() {
    signalfd_siginfo signal{};
    if (::read(signals_, &signal, sizeof signal) == sizeof signal)
      because(kAsked, cancelled(cat("signal ", signal.ssi_signo, " asked for it")));
  }

  const int signals_;
  const Descriptor happened_;
  mutable std::mutex mutex_;
  std::optional<Status> why_, lost_;
  int code_ = kAsked;
};

// Ends the process if its orderly end takes too long.
class Guillotine {
 public:
  Guillotine(int code, Logger log)
      : thread_([this, code, log] {
          ::pthread_setname_np(::pthread_self(), "end");
          std::unique_lock lock(mutex_);
          if (done_changed_.wait_for(lock, kEnd, [this] { return done_; })) return;
          log.warning("ends by force: its threads did not end within ", kEnd.count(), " s");
          // No destructors and no handlers of exit(), because they may wait for the same threads.
          ::_exit(code);
        }) {}
  ~Guillotine() {
    {
      std::lock_guard lock(mutex_);
      done_ = true;
      done_changed_.notify_all();
    }
    thread_.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable done_changed_;
  bool done_ = false;
  std::thread thread_;
};

// The runner's registration with its master. If the worker configured it so, the runner looks for a
// lost master; a restarted master accepts the runner after the worker has told it of the runner.
// Threads: one; client(): any.
class Place {
 public:
  Place(RpcLoop& loop, JobRunner& runner, Reporter& reporter, MasterFiles& saved, Ending& ending,
        Logger log)
      : loop_(loop),
        runner_(runner),
        reporter_(reporter),
        saved_(saved),
        ending_(ending),
        log_(std::move(log)) {}

  // Null before the first registration.
  std::shared_ptr<RpcClient> client() const {
    std::lock_guard lock(mutex_);
    return client_;
  }

  // Tries again while the master cannot be reached: it may be busy with all runners of the job.
  Status take(Deadline deadline) {
    while (true) {
      const Status taken = try_to_take(deadline);
      // A master that answered, even with a refusal, is not asked again.
      const bool again = !client() && taken.code() == Code::unavailable;
      if (!again || SteadyClock::now() + kAgain >= deadline || ending_.wait(kAgain)) return taken;
    }
  }

  // Registers again after the master was lost. Returns false if there is a reason to end.
  bool take_again(const Status& lost) {
    const RunnerConfig& config = runner_.config();
    log_.warning("the master is gone: ", lost.message(), "; looks for it for ",
                 config.rejoin_within.count(), " ms");
    const Deadline until = SteadyClock::now() + config.rejoin_within;
    std::optional<Deadline> refused_until;
    while (SteadyClock::now() < until) {
      leave();
      const Status taken = try_to_take(until);
      if (taken.ok()) return true;
      // A restarted master refuses the runner until the worker has registered, so a refusal counts
      // only after some time.
      if (taken.code() == Code::failed_precondition && !refused_until)
        refused_until = SteadyClock::now() + kRefused;
      if (refused_until && SteadyClock::now() >= *refused_until) break;
      if (ending_.wait(kAgain)) return false;
    }
    ending_.because(kMasterGone, lost);
    return false;
  }

 private:
  Status try_to_take(Deadline deadline) {
    const RunnerConfig& config = runner_.config();
    const bool rejoins = config.rejoin_within.count() > 0;
    // A connection that is given up may still tell of its loss. Its number says that it is an old
    // one.
    const uint64_t life = ++life_;
    const auto lost = [this, rejoins, life](const Status& cause) {
      if (life_ != life) return;
      rejoins ? ending_.lost_master(cause) : ending_.because(kMasterGone, cause);
    };
    RpcClientOptions options;
    options.address = config.master_address;
    options.identity.role = RpcRole::runner;
    options.identity.cluster = config.cluster;
    options.identity.secret = config.secret;
    options.identity.seal = config.seal;
    options.on_lost = lost;
    const auto until = std::chrono::ceil<std::chrono::milliseconds>(deadline - SteadyClock::now());
    // The connection gets the time that is left, but enough for one attempt.
    options.deadline = std::clamp(until, kLeastDial, options.deadline);
    LEAT_ASSIGN_OR_RETURN(std::shared_ptr<RpcClient> client,
                          RpcClient::connect(loop_, std::move(options)));
    {
      std::lock_guard lock(mutex_);
      client_ = client;
    }
    // The reports begin after the registration, because the master refuses those of a runner that
    // it does not know.
    const auto left = std::min<SteadyClock::duration>(kStart, deadline - SteadyClock::now());
    LEAT_RETURN_IF_ERROR(register_runner(*client, loop_, runner_, left));
    reporter_.start(runner_, *client, lost);
    saved_.use(client);
    return {};
  }

  void leave() {
    reporter_.stop();
    saved_.use(nullptr);
    ++life_;
    // Declared before the lock, so that the old connection is closed after the lock is given up.
    std::shared_ptr<RpcClient> old;
    std::lock_guard lock(mutex_);
    old.swap(client_);
  }

  RpcLoop& loop_;
  JobRunner& runner_;
  Reporter& reporter_;
  MasterFiles& saved_;
  Ending& ending_;
  const Logger log_;
  std::atomic<uint64_t> life_{0};  // counts connections
  mutable std::mutex mutex_;
  std::shared_ptr<RpcClient> client_;
};

// Registers, and serves until there is a reason to end.
Status serve(JobRunner& runner, Place& place, Ending& ending, const Logger& log) {
  // Without a first registration the job does not know this process, so it ends.
  LEAT_RETURN_IF_ERROR(place.take(SteadyClock::now() + kStart));
  const RunnerConfig& config = runner.config();
  log.info("serves ", config.job, " assembly ", config.assembly.number, " as task ",
           config.assembly.task, " with ", counted(runner.threads(), "thread"));
  while (!ending.wait(kForEver)) {
    const auto lost = ending.take_lost_master();
    if (!lost) continue;
    if (!place.take_again(*lost)) break;
    log.info("serves ", config.job, " assembly ", runner.runs().assembly().number, " again");
  }
  log.log(ending.code() == kAsked ? LogLevel::info : LogLevel::error,
          cat("ends: ", ending.why().message()));
  return {};
}

// Makes the master write the fault into its journal first, so that it happens only once.
Status announce(RpcClient& master, const JobRunner& runner, const ArmedFault& fault) {
  return master.call<wire::Registry>(
      "Registry.chaos", kStart, [&runner, fault](wire::Registry::Client registry) {
        auto request = registry.chaosRequest();
        request.setAssembly(runner.runs().assembly().number);
        request.setIndex(fault.index);
        request.setFault(to_string(fault.fault));
        return request.send().then(
            [](auto&& response) { return status_of(response.getOutcome()); });
      });
}

// The answer changes nothing.
void tell(RpcClient& master, const FailedLink& failed) {
  (void)master.call<wire::Registry>(
      "Registry.linkFailed", kLinkNews, [&failed](wire::Registry::Client registry) {
        auto request = registry.linkFailedRequest();
        request.setAssembly(failed.assembly);
        request.setPeer(failed.peer);
        request.setFault(write_fault(failed.fault));
        request.setHow(failed.how);
        return request.send().then(
            [](auto&& response) { return status_of(response.getOutcome()); });
      });
}

std::atomic<bool> continued{false};

// The other faults are committed by this process; its worker commits those that signal processes.
// Steps do not go on before it has: the run stands at the gate of the fault.
void commit_here(const ChaosFault& fault, WorkerSocket& worker, JobRunner& runner) {
  if (fault.action == ChaosAction::flip)
    return flip_bit(fault, runner.host().all_resources(runner.config().job));
  const bool signals = fault.action == ChaosAction::kill || fault.action == ChaosAction::term ||
                       fault.action == ChaosAction::stop;
  if (!signals) return commit_chaos(fault, {});
  continued = false;
  ::signal(SIGCONT, [](int) { continued = true; });
  worker.ask(fault);
  // A worker that ends in order needs the steps to go on.
  if (fault.action == ChaosAction::term) return;
  const Deadline until = SteadyClock::now() + kFault;
  while (!continued && SteadyClock::now() < until) std::this_thread::sleep_for(kLookForFault);
}

// Both outlive the result.
FaultInjector::Commit committer(WorkerSocket& worker, JobRunner& runner) {
  return [&](const ChaosFault& fault) { commit_here(fault, worker, runner); };
}

// Has the runner tell the master of links that fail and of input that does not come. `place`
// outlives the runner.
void tell_master_of_trouble(JobRunner& runner, Place& place) {
  runner.on_failed_link([&place](const FailedLink& failed) {
    if (const auto master = place.client()) tell(*master, failed);
  });
  runner.on_starved([&place](const StarvedInput& starved) {
    if (const auto master = place.client()) tell_of_starved(*master, starved);
  });
}

void stop_runner(JobRunner& runner, const Place& place, const Ending& ending) {
  const std::string why = ending.why().message();
  // The exit status alone would not tell the cause.
  if (const auto master = place.client(); master && ending.code() == kDeviceFailed)
    tell_of_failed_device(*master, runner.runs().assembly().number, why);
  // Peers pass this error on to the master. A job goes on after the end of a runner, whatever asked
  // for it, and would fail for good after `cancelled`.
  runner.stop(unavailable(cat("the runner ends: ", why)));
}

// `guillotine` is set up when the end begins.
Status run_job(const RunnerConfig& config, const Logger& log, Ending& ending,
               std::optional<Guillotine>& guillotine) {
  // The bound comes first, because it counts from the memory that the process has now.
  std::optional<MemoryBound> bound;
  if (config.memory_limit > 0) {
    const int threads = config.threads > 0 ? config.threads : cpu::usable_cores();
    LEAT_ASSIGN_OR_RETURN(bound, MemoryBound::set(config.memory_limit, threads));
  }
  // The order of these objects is the order of their lives: the loop and the reporter outlive the
  // runner, and the runner outlives the socket to the worker.
  Catalogue catalogue = standard_catalogue();
  std::vector<std::unique_ptr<Device>> gpus;
  if (config.gpus > 0) {
    LEAT_ASSIGN_OR_RETURN(gpus, open_gpus(config.gpus, catalogue));
    log.info("computes on ", gpus.front()->name(), ": ", gpus.front()->description());
  }
  LEAT_ASSIGN_OR_RETURN(const auto loop, RpcLoop::start(log.named("rpc"), RpcLoop::kSpin));
  Reporter reporter(*loop);
  const auto saved = std::make_shared<MasterFiles>(*loop);
  LEAT_ASSIGN_OR_RETURN(
      auto runner, JobRunner::create(config, catalogue, reporter.news(), log, std::move(gpus)));
  // The socket for its peers listens now, and the process needs no other one.
  LEAT_RETURN_IF_ERROR(end_of_listening(config.confinement));
  WorkerSocket worker(kWorkerDescriptor, *runner, [&ending](const Status& why) {
    ending.because(kWorkerGone, why.while_doing("listening to the worker"));
  });
  Place place(*loop, *runner, reporter, *saved, ending, log);
  const auto faults = std::make_shared<FaultInjector>(
      [&](const ArmedFault& fault) -> Status {
        const auto master = place.client();
        return master ? announce(*master, *runner, fault) : unavailable("the master is gone");
      },
      committer(worker, *runner), log, config.rejoin_within);
  runner->arm = [faults](std::vector<ArmedFault> armed, std::chrono::milliseconds ran) {
    faults->arm(std::move(armed), ran);
  };
  // These callbacks are set before the registration, because the master may prepare runs right
  // after it.
  runner->on_variables([&bound, &log](uint64_t bytes) {
    if (!bound) return;
    if (const Status allowed = bound->allow_copies(bytes); !allowed.ok())
      log.warning(allowed.message());
  });
  // A call that waits for the next master keeps the assembly of its step.
  saved->stamp_with([&runner = *runner] { return runner.runs().assembly().number; });
  runner->save_files_at(saved);
  runner->on_training([faults](const std::shared_ptr<GatedRun>& run) { faults->watch(run); });
  tell_master_of_trouble(*runner, place);
  runner->on_failed_device([&ending](const Status& why) { ending.because(kDeviceFailed, why); });
  const Status served = serve(*runner, place, ending, log);
  // It belongs to the caller, so that it also bounds the destructors of this function.
  guillotine.emplace(served.ok() ? ending.code() : kFailed, log);
  stop_runner(*runner, place, ending);
  loop->stop();   // before what is used on it goes
  saved->stop();  // before the runs that wait for it go
  faults->stop();
  return served;
}

}  // namespace

int run_runner(int, char**) {
  // The log level is in the boot message, so a second logger follows once that is read.
  const Logger boot_log("runner", LogLevel::info, make_stderr_sink());
  const auto started = start_runner(SteadyClock::now() + kStart);
  if (!started.ok()) {
    boot_log.error("cannot start: ", started.status().message());
    return kFailed;
  }
  const RunnerConfig& config = started->config;
  const auto level = log_level_from_name(config.log_level);
  const Logger log(cat("task-", config.assembly.task), level.ok() ? *level : LogLevel::info,
                   make_stderr_sink());
  if (config.confinement.is_on) log.info(layers_text(started->layers));
  end_when_out_of_memory();
  Ending ending(started->signals.get());
  std::optional<Guillotine> guillotine;
  const Status served = run_job(config, log, ending, guillotine);
  if (served.ok()) return ending.code();
  log.error("cannot start: ", served.message());
  return kFailed;
}

}  // namespace leat
