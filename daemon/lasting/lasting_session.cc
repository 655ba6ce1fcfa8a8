#include "daemon/lasting/lasting_session.h"

#include <algorithm>

#include "daemon/hosts/session_job.h"
#include "devices/base/text.h"

namespace leat {
namespace {

// The outcomes that are kept for a client that does not say that it has them.
constexpr size_t kMostOutcomes = 4'096;
constexpr size_t kMostBytes = size_t{1} << 30;

// Too much must not be kept for a client that does not say what it has.
Status check_outcomes(const StepOutcomes& outcomes, const std::string& session) {
  size_t bytes = 0;
  for (const auto& [number, kept] : outcomes) {
    if (!kept.outcome.ok()) continue;
    for (const Tensor& value : *kept.outcome) bytes += value.bytes();
  }
  if (outcomes.size() < kMostOutcomes && bytes < kMostBytes) return {};
  return resource_exhausted(cat("session '", session, "': the outcomes of ", outcomes.size(),
                                " steps, ", human_bytes(bytes),
                                ", wait for a client that says that it has them"));
}

}  // namespace

LastingSession::LastingSession(SessionOptions options, SentGraph::Read read_graph,
                               SessionRecord record)
    : options_(std::move(options)),
      log_(std::move(record)),
      graph_(std::move(read_graph)),
      callables_(cat("session '", options_.name, "'")) {
  options_.on_plan = [this](const Plan& plan) {
    return variables_.place(plan, *hosts_, options_.job);
  };
}
LastingSession::~LastingSession() = default;

// --- the hosts come and go ---

Status LastingSession::load() {
  if (loaded_) return {};
  LEAT_ASSIGN_OR_RETURN(const SharedLog::Use log, log_.open());
  LEAT_ASSIGN_OR_RETURN(LoggedGraph sent, log->graph());
  if (sent.version > 0) {
    LEAT_ASSIGN_OR_RETURN(Graph graph, graph_.read(sent));
    graph_.set(std::move(sent), std::move(graph));
  }
  LEAT_ASSIGN_OR_RETURN(auto callables, log->callables());
  callables_.set(std::move(callables));
  LEAT_ASSIGN_OR_RETURN(numbers_.last, log->last_step());
  LEAT_ASSIGN_OR_RETURN(outcomes_, log->outcomes());
  loaded_ = true;
  return {};
}

Status LastingSession::resume(HostGroup& hosts, const std::function<bool()>& ended) {
  stop_->go_on();
  LEAT_RETURN_IF_ERROR(load());
  // A halt() before go_on() is seen here, and a later one in the steps.
  if (ended()) return unavailable(cat("session '", options_.name, "' lets its hosts go"));
  hosts_ = &hosts;
  return rebuild();
}

void LastingSession::suspend() {
  session_.reset();
  hosts_ = nullptr;
}

void LastingSession::forget() {
  suspend();
  log_.retire();
  log_.close();
}

Status LastingSession::rebuild() {
  Status rebuilt = make_session();
  if (rebuilt.ok()) rebuilt = repeat_steps();
  broken_ = rebuilt;
  return rebuilt;
}

Status LastingSession::make_session() {
  session_.reset();
  callables_.forget_inner();
  inner_version_ = 0;
  LEAT_ASSIGN_OR_RETURN(SavedState saved, log_->saved());
  numbers_.saved = numbers_.done = saved.step;
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
  while (true) {
    LEAT_ASSIGN_OR_RETURN(auto step, log_->next_step(numbers_.done));
    if (!step) return {};
    answered(step->answered);
    // Plans are made anew, which a deadline of the client did not allow for.
    step->timeout = std::max(step->timeout, options_.timeout);
    Attempt attempt;
    const StepOutcome outcome = execute(*step, attempt);
    if (outcome.ok()) {
      LEAT_RETURN_IF_ERROR(finish(*step, attempt, outcome));
      continue;
    }
    // A step that was applied once cannot fail by itself.
    if (step->applied || is_of_hosts(outcome.status()))
      return unavailable(cat("repeating step ", step->number, ": ", outcome.status().message()));
    const Status written = log_->write_failure(step->number, step->request, outcome.status());
    if (!written.ok()) return unavailable(written.message());
    outcomes_.insert_or_assign(step->number, KeptOutcome{outcome, step->request});
    if (attempt.ran) return rebuild();
    numbers_.done = step->number;
  }
}

bool LastingSession::is_of_hosts(const Status& error) const {
  return error.code() == Code::unavailable || stop_->halted();
}

Status LastingSession::save() {
  SavedState state;
  state.step = numbers_.done;
  LEAT_ASSIGN_OR_RETURN(state.variables, variables_.read(*hosts_, options_.job));
  state.homes = hosts_->session_job(options_.job)->homes;
  LEAT_RETURN_IF_ERROR(log_->save(state, outcomes_));
  numbers_.saved = numbers_.done;
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

Result<StepHandle> LastingSession::start(const LoggedStep& step, const Signature& signature,
                                         uint64_t stop) {
  Session::Deadline deadline;
  if (step.timeout.count() > 0) deadline = std::chrono::steady_clock::now() + step.timeout;
  const auto finished = [stops = stop_, stop] { stops->finish(stop); };
  session_->set_next_number(step.number - 1);
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

StepOutcome LastingSession::execute(const LoggedStep& step, Attempt& attempt) {
  // A client may not cancel a step that was applied.
  const uint64_t stop = step.applied ? StepStop::kNotCancelled : step.number;
  stop_->begin(stop);
  const auto start_it = [&]() -> Result<StepHandle> {
    LEAT_ASSIGN_OR_RETURN(const Signature signature, callables_.signature_of(step));
    LEAT_ASSIGN_OR_RETURN(const auto touched, graph_.touches(signature, options_.plans));
    attempt.files = touched.files;
    if (!touched.state.empty()) {
      return invalid_argument(cat("session '", options_.name,
                                  "': expected a step with variables alone, received one with ",
                                  touched.state, ", which a lasting session cannot save"));
    }
    return start(step, signature, stop);
  };
  auto started = start_it();
  if (!started.ok()) {
    stop_->end();
    return started.status();
  }
  StepHandle handle = std::move(*started);
  attempt.ran = true;
  // The session itself ends the step at its deadline.
  if (stop_->wait()) handle.cancel();
  stop_->end();
  return handle.wait();
}

Status LastingSession::finish(const LoggedStep& step, const Attempt& attempt,
                              const StepOutcome& outcome) {
  numbers_.done = step.number;
  if (step.number > numbers_.answered)
    outcomes_.insert_or_assign(step.number, KeptOutcome{outcome, step.request});
  // A file may be another one when the step is repeated: a save makes it never be.
  const bool must_save = attempt.files && !step.applied;
  if (must_save) {
    const Status saved = save();
    return saved.ok() ? saved : unavailable(saved.message());
  }
  if (!step.applied) {
    // Without that note, and room for it, the step is in the record all the same.
    const Status written = log_->write_applied(step.number);
    if (!written.ok() && written.code() != Code::resource_exhausted)
      return unavailable(written.message());
  }
  if (numbers_.done - numbers_.saved < options_.save_every) return {};
  const Status saved = save();
  if (saved.ok() || saved.code() == Code::unavailable) return saved;
  // The steps since the last save take longer to repeat, and their record longer.
  warning_ = cat("the variables after step ", numbers_.done, " were not saved: ", saved.message());
  return {};
}

StepOutcome LastingSession::outcome(uint64_t number) const {
  const auto found = outcomes_.find(number);
  if (found != outcomes_.end()) return found->second.outcome;
  if (number == 0 || number > numbers_.last) {
    return failed_precondition(cat("session '", options_.name, "' has not taken step ", number,
                                   ": its last one is ", numbers_.last));
  }
  return failed_precondition(cat("session '", options_.name, "': step ", number,
                                 " was taken, and its client has had the outcome"));
}

void LastingSession::answered(uint64_t number) {
  numbers_.answered = std::max(numbers_.answered, std::min(number, numbers_.last));
  outcomes_.erase(outcomes_.begin(), outcomes_.upper_bound(numbers_.answered));
}

Status LastingSession::break_off(const Status& cause) {
  broken_ = unavailable(cause.message());
  return broken_;
}

StepOutcome LastingSession::failed(const LoggedStep& step, const Status& error,
                                   const Attempt& attempt) {
  if (is_of_hosts(error)) return break_off(error);
  const Status written = log_->write_failure(step.number, step.request, error);
  if (!written.ok()) return break_off(written);
  outcomes_.insert_or_assign(step.number, KeptOutcome{StepOutcome(error), step.request});
  numbers_.done = step.number;
  // The step may have written some of its variables. If this fails, the session is broken.
  if (attempt.ran) (void)rebuild();
  return error;
}

StepOutcome LastingSession::run(LoggedStep step) {
  answered(std::min(step.answered, step.number - std::min<uint64_t>(step.number, 1)));
  if (step.number > 0 && step.number <= numbers_.last) {
    const auto found = outcomes_.find(step.number);
    if (found == outcomes_.end() || found->second.request == SessionLog::checksum_of(step))
      return outcome(step.number);
    return failed_precondition(cat("session '", options_.name, "': step ", step.number,
                                   " was another step, which another client asked for"));
  }
  if (step.number != numbers_.last + 1) {
    return failed_precondition(cat("session '", options_.name, "': expected step ",
                                   numbers_.last + 1, ", received step ", step.number));
  }
  LEAT_RETURN_IF_ERROR(check_outcomes(outcomes_, options_.name));
  LEAT_ASSIGN_OR_RETURN(step.request, log_->write_step(step));
  numbers_.last = step.number;
  Attempt attempt;
  StepOutcome outcome = execute(step, attempt);
  if (!outcome.ok()) return failed(step, outcome.status(), attempt);
  const Status finished = finish(step, attempt, outcome);
  if (!finished.ok()) return break_off(finished);
  return outcome;
}

}  // namespace leat
