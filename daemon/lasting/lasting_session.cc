#include "daemon/lasting/lasting_session.h"

#include <algorithm>
#include <filesystem>

#include "daemon/hosts/session_job.h"
#include "daemon/session/signature.h"
#include "devices/base/text.h"
#include "ops/graph/attrs.h"
#include "ops/graph/op.h"
#include "ops/graph/validate.h"
#include "scheduler/graph/device_name.h"
#include "scheduler/graph/prune.h"

namespace leat {
namespace {

// The outcomes that are kept for a client that does not say that it has them.
constexpr size_t kMostOutcomes = 4'096;
constexpr size_t kMostBytes = size_t{1} << 30;

}  // namespace

LastingSession::LastingSession(SessionOptions options, ReadGraph read_graph, std::string path)
    : options_(std::move(options)), read_graph_(std::move(read_graph)), path_(std::move(path)) {}
LastingSession::~LastingSession() = default;

// --- the hosts come and go ---

Status LastingSession::open_log() {
  if (log_ != nullptr) return {};
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), error);
  if (error) return unavailable(cat("'", path_, "': its folder: ", error.message()));
  LEAT_ASSIGN_OR_RETURN(auto log, SessionLog::open(path_));
  LEAT_ASSIGN_OR_RETURN(graph_, log->graph());
  LEAT_ASSIGN_OR_RETURN(callables_, log->callables());
  LEAT_ASSIGN_OR_RETURN(last_, log->last_step());
  LEAT_ASSIGN_OR_RETURN(outcomes_, log->outcomes());
  log_ = std::move(log);
  return {};
}

Status LastingSession::resume(HostGroup& hosts, const std::function<bool()>& ended) {
  {
    const std::lock_guard lock(mutex_);
    halted_ = false;
  }
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

void LastingSession::halt() {
  const std::lock_guard lock(mutex_);
  halted_ = true;
  changed_.notify_all();
}

void LastingSession::forget() {
  suspend();
  log_.reset();
  std::error_code ignored;
  for (const char* end : {"", "-wal", "-shm"}) std::filesystem::remove(path_ + end, ignored);
}

Status LastingSession::rebuild() {
  broken_ = true;  // until all of it has succeeded
  session_.reset();
  placed_.clear();
  inner_callables_.clear();
  inner_version_ = 0;
  LEAT_ASSIGN_OR_RETURN(to_place_, log_->saved());
  saved_at_ = to_place_.step;
  {
    const auto job = hosts_->session_job(options_.job);
    const std::unique_lock compiling(job->compiling,
                                     std::chrono::steady_clock::now() + options_.timeout);
    if (!compiling.owns_lock())
      return deadline_exceeded(cat("session '", options_.name, "': a plan of it is being made"));
    for (const auto& [resource, device] : to_place_.homes) job->homes.emplace(resource, device);
  }
  LEAT_ASSIGN_OR_RETURN(session_, Session::open(*hosts_, options_));
  session_->set_on_plan([this](const Plan& plan) { return place(plan); });
  if (graph_.version > 0) LEAT_RETURN_IF_ERROR(extend_inner());
  for (const LoggedCallable& callable : callables_) {
    if (callable.released) continue;
    LEAT_ASSIGN_OR_RETURN(inner_callables_[callable.id],
                          session_->make_callable(callable.signature));
  }
  LEAT_RETURN_IF_ERROR(repeat_steps());
  broken_ = false;
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

bool LastingSession::is_of_hosts(const Status& error) {
  const std::lock_guard lock(mutex_);
  return error.code() == Code::unavailable || halted_;
}

// --- variables ---

Status LastingSession::place(const Plan& plan) {
  std::map<std::string, std::set<std::string>> wanted;  // by task
  for (const Partition& partition : plan.partitions) {
    const std::string task = task_of(partition.device);
    for (const PlanResource& resource : partition.resources) {
      if (resource.op->full_name() != "leat.Variable") continue;
      std::string name(attr_string(resource.attrs, "name"));
      if (!placed_.contains({task, name})) wanted[task].insert(std::move(name));
    }
  }
  for (const auto& [task, names] : wanted) {
    for (HostHandle* host : hosts_->hosts()) {
      if (host->task() == task) LEAT_RETURN_IF_ERROR(place_on(*host, names));
    }
  }
  return {};
}

// A host may still hold the variables of an earlier run of the session, so that those without a
// saved value are written, too.
Status LastingSession::place_on(HostHandle& host, const std::set<std::string>& names) {
  LEAT_ASSIGN_OR_RETURN(auto held, host.read_variables(options_.job));
  auto& saved = to_place_.variables[host.task()];
  std::map<std::string, Tensor> values;
  for (const std::string& name : names) {
    const auto found = held.find(name);
    if (found == held.end()) continue;
    if (const auto value = saved.find(name); value != saved.end()) {
      values.emplace(name, std::move(value->second));
      saved.erase(value);
    } else {
      values.emplace(name, Tensor(found->second.dtype(), found->second.shape()));
    }
  }
  if (!values.empty())
    LEAT_RETURN_IF_ERROR(host.write_variables(options_.job, values, Restore::some, {}));
  for (const std::string& name : names) placed_.emplace(host.task(), name);
  return {};
}

Status LastingSession::save() {
  SavedState state;
  state.step = last_;
  state.variables = to_place_.variables;
  for (HostHandle* host : hosts_->hosts()) {
    LEAT_ASSIGN_OR_RETURN(auto held, host->read_variables(options_.job));
    for (auto& [name, value] : held) {
      if (placed_.contains({host->task(), name}))
        state.variables[host->task()].insert_or_assign(name, std::move(value));
    }
  }
  state.homes = hosts_->session_job(options_.job)->homes;
  LEAT_RETURN_IF_ERROR(log_->save(state, outcomes_));
  saved_at_ = last_;
  return {};
}

// --- the graph ---

Status LastingSession::extend_inner() {
  if (!read_) {
    LEAT_ASSIGN_OR_RETURN(Graph graph, read_graph_(graph_));
    read_.emplace(std::move(graph));
  }
  LEAT_ASSIGN_OR_RETURN(inner_version_, session_->extend(inner_version_, *read_));
  return {};
}

Result<uint64_t> LastingSession::extend(LoggedGraph graph) {
  // The answer to the same call was lost.
  if (graph.version + 1 == graph_.version && graph.file == graph_.file) return graph_.version;
  if (graph.version != graph_.version) {
    return failed_precondition(cat("session '", options_.name, "': expected to extend version ",
                                   graph_.version, " of the graph, received version ",
                                   graph.version));
  }
  LEAT_ASSIGN_OR_RETURN(Graph read, read_graph_(graph));
  LEAT_ASSIGN_OR_RETURN(inner_version_, session_->extend(inner_version_, read));
  ++graph.version;
  const Status written = log_->write_graph(graph);
  if (!written.ok()) {
    // The hosts forget the graph that the record has not.
    (void)rebuild();
    return written;
  }
  graph_ = std::move(graph);
  read_.emplace(std::move(read));
  touches_.clear();
  return graph_.version;
}

Result<CallableId> LastingSession::make_callable(const Signature& signature) {
  LEAT_ASSIGN_OR_RETURN(const CallableId inner, session_->make_callable(signature));
  const CallableId id = callables_.empty() ? 1 : callables_.back().id + 1;
  const Status written = log_->write_callable(id, signature);
  if (!written.ok()) {
    (void)session_->release_callable(inner);
    return written;
  }
  callables_.push_back({id, signature, false});
  inner_callables_[id] = inner;
  return id;
}

Result<CallableId> LastingSession::inner_callable(CallableId id) const {
  const auto found = inner_callables_.find(id);
  if (found != inner_callables_.end()) return found->second;
  const bool was = !callables_.empty() && id >= 1 && id <= callables_.back().id;
  const std::string text = cat("session '", options_.name, "': callable ", id,
                               was ? " was released" : ": there is none of that number");
  return was ? failed_precondition(text) : invalid_argument(text);
}

// Steps that are to be repeated may name it, so that the record keeps its signature.
Status LastingSession::release_callable(CallableId id) {
  LEAT_ASSIGN_OR_RETURN(const CallableId inner, inner_callable(id));
  LEAT_RETURN_IF_ERROR(log_->write_release(id));
  callables_[id - 1].released = true;
  inner_callables_.erase(id);
  return session_->release_callable(inner);
}

// --- steps ---

Result<Signature> LastingSession::signature_of(const LoggedStep& step) const {
  if (const auto* signature = std::get_if<Signature>(&step.what)) return *signature;
  const CallableId id = std::get<CallableId>(step.what);
  if (id < 1 || id > callables_.size()) return inner_callable(id).status();
  return callables_[id - 1].signature;
}

Result<LastingSession::Touches> LastingSession::touches(const LoggedStep& step) {
  LEAT_ASSIGN_OR_RETURN(const Signature signature, signature_of(step));
  const std::string key = cat(join(signature.feeds, "\n"), "\n\n", join(signature.fetches, "\n"),
                              "\n\n", join(signature.targets, "\n"));
  if (const auto found = touches_.find(key); found != touches_.end()) return found->second;
  LEAT_ASSIGN_OR_RETURN(const Touches made, find_touches(signature));
  // The client chooses the signatures, so that there may be any number.
  if (touches_.size() >= options_.plans) touches_.clear();
  touches_.emplace(key, made);
  return made;
}

Result<LastingSession::Touches> LastingSession::find_touches(const Signature& signature) const {
  Touches out;
  if (!read_) return out;
  Graph graph = *read_;
  LEAT_RETURN_IF_ERROR(validate(graph));
  LEAT_ASSIGN_OR_RETURN(const GraphNames names, GraphNames::of(graph));
  LEAT_ASSIGN_OR_RETURN(Borders borders, names.resolve(graph, signature));
  LEAT_ASSIGN_OR_RETURN(const Graph part, prune(graph, borders));
  for (NodeId id = 0; id < part.nodes(); ++id) {
    const OpDef& op = *part.node(id).op;
    const std::string name = op.full_name();
    if (name == "leat.Restore") out.files = true;
    if (op.make_resource && name != "leat.Variable") out.queue = true;
  }
  return out;
}

Result<StepHandle> LastingSession::start(const LoggedStep& step) {
  Session::Deadline deadline;
  if (step.timeout.count() > 0) deadline = std::chrono::steady_clock::now() + step.timeout;
  const auto finished = [this] {
    const std::lock_guard lock(mutex_);
    over_ = true;
    changed_.notify_all();
  };
  session_->set_next_number(step.number - 1);
  LEAT_ASSIGN_OR_RETURN(const Signature signature, signature_of(step));
  if (const auto* id = std::get_if<CallableId>(&step.what)) {
    const auto inner = inner_callable(*id);
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
  {
    const std::lock_guard lock(mutex_);
    running_ = step.number;
    over_ = cancelled_ = false;
  }
  LEAT_ASSIGN_OR_RETURN(StepHandle handle, start(step));
  ran = true;
  std::unique_lock lock(mutex_);
  // The session itself ends the step at its deadline.
  changed_.wait(lock, [&] { return over_ || cancelled_ || halted_; });
  const bool stop = !over_;
  running_ = 0;
  lock.unlock();
  if (stop) handle.cancel();
  return handle.wait();
}

void LastingSession::cancel(uint64_t number) {
  const std::lock_guard lock(mutex_);
  if (running_ != number) return;
  cancelled_ = true;
  changed_.notify_all();
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
  const auto touched = touches(step);
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
