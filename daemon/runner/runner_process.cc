// `leatd runner`: the process of one job on one machine.
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "daemon/chaos/commit_chaos.h"
#include "daemon/chaos/fault_injector.h"
#include "daemon/leatd/daemons.h"
#include "daemon/runner/job_runner.h"
#include "daemon/runner/reporter.h"
#include "daemon/runner/runner_config.h"
#include "daemon/runner/wire_runner_service.h"
#include "daemon/runner/worker_socket.h"
#include "devices/base/text.h"
#include "transport/cluster.capnp.h"
#include "transport/rpc/call.h"
#include "transport/rpc/client.h"

namespace leat {
namespace {

using SteadyClock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr int kWorkerDescriptor = 3;
// Why the process ended, for whoever reads its status.
enum : int { kAsked = 0, kFailed = 1, kWorkerGone = 3, kMasterGone = 4 };
constexpr auto kStart = 10s;  // from the start to being registered
constexpr auto kEnd = 3s;     // from the reason to the end, by force
constexpr std::chrono::milliseconds kAgain{200}, kForEver{-1};

// What ends the process: the first one counts, be it a signal. Threads: any, but for wait().
class Ending {
 public:
  // `signals`: a signalfd.
  explicit Ending(int signals)
      : signals_(signals), happened_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

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

  // True as soon as there is a reason; false after `timeout` (negative: never). Threads: one.
  bool wait(std::chrono::milliseconds timeout) {
    pollfd ready[] = {{happened_.get(), POLLIN, 0}, {signals_, POLLIN, 0}};
    if (::poll(ready, 2, static_cast<int>(timeout.count())) > 0) read_signal();
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
  void read_signal() {
    signalfd_siginfo signal{};
    if (::read(signals_, &signal, sizeof signal) == sizeof signal)
      because(kAsked, cancelled(cat("signal ", signal.ssi_signo, " asked for it")));
  }

  const int signals_;
  const Descriptor happened_;
  mutable std::mutex mutex_;
  std::optional<Status> why_;
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

RpcClientOptions client_options(const RunnerConfig& config, Ending& ending) {
  RpcClientOptions options;
  options.address = config.master_address;
  options.identity.role = RpcRole::runner;
  options.identity.cluster = config.cluster;
  options.identity.secret = config.secret;
  options.on_lost = [&ending](const Status& cause) { ending.because(kMasterGone, cause); };
  return options;
}

// Tries again while the master cannot be reached: it may be busy with all runners of the job.
Result<std::unique_ptr<RpcClient>> connect(RpcLoop& loop, const RunnerConfig& config,
                                           Ending& ending, Deadline deadline) {
  while (true) {
    auto client = RpcClient::connect(loop, client_options(config, ending));
    const bool again = !client.ok() && client.status().code() == Code::unavailable;
    if (!again || SteadyClock::now() + kAgain >= deadline || ending.wait(kAgain)) return client;
  }
}

// Connects, registers, and serves until there is a reason to end.
Status serve(RpcLoop& loop, JobRunner& runner, Reporter& reporter,
             std::unique_ptr<RpcClient>& master, Ending& ending, const Logger& log) {
  const RunnerConfig& config = runner.config();
  const Deadline deadline = SteadyClock::now() + kStart;
  LEAT_ASSIGN_OR_RETURN(master, connect(loop, config, ending, deadline));
  reporter.start(runner, *master,
                 [&ending](const Status& why) { ending.because(kMasterGone, why); });
  LEAT_RETURN_IF_ERROR(register_runner(*master, loop, runner, deadline - SteadyClock::now()));
  log.info("serves ", config.job, " epoch ", config.epoch.number, " as task ", config.task, " with ",
           runner.threads(), " threads");
  while (!ending.wait(kForEver)) {
  }
  log.log(ending.code() == kAsked ? LogLevel::info : LogLevel::error,
          cat("ends: ", ending.why().message()));
  return {};
}

// Runs in the journal of the master first, so that it comes once.
Status announce(RpcClient& master, const JobRunner& runner, const ArmedFault& fault) {
  return master.call<wire::Registry>(
      "Registry.chaos", kStart, [&runner, fault](wire::Registry::Client registry) {
        auto request = registry.chaosRequest();
        request.setEpoch(runner.epoch());
        request.setIndex(fault.index);
        request.setFault(to_string(fault.fault));
        return request.send().then(
            [](auto&& response) { return status_of(response.getOutcome()); });
      });
}

// A worker's faults are its runner's to do, which goes with it.
void commit_here(const ChaosFault& fault) {
  const pid_t both[] = {::getppid(), ::getpid()};
  const bool alone = fault.target == ChaosTarget::runner || fault.action == ChaosAction::exit ||
                     fault.action == ChaosAction::hang;
  if (!alone && fault.action == ChaosAction::term) return commit_chaos(fault, {both, 1});
  commit_chaos(fault, alone ? std::span(both).last(1) : std::span(both));
}

// `guillotine` is set up when the end begins.
Status run_job(const RunnerConfig& config, const Logger& log, Ending& ending,
               std::optional<Guillotine>& guillotine) {
  const Catalogue catalogue = standard_catalogue();
  LEAT_ASSIGN_OR_RETURN(const auto loop, RpcLoop::start(log.named("rpc")));
  Reporter reporter(*loop);
  LEAT_ASSIGN_OR_RETURN(auto runner, JobRunner::create(config, catalogue, reporter.news(), log));
  const WorkerSocket worker(kWorkerDescriptor, *runner, [&ending](const Status& why) {
    ending.because(kWorkerGone, why.while_doing("listening to the worker"));
  });
  std::unique_ptr<RpcClient> master;
  const auto faults = std::make_shared<FaultInjector>(
      [&](const ArmedFault& fault) { return announce(*master, *runner, fault); }, commit_here, log);
  runner->arm = [faults](std::vector<ArmedFault> armed, std::chrono::milliseconds ran) {
    faults->arm(std::move(armed), ran);
  };
  runner->on_training([faults](std::shared_ptr<HostedRun> run) { faults->watch(run); });
  const Status served = serve(*loop, *runner, reporter, master, ending, log);
  guillotine.emplace(served.ok() ? ending.code() : kFailed, log);
  runner->stop(cancelled(cat("the runner ends: ", ending.why().message())));
  loop->stop();  // before what is used on it goes
  faults->stop();
  return served;
}

int run(int signals) {
  const Logger boot_log("runner", LogLevel::info, make_stderr_sink());
  const auto config = read_runner_config(kWorkerDescriptor, SteadyClock::now() + kStart);
  if (!config.ok()) {
    boot_log.error("cannot start: ", config.status().message());
    return kFailed;
  }
  const auto level = log_level_from_name(config->log_level);
  const Logger log(cat("task-", config->task), level.ok() ? *level : LogLevel::info,
                   make_stderr_sink());
  Ending ending(signals);
  std::optional<Guillotine> guillotine;
  const Status served = run_job(*config, log, ending, guillotine);
  if (served.ok()) return ending.code();
  log.error("cannot start: ", served.message());
  return kFailed;
}

}  // namespace

int run_runner(int, char**) {
  // Whatever becomes of the worker: nothing of it stays behind.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::fcntl(kWorkerDescriptor, F_SETFD, FD_CLOEXEC);
  ::fcntl(kWorkerDescriptor, F_SETFL, ::fcntl(kWorkerDescriptor, F_GETFL) | O_NONBLOCK);
  sigset_t asked;
  sigemptyset(&asked);
  sigaddset(&asked, SIGTERM);
  sigaddset(&asked, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &asked, nullptr);  // on all threads to come
  const Descriptor signals(::signalfd(-1, &asked, SFD_CLOEXEC | SFD_NONBLOCK));
  return run(signals.get());
}

}  // namespace leat
