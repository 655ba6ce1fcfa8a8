#include "daemon/lasting/lasting_session.h"

#include <algorithm>
#include <filesystem>

#include "daemon/hosts/session_job.h"
#include "devices/base/text.h"

namespace leat {
namespace {

// The outcomes that are kept for a client that does not say that it has them.
constexpr size_t kMostOutcomes = 4'096;
constexpr size_t kMostBytes = size_t{1} << 30;

}  // namespace

LastingSession::LastingSession(SessionOptions options, SentGraph::Read read_graph, std::string path)
    : options_(std::move(options)),
      path_(std::move(path)),
      graph_(std::move(read_graph)),
      callables_(cat("session '", options_.name, "'")) {
  options_.on_plan = [this](const Plan& plan) {
    return variables_.place(plan, *hosts_, options_.job);
  };
}
LastingSession::~LastingSession() = default;

// --- the hosts come and go ---

Status LastingSession::open_log() {
  if (log_ != nullptr) return {};
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), error);
  if (error) return unavailable(cat("'", path_, "': its folder: ", error.message()));
  LEAT_ASSIGN_OR_RETURN(auto log, SessionLog::open(path_));
  LEAT_ASSIGN_OR_RETURN(LoggedGraph sent, log->graph());
  if (sent.version > 0) {
    LEAT_ASSIGN_OR_RETURN(Graph graph, graph_.read(sent));
    graph_.set(std::move(sent), std::move(graph));
  }
  LEAT_ASSIGN_OR_RETURN(auto callables, log->callables());
  callables_.set(std::move(callables));
  LEAT_ASSIGN_OR_RETURN(last_, log->last_step());
  LEAT_ASSIGN_OR_RETURN(outcomes_, log->outcomes());
  log_ = std::move(log);
  return {};
}

Status LastingSession::resume(HostGroup& hosts, const std::function<bool()>& ended) {
  stop_->go_on();
  // A halt() before this line is seen here, and a later one there.
  if (ended()) return unavailable(cat("session '", options_.name, "' lets its hosts go"));
  LEAT_RETURN_IF_ERROR(open_log());
  hosts_ = &hosts;
  return rebuild();
}

void LastingSession::suspend() {
  session_.reset();
  hosts_ = nullptr;
}

void LastingSession::forget() {
  suspend();
  log_.reset();
  SessionLog::remove(path_);
}

Status LastingSession::rebuild() {
  broken_ = true;  // until all of it has succeeded
  LEAT_RETURN_IF_ERROR(make_session());
  LEAT_RETURN_IF_ERROR(repeat_steps());
  broken_ = false;
  return {};
}

Status LastingSession::make_session() {
  session_.reset();
  callables_.forget_inner();
  inner_version_ = 0;
  LEAT_ASSIGN_OR_RETURN(SavedState saved, log_->saved());
  saved_at_ = saved.step;
  {
    const auto job = hosts_->session_job(options_.job);
    const std::unique_lock compiling(job->compiling,
                                     std::chrono::steady_clock::now() + options_.timeout);
    if (!compiling.owns_lock())
      return deadline_exceeded(cat("session '", options_.name, "': a plan of it is being made"));
    for (const auto& [resource, device] : saved.homes) job->homes.emplace(resource, device);
  }
  variables_.begin(std::move(saved));
  LEAT_ASSIGN_OR_RETURN(session_, Session::open(*hosts_, options_));
  if (graph_.graph() != nullptr) {
    LEAT_ASSIGN_OR_RETURN(inner_version_, session_->extend(0, *graph_.graph()));
  }
  for (const LoggedCallable& callable : callables_.all()) {
    if (callable.released) continue;
    LEAT_ASSIGN_OR_RETURN(const CallableId inner, session_->make_callable(callable.signature));
    callables_.set_inner(callable.id, inner);
  }
  return {};
}

Status LastingSession::repeat_steps() {
  uint64_t done = saved_at_;
  while (true) {
    LEAT_ASSIGN_OR_RETURN(auto step, log_->next_step(done));
    if (!step) return {};
    done = step->number;
    // Plans are made anew, which a deadline of the client did not allow for.
    step->timeout = std::max(step->timeout, options_.timeout);
    bool ran = false;
    StepOutcome outcome = execute(*step, ran);
    if (outcome.ok()) {
      if (!step->applied) LEAT_RETURN_IF_ERROR(log_->write_applied(done));
      if (done > answered_) outcomes_.insert_or_assign(done, std::move(outcome));
      continue;
    }
    // A step that was applied once cannot fail by itself.
    if (step->applied || is_of_hosts(outcome.status()))
      return unavailable(cat("repeating step ", done, ": ", outcome.status().message()));
    LEAT_RETURN_IF_ERROR(log_->write_failure(done, outcome.status()));
    outcomes_.insert_or_assign(done, std::move(outcome));
    if (ran) return rebuild();
  }
}

bool LastingSession::is_of_hosts(const Status& error) const {
  return error.code() == Code::unavailable || stop_->halted();
}

Status LastingSession::save() {
  SavedState state;
  state.step = last_;
  LEAT_ASSIGN_OR_RETURN(state.variables, variables_.read(*hosts_, options_.job));
  state.homes = hosts_->session_job(options_.job)->homes;
  LEAT_RETURN_IF_ERROR(log_->save(state, outcomes_));
  saved_at_ = last_;
  return {};
}

// --- the graph ---

Result<uint64_t> LastingSession::extend(LoggedGraph graph) {
  // The answer to the same call was lost.
  if (graph.version + 1 == graph_.version() && graph.file == graph_.sent().file)
    return graph_.version();
  if (graph.version != graph_.version()) {
    return failed_precondition(cat("session '", options_.name, "': expected to extend version ",
                                   graph_.version(), " of the graph, received version ",
                                   graph.version));
  }
  LEAT_ASSIGN_OR_RETURN(Graph read, graph_.read(graph));
  LEAT_ASSIGN_OR_RETURN(inner_version_, session_->extend(inner_version_, read));
  ++graph.version;
  const Status written = log_->write_graph(graph);
  if (!written.ok()) {
    // The hosts forget the graph that the record has not.
    (void)rebuild();
    return written;
  }
  graph_.set(std::move(graph), std::move(read));
  return graph_.version();
}

Result<CallableId> LastingSession::make_callable(const Signature& signature) {
  LEAT_ASSIGN_OR_RETURN(const CallableId inner, session_->make_callable(signature));
  const CallableId id = callables_.next();
  const Status written = log_->write_callable(id, signature);
  if (!written.ok()) {
    (void)session_->release_callable(inner);
    return written;
  }
  callables_.add({id, signature, false});
  callables_.set_inner(id, inner);
  return id;
}

// Steps that are to be repeated may name it, so that the record keeps its signature.
Status LastingSession::release_callable(CallableId id) {
  LEAT_ASSIGN_OR_RETURN(const CallableId inner, callables_.inner(id));
  LEAT_RETURN_IF_ERROR(log_->write_release(id));
  callables_.release(id);
  return session_->release_callable(inner);
}

// --- steps ---

Result<Signature> LastingSession::signature_of(const LoggedStep& step) const {
  if (const auto* signature = std::get_if<Signature>(&step.what)) return *signature;
  return callables_.signature(std::get<CallableId>(step.what));
}

Result<StepHandle> LastingSession::start(const LoggedStep& step) {
  Session::Deadline deadline;
  if (step.timeout.count() > 0) deadline = std::chrono::steady_clock::now() + step.timeout;
  const auto finished = [stop = stop_, number = step.number] { stop->finish(number); };
  session_->set_next_number(step.number - 1);
  LEAT_ASSIGN_OR_RETURN(const Signature signature, signature_of(step));
  if (const auto* id = std::get_if<CallableId>(&step.what)) {
    const auto inner = callables_.inner(*id);
    if (inner.ok()) return session_->start_callable(*inner, step.feeds, deadline, finished);
    // A step that is repeated may be of a callable that was released after it.
    if (!step.applied) return inner.status();
  }
  if (signature.feeds.size() != step.feeds.size()) {
    return invalid_argument(
        cat("feeds: expected ", signature.feeds.size(), " tensors, received ", step.feeds.size()));
  }
  Feeds feeds;
  for (size_t i = 0; i < step.feeds.size(); ++i)
    feeds.emplace_back(signature.feeds[i], step.feeds[i]);
  return session_->start(feeds, signature.fetches, signature.targets, deadline, finished);
}

StepOutcome LastingSession::execute(const LoggedStep& step, bool& ran) {
  stop_->begin(step.number);
  auto started = start(step);
  if (!started.ok()) {
    stop_->end();
    return started.status();
  }
  StepHandle handle = std::move(*started);
  ran = true;
  // The session itself ends the step at its deadline.
  if (stop_->wait()) handle.cancel();
  stop_->end();
  return handle.wait();
}

StepOutcome LastingSession::outcome(uint64_t number) const {
  const auto found = outcomes_.find(number);
  if (found != outcomes_.end()) return found->second;
  if (number == 0 || number > last_) {
    return failed_precondition(cat("session '", options_.name, "' has not taken step ", number,
                                   ": its last one is ", last_));
  }
  return failed_precondition(cat("session '", options_.name, "': step ", number,
                                 " was taken, and its client has had the outcome"));
}

void LastingSession::answered(uint64_t number) {
  answered_ = std::max(answered_, std::min(number, last_));
  outcomes_.erase(outcomes_.begin(), outcomes_.upper_bound(answered_));
}

StepOutcome LastingSession::failed(uint64_t number, const Status& error, bool ran) {
  if (is_of_hosts(error)) {
    broken_ = true;
    return unavailable(error.message());
  }
  const Status written = log_->write_failure(number, error);
  if (!written.ok()) {
    broken_ = true;
    return unavailable(written.message());
  }
  outcomes_.insert_or_assign(number, StepOutcome(error));
  // The step may have written some of its variables.
  if (ran) (void)rebuild();  // if it fails, the session is broken
  return error;
}

Status LastingSession::check_outcomes() const {
  size_t bytes = 0;
  for (const auto& [number, outcome] : outcomes_) {
    if (!outcome.ok()) continue;
    for (const Tensor& value : *outcome) bytes += value.bytes();
  }
  if (outcomes_.size() < kMostOutcomes && bytes < kMostBytes) return {};
  return resource_exhausted(cat("session '", options_.name, "': the outcomes of ", outcomes_.size(),
                                " steps, ", human_bytes(bytes),
                                ", wait for a client that says that it has them"));
}

StepOutcome LastingSession::run(LoggedStep step) {
  if (step.number > 0 && step.number <= last_) return outcome(step.number);
  if (step.number != last_ + 1) {
    return failed_precondition(cat("session '", options_.name, "': expected step ", last_ + 1,
                                   ", received step ", step.number));
  }
  LEAT_RETURN_IF_ERROR(check_outcomes());
  LEAT_RETURN_IF_ERROR(log_->write_step(step));
  const uint64_t number = step.number;
  last_ = number;
  const auto signature = signature_of(step);
  if (!signature.ok()) return failed(number, signature.status(), false);
  const auto touched = graph_.touches(*signature, options_.plans);
  if (!touched.ok()) return failed(number, touched.status(), false);
  if (touched->queue) {
    return failed(
        number,
        invalid_argument(cat("session '", options_.name,
                             "': expected a step with variables alone, received one with "
                             "a queue or a data set, which a lasting session cannot save")),
        false);
  }
  bool ran = false;
  StepOutcome outcome = execute(step, ran);
  if (!outcome.ok()) return failed(number, outcome.status(), ran);
  outcomes_.insert_or_assign(number, outcome);
  if (const Status written = log_->write_applied(number); !written.ok()) {
    broken_ = true;
    return unavailable(written.message());
  }
  if (touched->files || number - saved_at_ >= options_.save_every) {
    // Without the save the steps would only take longer to repeat, unless the step has read a file.
    const Status saved = save();
    if (!saved.ok() && (touched->files || saved.code() == Code::unavailable)) {
      broken_ = true;
      return unavailable(saved.message());
    }
  }
  return outcome;
}

}  // namespace leat
