#include "daemon/runner/hosted_run.h"

#include <cstring>

#include "devices/base/failpoint.h"
#include "devices/base/text.h"
#include "ops/data/dataset.h"
#include "ops/data/dataset_memory.h"
#include "scheduler/capnp/plan_file.h"
#include "scheduler/runtime/profile.h"

namespace leat {
namespace {

// Answers before its caller gives up, after 30 s.
constexpr std::chrono::seconds kConnectDeadline{28};

}  // namespace

Result<std::string> find_dataset(const RunnerConfig& config, const std::string& name) {
  const auto found = config.datasets.find(name);
  if (found != config.datasets.end()) return found->second;
  // A job file that `leat train` reads names the folder itself.
  for (const auto& [known, path] : config.datasets) {
    if (path == name) return path;
  }
  const auto root = config.datasets.find("/");
  if (name.starts_with("/") && root != config.datasets.end()) {
    return resolve_below(root->second, name.substr(name.find_first_not_of('/')));
  }
  std::vector<std::string> names;
  for (const auto& [known, path] : config.datasets) names.push_back(known);
  return invalid_argument(cat("data set '", name, "': expected one that ", config.worker, " has (",
                              names.empty() ? "it has none" : join(names, ", "), ")",
                              did_you_mean(name, names)));
}

ReadingLimits RunnerParts::reading(Deadline deadline, uint64_t assembly) const {
  ReadingLimits limits{input_patience, deadline, {}};
  limits.on_given_up = [assembly, told = on_starved](const std::string& how,
                                                  std::chrono::milliseconds waited) {
    if (told) told({assembly, how, waited});
  };
  return limits;
}

HostedRun::HostedRun(RunnerParts& parts, ControlThreads::Strand strand, const RunnerAssembly& assembly,
                     uint64_t id, uint32_t partition, const Sha256Digest& digest)
    : parts_(parts),
      strand_(std::move(strand)),
      assembly_(assembly),
      id_(id),
      partition_(partition),
      digest_(digest) {}

Result<std::shared_ptr<const HostedRun::Live>> HostedRun::live() const {
  std::lock_guard lock(mutex_);
  if (live_) return live_;
  if (released_) return failed_precondition(cat(subject(), ": it was released"));
  if (!connected_.ok()) return connected_;
  return failed_precondition(cat(subject(), ": expected it to be connected, it is not"));
}

std::shared_ptr<const HostedRun::Live> HostedRun::live_or_null() const {
  std::lock_guard lock(mutex_);
  return live_;
}

// --- Prepare.

Result<std::shared_ptr<const Plan>> HostedRun::decode(const Bytes& bytes) const {
  LEAT_ASSIGN_OR_RETURN(const EncodedPlan encoded, unpack_plan(bytes));
  LEAT_ASSIGN_OR_RETURN(Plan plan, decode_plan(encoded, parts_.catalogue));
  if (partition_ >= plan.partitions.size() || plan.partitions[partition_].elsewhere) {
    return invalid_argument(cat("plan '", plan.name, "': expected the whole of partition ",
                                partition_, ", it has ", plan.partitions.size(), " partitions",
                                partition_ < plan.partitions.size() ? ", that one elsewhere" : ""));
  }
  const std::string& device = plan.partitions[partition_].device;
  if (device != parts_.worker.device_name()) {
    return invalid_argument(cat("plan '", plan.name, "': partition ", partition_, ": expected ",
                                parts_.worker.device_name(), ", it is for ", device));
  }
  return std::make_shared<const Plan>(std::move(plan));
}

Status HostedRun::prepare(const Bytes& bytes) {
  {
    std::lock_guard lock(mutex_);
    if (released_) return failed_precondition(cat(subject(), ": it was released"));
    if (prepared_) return {};
  }
  auto plan = decode(bytes);
  if (!plan.ok()) return plan.status().while_doing(cat("preparing ", subject()));
  LEAT_RETURN_IF_ERROR(parts_.memory.reserve(id_, (*plan)->partitions[partition_],
                                             turn_log_bytes(**plan, partition_)));
  std::lock_guard lock(mutex_);
  for (const PlanResource& resource : (*plan)->partitions[partition_].resources) {
    if (resource.op->full_name() != "leat.Variable") more_than_variables_ = true;
  }
  prepared_ = parts_.worker.prepare(std::move(*plan), partition_);
  return {};
}

// --- Connect.

Status HostedRun::check(const RunSetup& setup, const Plan& plan) const {
  const auto wrong = [&](const auto&... text) {
    return invalid_argument(cat(subject(), ": setup: ", text...));
  };
  if (setup.assembly != assembly_.number)
    return wrong("assembly: expected ", assembly_.number, ", received ", setup.assembly);
  if (setup.peers.size() != plan.partitions.size()) {
    return wrong("peers: expected one for each of ", plan.partitions.size(),
                 " partitions, received ", setup.peers.size());
  }
  const Endpoint& here = setup.peers[partition_];
  if (here.incarnation != parts_.config.incarnation || here.task != assembly_.task) {
    return wrong("peers: expected partition ", partition_, " to be task ", assembly_.task,
                 " of incarnation ", parts_.config.incarnation, ", received task ", here.task,
                 " of ", here.incarnation);
  }
  if (const size_t row = row_bytes(plan, partition_); row > kMostRowBytes) {
    return resource_exhausted(cat(subject(), ": expected what it fetches to be at most ",
                                  human_bytes(kMostRowBytes), " a step, it is ", human_bytes(row)));
  }
  if (setup.transport != "auto" && setup.transport != "tcp" && setup.transport != "shm")
    return wrong("transport: expected auto, tcp or shm, received '", setup.transport, "'");
  return {};
}

Status HostedRun::connect(const RunSetup& setup) {
  {
    std::lock_guard lock(mutex_);
    if (released_ || !prepared_) {
      return failed_precondition(cat(subject(), ": expected it to be prepared, ",
                                     released_ ? "it was released" : "it is not"));
    }
    if (links_) return connected_;  // once more
    if (!cause_.ok()) return cause_;
    LEAT_RETURN_IF_ERROR(check(setup, prepared_->plan()));
    RunLinks::Setup links;
    links.cluster = setup.cluster;
    links.assembly = setup.assembly;
    links.run = id_;
    links.plan = setup.plan;
    links.partition = partition_;
    links.peers = setup.peers;
    links.transport = setup.transport;
    links.key = assembly_.key;
    links.may_use_tcp = parts_.config.may_use_tcp;
    links.on_failure = [strand = strand_, self = weak_from_this()]() mutable {
      strand.post([self] {
        if (const auto run = self.lock()) run->heed_links();
      });
    };
    links.on_unopened = parts_.on_failed_link;
    links_ = std::make_unique<RunLinks>(std::move(links), parts_.threads);
    connected_ = failed_precondition(cat(subject(), ": expected it to be connected, it is not"));
  }
  const Status status = bind(setup);
  std::lock_guard lock(mutex_);
  connected_ = status.while_doing(cat("connecting ", subject()));
  return connected_;
}

Status HostedRun::bind(const RunSetup& setup) {
  LEAT_ASSIGN_OR_RETURN(const std::string root, data_root(setup.data_root));
  const Deadline deadline = std::chrono::steady_clock::now() + kConnectDeadline;
  LEAT_ASSIGN_OR_RETURN(RunLinks::Links links, links_->open(parts_.worker, *prepared_, deadline));
  auto live = std::make_shared<Live>();
  for (const auto& link : links) {
    if (link) live->links.push_back(link.get());
  }
  const Status bound = bind_worker(setup, root, std::move(links), deadline);
  if (!bound.ok()) {
    for (Link* link : live->links) link->abort(bound);
    return bound;
  }
  live->run = prepared_;
  live->log = std::make_shared<TurnLog>(parts_.worker, *prepared_, parts_.news);
  live->log->start();
  parts_.worker.start(*prepared_);
  {
    std::lock_guard lock(mutex_);
    live_ = std::move(live);
  }
  if (setup.options.trains && parts_.on_training) parts_.on_training(shared_from_this());
  heed_links();
  return {};
}

Status HostedRun::bind_worker(const RunSetup& setup, const std::string& root, RunLinks::Links links,
                              Deadline deadline) {
  std::vector<std::unique_ptr<Channel>> channels;
  for (auto& link : links) channels.push_back(std::move(link));
  const std::string& job = parts_.config.job;
  std::lock_guard lock(parts_.binding);
  JobResources& resources = parts_.worker.resources(job);
  resources.set_data_root(root);
  Dataset::limit_reading(resources, parts_.reading(deadline, assembly_.number));
  limit_dataset_memory(resources,
                       [&memory = parts_.memory](const std::string& name, uint64_t bytes) {
                         return memory.reserve_data(name, bytes);
                       });
  return parts_.worker.connect(*prepared_, std::move(channels), job, setup.options);
}

// Of a plan that reads no data: a directory without any, so that it cannot read what it pleases.
Result<std::string> HostedRun::data_root(const std::string& name) const {
  return name.empty() ? parts_.config.directory : find_dataset(parts_.config, name);
}

// --- Steps.

Status HostedRun::set_feed(const Live& live, uint32_t index, const Bytes& value) const {
  const std::vector<PlanBorder>& feeds = live.run->plan().feeds;
  if (index >= feeds.size()) {
    return invalid_argument(
        cat(subject(), ": feed ", index, ": expected one of ", feeds.size(), " feeds"));
  }
  const PlanBorder& feed = feeds[index];
  const auto bytes =
      checked_mul(feed.shape.elements(), static_cast<int64_t>(dtype_size(feed.dtype)));
  if (!bytes || value.size() != static_cast<uint64_t>(*bytes)) {
    return invalid_argument(cat(subject(), ": feed '", feed.name, "': expected ",
                                bytes ? cat(*bytes) : "over 2^63", " bytes, received ",
                                value.size()));
  }
  LEAT_ASSIGN_OR_RETURN(const Tensor tensor, Tensor::create(feed.dtype, feed.shape));
  if (!value.empty()) std::memcpy(tensor.raw(), value.data(), value.size());
  return live.run->run().set_feed(index, tensor);
}

Status HostedRun::extend(uint64_t limit, const std::vector<std::pair<uint32_t, Bytes>>& feeds) {
  LEAT_ASSIGN_OR_RETURN(const auto live, this->live());
  LEAT_RETURN_IF_ERROR(live->run->run().status());
  {
    std::lock_guard lock(mutex_);
    if (limit <= wanted_) return {};
  }
  if (!feeds.empty() && !live->log->idle())
    return failed_precondition(cat(subject(), ": expected no feeds while it steps"));
  for (const auto& [index, value] : feeds) LEAT_RETURN_IF_ERROR(set_feed(*live, index, value));
  {
    std::lock_guard lock(mutex_);
    wanted_ = std::max(wanted_, limit);
    limit = std::min(wanted_, gate_);
  }
  live->log->grant(limit);
  return {};
}

Result<uint64_t> HostedRun::hold() {
  LEAT_ASSIGN_OR_RETURN(const auto live, this->live());
  const uint64_t limit = live->log->hold();
  std::lock_guard lock(mutex_);
  return wanted_ = limit;
}

Result<uint64_t> HostedRun::fence(uint64_t limit) {
  LEAT_ASSIGN_OR_RETURN(const auto live, this->live());
  {
    std::lock_guard lock(mutex_);
    wanted_ = limit;
    limit = std::min(limit, gate_);
  }
  live->log->fence(limit);
  return limit;
}

void HostedRun::set_gate(uint64_t step) {
  std::shared_ptr<const Live> live;
  uint64_t limit;
  {
    std::lock_guard lock(mutex_);
    gate_ = step;
    live = live_;
    limit = std::min(wanted_, gate_);
  }
  if (live) live->log->grant(limit);
}

Status HostedRun::await_step(uint64_t step, std::chrono::steady_clock::time_point deadline) {
  LEAT_ASSIGN_OR_RETURN(const auto live, this->live());
  const uint64_t first = live->run->run().options().first_step;
  return live->run->run().finished().wait(step > first ? step - first : 0, deadline);
}

Status HostedRun::feed(uint32_t index, const Bytes& value) {
  LEAT_ASSIGN_OR_RETURN(const auto live, this->live());
  if (!live->log->idle())
    return failed_precondition(cat(subject(), ": expected no feed while it steps"));
  return set_feed(*live, index, value);
}

Status HostedRun::renumber(uint64_t step) {
  LEAT_ASSIGN_OR_RETURN(const auto live, this->live());
  if (!live->log->idle())
    return failed_precondition(cat(subject(), ": expected no new number while it steps"));
  live->run->run().renumber(step);
  return {};
}

Status HostedRun::between_steps(uint64_t step, std::function<void()> between) {
  LEAT_ASSIGN_OR_RETURN(const auto live, this->live());
  return parts_.worker.between_steps(*live->run, step, std::move(between));
}

// --- The end.

void HostedRun::cancel(const Status& cause) {
  std::lock_guard lock(mutex_);
  if (cause_.ok()) cause_ = cause;
  if (links_) links_->cancel(cause_);
}

void HostedRun::end() {
  const auto live = live_or_null();
  if (!live) return;
  Status cause;
  {
    std::lock_guard lock(mutex_);
    cause = cause_;
  }
  live->run->run().abort(cause);
}

void HostedRun::release() {
  cancel(cancelled(cat(subject(), " was released")));
  end();
  std::shared_ptr<const Live> live;
  std::shared_ptr<HostedPartition> prepared;
  {
    std::lock_guard lock(mutex_);
    released_ = true;
    live.swap(live_);
    prepared.swap(prepared_);
  }
  if (live) {
    parts_.worker.release(*live->run);
    std::lock_guard lock(mutex_);
    final_turns_ = live->run->run().turns();
  }
  live.reset();
  prepared.reset();
  parts_.memory.release(id_);
}

// --- What is told.

bool HostedRun::keeps_more_than_variables() const {
  std::lock_guard lock(mutex_);
  return more_than_variables_;
}

uint64_t HostedRun::turns() const {
  const auto live = live_or_null();
  if (live) return live->run->run().turns();
  std::lock_guard lock(mutex_);
  return final_turns_;
}

uint64_t HostedRun::tiles_done() const {
  const auto live = live_or_null();
  return live && !live->run->run().options().endless ? live->run->run().tiles_done() : 0;
}

bool HostedRun::stepping() const {
  const auto live = live_or_null();
  return live && !live->run->run().options().endless && !live->log->idle();
}

Status HostedRun::settle(Deadline deadline) const {
  const auto live = live_or_null();
  if (!live) return {};
  Run& run = live->run->run();
  if (run.options().endless) return {};
  const Status status =
      run.finished().wait(live->log->granted() - run.options().first_step, deadline);
  if (run.finished().failed() || status.ok()) return {};
  return deadline_exceeded(cat(subject(), ": expected its allowed steps to be finished, it is ",
                               waits_for().empty() ? "computing" : waits_for()));
}

std::string HostedRun::waits_for() const {
  const auto live = live_or_null();
  return live ? parts_.worker.waits_for(*live->run) : "";
}

bool HostedRun::waits_for_peer() const {
  const auto live = live_or_null();
  return live && parts_.worker.waits_for_peer(*live->run);
}

std::string HostedRun::profile() const {
  const auto live = live_or_null();
  return live ? profile_text(live->run->run().program()) : "";
}

bool HostedRun::take_report(RunReport& report, size_t most) {
  const auto live = live_or_null();
  if (!live) return false;
  report.run = id_;
  if (!live->log->take(report, most)) return false;
  if (!report.failure.ok()) {
    report.derived = derived(*live, report.failure);
    parts_.log.log(report.derived ? LogLevel::debug : LogLevel::error,
                   cat(subject(), " failed: ", report.failure.message()));
  }
  return true;
}

// A link says "worker-1 failed: ..." if and only if its peer told it so before it went.
bool HostedRun::derived(const Live& live, const Status& failure) const {
  {
    std::lock_guard lock(mutex_);
    if (!cause_.ok() && failure.message() == cause_.message()) return true;
  }
  for (const Link* link : live.links) {
    const std::string told = link->status().message();
    if (told.starts_with(link->peer() + " failed: ") &&
        failure.message().find(told) != std::string::npos)
      return true;
  }
  return false;
}

// On the strand. Ends the run if one of its links has failed, also if it needs none now.
void HostedRun::heed_links() {
  const auto live = live_or_null();
  if (!live || !LEAT_FAILPOINT("runner/heed_links").ok()) return;
  for (const Link* link : live->links) {
    const Status status = link->status();
    if (status.ok()) continue;
    live->run->run().abort(status);
    tell_of(*live, *link);
  }
}

// Once. A peer that is done with all its steps may have let go of the link; and so may those do
// whose run is to end. The master that ends it may do so for what this link did to the run.
void HostedRun::tell_of(const Live& live, const Link& link) {
  const Run& run = live.run->run();
  const bool steps = run.options().first_step + run.turns() < live.log->granted();
  if (link.fault() == LinkFault::none || !steps || !parts_.on_failed_link) return;
  const std::string how = link.status().message();
  const bool ended_it = run.status().message().find(how) != std::string::npos;
  {
    std::lock_guard lock(mutex_);
    if ((!cause_.ok() && !ended_it) || !told_of_.insert(link.peer()).second) return;
  }
  parts_.on_failed_link({assembly_.number, link.peer(), link.fault(), how});
}

}  // namespace leat
