#include "daemon/cli/doctor_command.h"

#include <algorithm>
#include <chrono>
#include <iostream>

#include "daemon/base/json_line.h"
#include "daemon/base/version.h"
#include "daemon/cli/cluster_connection.h"
#include "daemon/doctor/confinement.h"
#include "daemon/doctor/gpu.h"
#include "daemon/doctor/machine.h"
#include "daemon/training/trainer.h"
#include "devices/base/counted.h"
#include "devices/base/text.h"
#include "ops/catalogue.h"
#include "scheduler/runtime/kernel_notes.h"

namespace leat {
namespace {

using namespace std::chrono_literals;

constexpr auto kGpuDeadline = 20s;  // a driver may take seconds to begin
constexpr auto kMasterDeadline = 5s;

Finding problem(std::string subject, const Status& status, std::string advice) {
  return {std::move(subject), FindingVerdict::problem, status.message(), std::move(advice)};
}

// The workers of a cluster by their states: "3 READY, 1 LOST".
Finding workers_of(ClusterClient& client) {
  const auto nodes = client.nodes();
  if (!nodes.ok()) return problem("workers", nodes.status(), "");
  std::string text;
  size_t ready = 0;
  for (const WorkerState state :
       {WorkerState::ready, WorkerState::draining, WorkerState::stuck, WorkerState::lost}) {
    const auto count =
        static_cast<size_t>(std::count_if(nodes->begin(), nodes->end(), [&](const NodeView& node) {
          return node.worker.state == state;
        }));
    if (count == 0) continue;
    if (state == WorkerState::ready) ready = count;
    text += cat(text.empty() ? "" : ", ", count, " ", name_of(state));
  }
  if (ready == nodes->size() && ready > 0) return {"workers", FindingVerdict::fine, text, ""};
  if (ready > 0) return {"workers", FindingVerdict::note, text, "'leat nodes' has the reasons"};
  return {"workers", FindingVerdict::problem, text.empty() ? "none" : text,
          nodes->empty() ? "start one with 'leatd worker --master ADDRESS'"
                         : "'leat nodes' has the reasons"};
}

Findings examine_cluster(const ClusterOptions& chosen) {
  const auto settings = find_cluster(chosen, real_environment);
  if (!settings.ok()) return {problem("settings", settings.status(), "")};
  auto options = client_options_of(*settings);
  if (!options.ok()) return {problem("credentials", options.status(), "")};
  options->connect_deadline = options->patience = options->deadline = kMasterDeadline;
  const auto client = ClusterClient::connect(*std::move(options));
  if (!client.ok()) {
    const ClusterSettings usual;
    // Nobody asked for a cluster, so that none is needed.
    const bool named = !chosen.master.empty() || !real_environment("LEAT_MASTER").empty() ||
                       settings->master != usual.master || settings->cluster != usual.cluster ||
                       !settings->secret_file.empty() || !settings->certificate_file.empty();
    if (client.status().code() == Code::unavailable && !named) {
      return {{"master", FindingVerdict::fine, cat("none at ", settings->master),
               "to start a cluster here: 'leatd dev'"}};
    }
    return {problem("master", client.status(), "see 'journalctl -u leat-master' on its machine")};
  }
  const auto cluster = (*client)->cluster();
  if (!cluster.ok()) return {problem("master", cluster.status(), "")};
  Findings findings = {
      {"master", FindingVerdict::fine,
       cat("'", cluster->name, "' at ", settings->master, ", leatd ", cluster->version), ""}};
  if (cluster->version != leat_version()) {
    findings.back().verdict = FindingVerdict::note;
    findings.back().advice = cat("this command is leat ", leat_version());
  }
  if (!cluster->journal.ok()) {
    findings.push_back(problem("journal", cluster->journal,
                               "the master takes no jobs before it can write: see its disk"));
  }
  findings.push_back(workers_of(**client));
  return findings;
}

// Compiles the job as `leat plan` does, and compares its memory with this machine's.
Findings examine_job(const JobOptions& options, const MachineFacts& machine) {
  const auto job = load_job(options.file, options.overrides);
  if (!job.ok()) return {problem("job file", job.status(), "")};
  Findings findings = {{"job file", FindingVerdict::fine, cat("'", job->name, "'"), ""}};
  const Catalogue catalogue = standard_catalogue();
  const auto trainer = Trainer::create(catalogue, real_files(), *job, {});
  if (!trainer.ok()) {
    findings.push_back(problem("model, data", trainer.status(), ""));
    return findings;
  }
  findings.push_back(
      {"model, data", FindingVerdict::fine, "they can be read, and fit together", ""});
  for (const std::string& note : (*trainer)->notes())
    findings.push_back({"model, data", FindingVerdict::note, note, ""});
  const auto plans = (*trainer)->plan_training();
  if (!plans.ok()) {
    findings.push_back(problem("plan", plans.status(), ""));
    return findings;
  }
  uint64_t most = 0, all = 0;
  for (const auto& plan : *plans) {
    for (const Partition& partition : plan->partitions) {
      most = std::max(most, partition.memory_bytes());
      all += partition.memory_bytes();
    }
    const auto notes = kernel_notes(*plan);
    if (!notes.ok()) {
      findings.push_back(problem("kernels", notes.status(), ""));
      continue;
    }
    for (const std::string& note : *notes)
      findings.push_back({"kernels", FindingVerdict::note, note, ""});
  }
  Finding memory{"plan", FindingVerdict::fine, cat(human_bytes(most), " for a worker"), ""};
  if (job->num_workers > 1)
    memory.found += cat(", ", human_bytes(all), " for all ", job->num_workers);
  if (all > machine.free_memory) {
    memory.verdict = FindingVerdict::note;
    memory.advice = cat("this machine has ", human_bytes(machine.free_memory),
                        " free: train on a cluster, or with a smaller global_batch_size");
  }
  findings.push_back(std::move(memory));
  return findings;
}

}  // namespace

std::vector<FindingGroup> examine(const ClusterOptions& cluster, const JobOptions& job) {
  const MachineFacts machine = read_machine();
  std::vector<FindingGroup> groups;
  groups.push_back({"machine", judge_machine(machine)});
  groups.push_back({"runners", judge_confinement(expected_layers(find_abilities({0, 1}), false))});
  // Before the client of the cluster, which has a thread.
  groups.push_back({"GPUs", examine_gpus(kGpuDeadline)});
  groups.push_back({"cluster", examine_cluster(cluster)});
  if (!job.file.empty()) groups.push_back({"job", examine_job(job, machine)});
  return groups;
}

std::string findings_json(const std::vector<FindingGroup>& groups) {
  std::string text;
  for (const FindingGroup& group : groups) {
    for (const Finding& each : group.findings) {
      JsonLine line;
      line.add("kind", "Finding").add("of", group.name).add("subject", each.subject);
      line.add("verdict", name_of(each.verdict)).add("found", each.found);
      text += line.add("advice", each.advice).text();
    }
  }
  return text;
}

std::string findings_text(const std::vector<FindingGroup>& groups) {
  constexpr size_t kSubject = 15, kVerdict = 9;
  std::string text;
  for (const FindingGroup& group : groups) {
    text += group.name + "\n";
    for (const Finding& each : group.findings) {
      std::string verdict(name_of(each.verdict)), subject = each.subject;
      verdict.resize(std::max(verdict.size() + 1, kVerdict), ' ');
      subject.resize(std::max(subject.size() + 1, kSubject), ' ');
      text += cat("  ", verdict, subject, printable(each.found), "\n");
      if (each.advice.empty()) continue;
      text += cat(std::string(2 + kVerdict + kSubject, ' '), printable(each.advice), "\n");
    }
  }
  return text;
}

int run_doctor(const DoctorCommand& command) {
  const std::vector<FindingGroup> groups = examine(command.cluster, command.job);
  std::cout << (command.cluster.json ? findings_json(groups) : findings_text(groups));
  size_t problems = 0;
  for (const FindingGroup& group : groups) {
    problems += static_cast<size_t>(
        std::count_if(group.findings.begin(), group.findings.end(),
                      [](const Finding& each) { return each.verdict == FindingVerdict::problem; }));
  }
  if (problems > 0 && !command.cluster.json)
    std::cout << counted(problems, "problem") << " would stop a job\n";
  return problems == 0 ? kExitOk : kExitFailed;
}

}  // namespace leat
