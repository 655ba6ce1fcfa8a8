#include "daemon/session/session.h"

#include "daemon/session/session_core.h"
#include "devices/base/text.h"

namespace leat {
namespace {

// Makes a blocking call of one that starts a step, or passes on the error of that one.
Result<std::vector<Tensor>> wait_for(Result<StepHandle> step) {
  if (!step.ok()) return step.status();
  return step->wait();
}

}  // namespace

StepHandle::~StepHandle() {
  if (!step_) return;
  // The step's memory may be reused only when no host works on it any more.
  cancel();
  step_->wait();
  step_->core().give_back(*step_);
}

Result<std::vector<Tensor>> StepHandle::wait() {
  step_->wait();
  // The fetches are copied before the run goes to another step.
  auto fetches = step_->take_fetches();
  step_->core().give_back(*step_);
  step_ = nullptr;
  return fetches;
}

bool StepHandle::over() const { return !step_ || step_->over(); }

void StepHandle::cancel() {
  if (!step_) return;
  // This thread owns the step, so its number cannot change meanwhile.
  const uint64_t number = step_->number();
  step_->end(number, cancelled(cat(step_->subject(number), " was cancelled")));
}

Result<std::unique_ptr<Session>> Session::open(HostGroup& hosts, SessionOptions options) {
  const auto workers = static_cast<int>(hosts.hosts().size());
  if (options.workers == 0) options.workers = workers;
  if (options.workers < 0 || options.workers > workers) {
    return invalid_argument(cat("session '", options.name, "': workers: expected 0 (all) to ",
                                workers, ", received ", options.workers));
  }
  auto core = std::make_unique<SessionCore>(hosts, std::move(options));
  return std::unique_ptr<Session>(new Session(std::move(core)));
}

Session::Session(std::unique_ptr<SessionCore> core) : core_(std::move(core)) {}
Session::~Session() = default;

Result<uint64_t> Session::extend(uint64_t version, const Graph& graph) {
  return core_->extend(version, graph);
}
uint64_t Session::version() const { return core_->version(); }

Result<StepHandle> Session::start(const Feeds& feeds, const std::vector<std::string>& fetches,
                                  const std::vector<std::string>& targets, Deadline deadline,
                                  Finished finished) {
  // The names are resolved in the current version; a later extend() does not change this step.
  std::vector<Tensor> tensors;
  LEAT_ASSIGN_OR_RETURN(const ResolvedSignature signature,
                        core_->resolve(signature_of(feeds, fetches, targets, tensors)));
  return core_->start(signature, tensors, deadline, std::move(finished));
}

Result<std::vector<Tensor>> Session::run(const Feeds& feeds,
                                         const std::vector<std::string>& fetches,
                                         const std::vector<std::string>& targets,
                                         Deadline deadline) {
  return wait_for(start(feeds, fetches, targets, deadline));
}

Result<CallableId> Session::make_callable(const Signature& signature) {
  LEAT_ASSIGN_OR_RETURN(ResolvedSignature resolved, core_->resolve(signature));
  return core_->add_callable(std::move(resolved));
}

Result<StepHandle> Session::start_callable(CallableId id, const std::vector<Tensor>& feeds,
                                           Deadline deadline, Finished finished) {
  return core_->start_callable(id, feeds, deadline, std::move(finished));
}

Result<std::vector<Tensor>> Session::run_callable(CallableId id, const std::vector<Tensor>& feeds,
                                                  Deadline deadline) {
  return wait_for(start_callable(id, feeds, deadline));
}

Status Session::release_callable(CallableId id) { return core_->release_callable(id); }

void Session::set_next_number(uint64_t number) { core_->set_next_number(number); }

void Session::close() { core_->close(); }

}  // namespace leat
