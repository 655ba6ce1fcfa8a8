#include "daemon/runner/hosted_run.h"

#include <utility>

#include "daemon/runner/fetched_rows.h"
#include "devices/base/text.h"
#include "devices/core/kernel_ways.h"
#include "devices/core/lost_device.h"
#include "ops/data/dataset.h"
#include "ops/data/dataset_memory.h"
#include "ops/data/saved_files.h"
#include "scheduler/capnp/plan_file.h"
#include "scheduler/graph/device_name.h"
#include "transport/local/local_channel.h"

namespace leat {
namespace {

// Shorter than the 30 s after which the caller stops waiting for the answer.
constexpr std::chrono::seconds kConnectDeadline{28};
// No thread holds a LiveRun longer than a call takes, and all calls end soon after the run has.
constexpr std::chrono::seconds kReleaseDeadline{28};

// Pushes to a partition of this process, which may be released first: the slots are kept, and what
// is pushed is dropped with them.
class SiblingChannel final : public local::LocalChannel {
 public:
  explicit SiblingChannel(std::shared_ptr<SlotTable> slots)
      : LocalChannel(*slots), slots_(std::move(slots)) {}

 private:
  const std::shared_ptr<SlotTable> slots_;
};

}  // namespace

HostedRun::HostedRun(RunnerParts& parts, ControlThreads::Strand strand,
                     const RunnerAssembly& assembly, const RunPart& part,
                     const Sha256Digest& digest, Sibling sibling)
    : parts_(parts),
      strand_(std::move(strand)),
      assembly_(assembly),
      part_(part),
      digest_(digest),
      sibling_(std::move(sibling)) {}

std::string HostedRun::subject() const { return cat("run ", part_.run); }

std::shared_ptr<HostedPartition> HostedRun::partition() const {
  std::lock_guard lock(mutex_);
  return prepared_;
}

Result<std::shared_ptr<LiveRun>> HostedRun::live() const {
  std::lock_guard lock(mutex_);
  if (live_) return live_;
  if (released_) return failed_precondition(cat(subject(), ": it was released"));
  if (!connected_.ok()) return connected_;
  return failed_precondition(cat(subject(), ": expected it to be connected, it is not"));
}

std::shared_ptr<LiveRun> HostedRun::live_or_null() const {
  std::lock_guard lock(mutex_);
  return live_;
}

// --- Prepare.

Result<std::shared_ptr<const Plan>> HostedRun::decode(const Bytes& bytes) const {
  LEAT_ASSIGN_OR_RETURN(const EncodedPlan encoded, unpack_plan(bytes));
  LEAT_ASSIGN_OR_RETURN(Plan plan, decode_plan(encoded, parts_.catalogue));
  if (part_.partition >= plan.partitions.size() || plan.partitions[part_.partition].elsewhere) {
    return invalid_argument(
        cat("plan '", plan.name, "': expected the whole of partition ", part_.partition,
            ", it has ", plan.partitions.size(), " partitions",
            part_.partition < plan.partitions.size() ? ", that one elsewhere" : ""));
  }
  return std::make_shared<const Plan>(std::move(plan));
}

Status HostedRun::prepare(const Bytes& bytes) {
  {
    std::lock_guard lock(mutex_);
    if (released_) return failed_precondition(cat(subject(), ": it was released"));
    if (prepared_) return {};
  }
  // Decoding is slow, and the lock is needed by pulses. The strand keeps a second prepare() away.
  auto plan = decode(bytes);
  if (!plan.ok()) return plan.status().while_doing(cat("preparing ", subject()));
  auto prepared = parts_.host.prepare(*plan, part_.partition);
  if (!prepared.ok()) return prepared.status().while_doing(cat("preparing ", subject()));
  LEAT_RETURN_IF_ERROR(parts_.memory.reserve(part_, prepared->get()->device(),
                                             (*plan)->partitions[part_.partition],
                                             ring_bytes(**plan, part_.partition)));
  // A sibling may push as soon as it steps, which may be before this partition opens its links.
  const Status opened = parts_.host.open_slots(**prepared, siblings(**plan));
  LEAT_RETURN_IF_ERROR(tell_of_loss(**prepared, opened).while_doing(cat("preparing ", subject())));
  std::lock_guard lock(mutex_);
  // Only a plan can tell what state the job has, and RunTable needs to know it after the run is
  // gone.
  for (const PlanResource& resource : (*plan)->partitions[part_.partition].resources) {
    if (resource.op->full_name() != "leat.Variable") more_than_variables_ = true;
  }
  prepared_ = std::move(*prepared);
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
  const Endpoint& here = setup.peers[part_.partition];
  // A setup for another life or task of the runner would open links that its peers refuse.
  if (here.incarnation != parts_.config.incarnation || here.task != assembly_.task) {
    return wrong("peers: expected partition ", part_.partition, " to be task ", assembly_.task,
                 " of incarnation ", parts_.config.incarnation, ", received task ", here.task,
                 " of ", here.incarnation);
  }
  if (const size_t row = row_bytes(plan, part_.partition); row > kMostRowBytes) {
    return resource_exhausted(cat(subject(), ": expected what it fetches to be at most ",
                                  human_bytes(kMostRowBytes), " a step, it is ", human_bytes(row)));
  }
  if (setup.transport != "auto" && setup.transport != "tcp" && setup.transport != "shm")
    return wrong("transport: expected auto, tcp or shm, received '", setup.transport, "'");
  return {};
}

std::unique_ptr<RunLinks> HostedRun::make_links(const RunSetup& setup) {
  RunLinks::Setup links;
  links.cluster = setup.cluster;
  links.assembly = setup.assembly;
  links.run = part_.run;
  links.plan = setup.plan;
  links.partition = part_.partition;
  links.peers = setup.peers;
  links.transport = setup.transport;
  links.key = assembly_.key;
  links.seal = parts_.config.seal;
  links.may_use_tcp = parts_.config.may_use_tcp;
  links.gpu_wires = parts_.config.gpu_wires;
  links.wire_memory = parts_.wire_memory;
  // A link calls this on any thread, and must not wait, so the strand does the work. The run may be
  // gone by then.
  links.on_failure = [strand = strand_, self = weak_from_this()]() mutable {
    strand.post([self] {
      const auto run = self.lock();
      if (const auto live = run ? run->live_or_null() : nullptr) live->heed_links();
    });
  };
  links.on_unopened = parts_.on_failed_link;
  links.here = siblings(prepared_->plan());
  return std::make_unique<RunLinks>(std::move(links), parts_.threads);
}

Status HostedRun::connect(const RunSetup& setup) {
  {
    std::lock_guard lock(mutex_);
    if (released_ || !prepared_) {
      return failed_precondition(cat(subject(), ": expected it to be prepared, ",
                                     released_ ? "it was released" : "it is not"));
    }
    if (links_) return connected_;  // the same call came before
    // cancel() sets the cause before it takes the lock: either this line sees the cause, or
    // cancel() sees the links that are made below.
    LEAT_RETURN_IF_ERROR(cause_->get());
    LEAT_RETURN_IF_ERROR(check(setup, prepared_->plan()));
    links_ = make_links(setup);
    connected_ = failed_precondition(cat(subject(), ": expected it to be connected, it is not"));
  }
  // Without the lock, because this waits for the peers, and cancel() has to get at the links
  // meanwhile.
  const Status status = tell_of_loss(*prepared_, bind(setup));
  std::lock_guard lock(mutex_);
  connected_ = status.while_doing(cat("connecting ", subject()));
  return connected_;
}

// The master and the peers see it as the loss of the runner, which ends.
Status HostedRun::tell_of_loss(const HostedPartition& prepared, const Status& status) {
  Device& device = parts_.host.device(prepared.device());
  const Status told = as_loss_of(device, status);
  if (told.code() == Code::unavailable && is_lost(device) && parts_.on_failed_device)
    parts_.on_failed_device(told);
  return told;
}

Status HostedRun::bind(const RunSetup& setup) {
  // A data set that is not here is an error before any peer is made to wait.
  LEAT_ASSIGN_OR_RETURN(const std::string root, data_root(setup.data_root));
  const Deadline deadline = std::chrono::steady_clock::now() + kConnectDeadline;
  LEAT_ASSIGN_OR_RETURN(RunLinks::Links opened, links_->open(parts_.host, *prepared_, deadline));
  std::vector<Link*> links;
  for (const auto& link : opened) {
    if (link) links.push_back(link.get());
  }
  Device& device = parts_.host.device(prepared_->device());
  const Status bound = as_loss_of(device, bind_host(setup, root, std::move(opened), deadline));
  // The partition owns the links now, also after an error. The peers get the reason at once, and do
  // not wait for values.
  if (!bound.ok()) {
    for (Link* link : links) link->abort(bound);
    return bound;
  }
  // Calls may hold the run after release() has given it up. The promise tells when the last one is
  // over.
  const auto freed = std::make_shared<std::promise<void>>();
  const std::shared_ptr<LiveRun> live(
      new LiveRun(parts_, assembly_.number, part_, prepared_, std::move(links), cause_),
      [freed](LiveRun* run) {
        delete run;
        freed->set_value();
      });
  live->start();
  {
    std::lock_guard lock(mutex_);
    live_ = live;
    freed_ = freed->get_future();
  }
  // The faults of the job set their gate now, before the master can allow a step.
  if (setup.options.trains && parts_.on_training) parts_.on_training(live);
  // A link may have failed before there was a run that it could end.
  live->heed_links();
  return {};
}

std::vector<bool> HostedRun::siblings(const Plan& plan) const {
  const std::string own = task_of(plan.partitions[part_.partition].device);
  std::vector<bool> here;
  for (uint32_t p = 0; p < plan.partitions.size(); ++p)
    here.push_back(p != part_.partition && task_of(plan.partitions[p].device) == own);
  return here;
}

Status HostedRun::reach_siblings(std::vector<std::unique_ptr<Channel>>& channels) const {
  const Plan& plan = prepared_->plan();
  const std::vector<bool> here = siblings(plan);
  for (const PlanEdge& edge : plan.edges) {
    if (edge.from != part_.partition || !here[edge.to] || channels[edge.to]) continue;
    const auto sibling = sibling_(edge.to);
    if (!sibling) {
      return failed_precondition(
          cat(subject(), ": expected partition ", edge.to, " to be prepared, it is not"));
    }
    channels[edge.to] = std::make_unique<SiblingChannel>(sibling->shared_slots());
  }
  return {};
}

Status HostedRun::bind_host(const RunSetup& setup, const std::string& root, RunLinks::Links links,
                            Deadline deadline) {
  std::vector<std::unique_ptr<Channel>> channels;
  for (auto& link : links) channels.push_back(std::move(link));
  LEAT_RETURN_IF_ERROR(reach_siblings(channels));
  const std::string& job = parts_.config.job;
  // The kernels read these settings from the job's resources while they are made. Another run's
  // settings must not come between.
  std::lock_guard lock(parts_.binding);
  JobResources& resources = parts_.host.resources(job);
  resources.set_data_root(root);
  set_saved_files(resources, parts_.saved_files);
  Dataset::limit_reading(resources, parts_.reading(deadline, assembly_.number));
  limit_dataset_memory(resources,
                       [&memory = parts_.memory](const std::string& name, uint64_t bytes) {
                         return memory.reserve_data(name, bytes);
                       });
  LEAT_RETURN_IF_ERROR(parts_.host.connect(*prepared_, std::move(channels), job, setup.options));
  // The kernels are made: a library that refused some of them shows here.
  log_ways(prepared_->device());
  return {};
}

void HostedRun::log_ways(size_t number) const {
  const Device& device = parts_.host.device(number);
  const auto ways = device.ways();
  if (const std::string text = ways ? ways->new_text() : ""; !text.empty())
    parts_.log.info(device.name(), ", its kernels so far: ", text);
}

// A plan that reads no data gets the runner's own directory, which has no data that it could read.
Result<std::string> HostedRun::data_root(const std::string& name) const {
  return name.empty() ? parts_.config.directory : find_dataset(parts_.config, name);
}

// --- The end.

void HostedRun::cancel(const Status& cause) {
  cause_->set(cause);
  std::lock_guard lock(mutex_);
  if (links_) links_->cancel(cause_->get());
}

void HostedRun::end() {
  if (const auto live = live_or_null()) live->end();
}

void HostedRun::release() {
  cancel(cancelled(cat(subject(), " was released")));
  end();
  std::shared_ptr<LiveRun> live;
  std::shared_ptr<HostedPartition> prepared;
  std::future<void> freed;
  {
    std::lock_guard lock(mutex_);
    // From here on all calls see a released run.
    live.swap(live_);
    // The counts of the run must not fall while it is being released.
    if (!released_) released_ = live ? Work{live->turns(), live->traffic()} : Work();
    prepared.swap(prepared_);
    freed = std::move(freed_);
  }
  if (live) {
    live->release();
    // Rows of kernels are recorded in the first steps.
    log_ways(prepared->device());
    std::lock_guard lock(mutex_);
    released_ = Work{live->turns(), live->traffic()};
  }
  // This thread gives up its references first, so that the wait below is only for calls that still
  // hold the run.
  live.reset();
  prepared.reset();
  // Kernels use the job's resources until they are destroyed, and the caller may drop those next.
  if (freed.valid() && freed.wait_for(kReleaseDeadline) != std::future_status::ready)
    parts_.log.error(subject(), ": a call still holds it ", kReleaseDeadline.count(),
                     " s after its release");
  parts_.memory.release(part_);
}

// --- What is told.

bool HostedRun::keeps_more_than_variables() const {
  std::lock_guard lock(mutex_);
  return more_than_variables_;
}

HostedRun::Work HostedRun::work() const {
  if (const auto live = live_or_null()) return {live->turns(), live->traffic()};
  std::lock_guard lock(mutex_);
  return released_.value_or(Work());
}

}  // namespace leat
