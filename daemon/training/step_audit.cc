#include "daemon/training/step_audit.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "devices/base/counted.h"
#include "devices/base/philox.h"
#include "devices/base/text.h"

namespace leat {
namespace {

// Tells the stream of the audits from those of the nodes of a graph, which count from 0.
constexpr uint64_t kAuditStream = uint64_t{0x61756469} << 32;
constexpr size_t kMostComputations = 3;

// The same hosts in another order. The handles belong to the other group.
HostGroup rotated(const HostGroup& group, size_t hosts, size_t rotation) {
  std::vector<std::shared_ptr<HostHandle>> order;
  for (size_t h = 0; h < hosts; ++h) {
    HostHandle* const host = group.hosts()[(h + rotation) % hosts];
    order.emplace_back(std::shared_ptr<HostHandle>(), host);
  }
  return HostGroup(std::move(order));
}

std::vector<int64_t> digests_of(PlanRun& run, uint32_t fetch, uint64_t step) {
  const Tensor fetched = run.fetched(fetch, step);
  std::vector<int64_t> digests(static_cast<size_t>(fetched.elements()));
  std::memcpy(digests.data(), fetched.raw(), fetched.bytes());
  return digests;
}

}  // namespace

int64_t StepAudit::next(int64_t step) const {
  const auto is_drawn = [&](int64_t at) {
    return RandomStream(parts_.job.seed, kAuditStream, static_cast<uint64_t>(at)).uniform_f64(0) <
           parts_.job.audit;
  };
  while (step < parts_.length.steps && !is_drawn(step)) ++step;
  return step;
}

Result<StepAudit::Audit> StepAudit::compile(Result<AuditGraph> graph, HostGroup& hosts,
                                            const std::string& what, int64_t shards) {
  LEAT_RETURN_IF_ERROR(graph.status());
  Audit audit;
  audit.fetch = graph->fetch;
  audit.values = std::move(graph->values);
  LEAT_ASSIGN_OR_RETURN(audit.plan, plans_.compile_on(hosts, std::move(graph->job), what, shards));
  return audit;
}

Status StepAudit::compile() {
  if (training_.plan) return {};
  const Graph& model = parts_.input.model.training;
  const int64_t shards = parts_.job.shards;
  HostGroup own = rotated(parts_.hosts, hosts(), 0);
  for (size_t rotation = 1; rotation < std::min(hosts(), kMostComputations); ++rotation) {
    HostGroup others = rotated(parts_.hosts, hosts(), rotation);
    LEAT_ASSIGN_OR_RETURN(Audit peer, compile(make_step_audit_graph(model, parts_.spec), others,
                                              cat("audit ", rotation), shards));
    peers_.push_back(std::move(peer));
  }
  LEAT_ASSIGN_OR_RETURN(
      training_, compile(make_audited_train_graph(model, parts_.spec), own, "train", shards));
  return {};
}

Status StepAudit::compare_variables(int64_t done) {
  if (!variables_.plan) {
    HostGroup own = rotated(parts_.hosts, hosts(), 0);
    LEAT_ASSIGN_OR_RETURN(
        variables_, compile(make_variable_audit_graph(parts_.input.model.training, parts_.spec,
                                                      plans_.held_by_any(), parts_.workers),
                            own, "variables", parts_.workers));
    LEAT_ASSIGN_OR_RETURN(variables_run_, parts_.hosts.run(variables_.plan, parts_.job.name,
                                                           {"audit", parts_.job.seed, 0}));
  }
  const uint64_t turn = compared_++;
  variables_run_->extend(turn + 1);
  LEAT_RETURN_IF_ERROR(variables_run_->wait(turn, last_moment(), true));
  const auto digests = digests_of(*variables_run_, variables_.fetch, turn);
  const auto found = compare_holdings(digests, variables_.values.size(), hosts());
  return found ? differs(*found, cat("audit after step ", done), variables_.values) : Status();
}

Status StepAudit::begin(int64_t step) {
  LEAT_RETURN_IF_ERROR(compile());
  LEAT_RETURN_IF_ERROR(compare_variables(step));
  runs_.clear();
  for (size_t rotation = 1; rotation <= peers_.size(); ++rotation)
    LEAT_RETURN_IF_ERROR(compute(rotation, step).while_doing(cat("auditing step ", step + 1)));
  return {};
}

Status StepAudit::compute(size_t rotation, int64_t step) {
  const Audit& peer = peers_[rotation - 1];
  const auto at = static_cast<uint64_t>(step);
  LEAT_ASSIGN_OR_RETURN(
      auto run, parts_.hosts.run(peer.plan, parts_.job.name, {"audit", parts_.job.seed, at}));
  run->extend(at + 1);
  LEAT_RETURN_IF_ERROR(run->wait(at, last_moment(), true));
  runs_.push_back({rotation, digests_of(*run, peer.fetch, at)});
  return {};
}

Status StepAudit::end(int64_t step, PlanRun& run) {
  runs_.push_back({0, digests_of(run, training_.fetch, static_cast<uint64_t>(step))});
  ++steps_;
  const auto found = compare_computations(training_.values, runs_, parts_.job.shards, hosts());
  if (found) return differs(*found, cat("audit of step ", step + 1), training_.values);
  observer_.audited(steps_, pairs(), differences_);
  LEAT_RETURN_IF_ERROR(compare_variables(step + 1));
  // The plan has no Commit, so that the hosts do not know of which step their variables are.
  for (HostHandle* host : parts_.hosts.hosts())
    LEAT_RETURN_IF_ERROR(
        host->write_variables(parts_.job.name, {}, Restore::some, static_cast<uint64_t>(step + 1)));
  return {};
}

Status StepAudit::differs(const AuditFinding& finding, const std::string& when,
                          const std::vector<AuditedValue>& values) {
  ++differences_;
  const auto names = [&](const std::vector<size_t>& hosts) {
    std::vector<std::string> out;
    for (const size_t host : hosts) out.push_back(parts_.hosts.hosts()[host]->name());
    return out;
  };
  // Any host may hold a wrong value: a training that goes on takes none of them.
  for (HostHandle* host : parts_.hosts.hosts())
    (void)host->write_variables(parts_.job.name, {}, Restore::some, {});
  const std::vector<std::string> wrong = names(finding.wrong);
  const std::string what =
      cat(values[finding.value].name, finding.shard < 0 ? "" : cat(" of shard ", finding.shard));
  const std::string text =
      wrong.empty()
          ? cat(when, ": workers '", join(names(finding.suspects), "', '"),
                "' have different bits of ", what, ", and it cannot be told which of them is wrong")
          : cat(when, ": ", wrong.size() == 1 ? "worker '" : "workers '", join(wrong, "', '"),
                wrong.size() == 1 ? "' has" : "' have", " other bits of ", what,
                " than the others");
  observer_.audited(steps_, pairs(), differences_);
  observer_.differed(wrong, cat(text, "; ", summary()));
  return unavailable(text);
}

std::string StepAudit::summary() const {
  return cat("audited ", counted(static_cast<size_t>(steps_), "step"), ": ", pairs(),
             " pairs of a step and a shard, ",
             counted(static_cast<size_t>(differences_), "difference"));
}

}  // namespace leat
