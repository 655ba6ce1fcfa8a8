#include "daemon/traces/situation.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>

#include "daemon/base/retry_while_full.h"
#include "devices/base/text.h"

namespace leat {
namespace {

using Part = PartitionSituation;

constexpr double kWorkerSilent = 0.9;  // seconds without a heartbeat; they come each 0.25 s
constexpr double kRunnerQuiet = 0.9;   // seconds without a pulse; they come each 0.25 s
constexpr double kLongCall = 0.5;      // seconds without an answer
constexpr double kLongWrite = 0.3;     // seconds that a disk takes for an operation, or for many

std::string seconds_of(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", std::max(0.0, seconds));
  return text;
}

// " for 1.2 s"; "" for a time that rounds to nothing.
std::string lasting(double seconds) {
  return seconds < 0.05 ? "" : cat(" for ", seconds_of(seconds));
}

Diagnosis diagnosis(std::string_view kind, std::string subject, std::string sentence,
                    std::string advice = "", double seconds = -1) {
  Diagnosis out;
  out.kind = kind;
  out.subject = std::move(subject);
  out.sentence = std::move(sentence);
  out.advice = std::move(advice);
  out.seconds = seconds;
  return out;
}

const NodeView* node_of(const Situation& s, const std::string& worker) {
  for (const NodeView& node : s.nodes) {
    if (node.worker.info.worker.name == worker) return &node;
  }
  return nullptr;
}

double since(const Situation& s, int64_t ms) { return 1e-3 * static_cast<double>(s.now_ms - ms); }

bool is_disk(const std::string& reason) { return reason.starts_with(kWaitsForRoom); }

// The master's disk, if `wait` has lasted.
std::optional<Diagnosis> of_disk(const std::optional<DiskWait>& wait) {
  if (!wait || wait->seconds < kLongWrite) return std::nullopt;
  return diagnosis(
      culprit::kDisk, "master",
      cat("The job waits for the master's disk, which has taken ", seconds_of(wait->seconds),
          " so far ", wait->operation, "."),
      "Look at what else uses that disk; a faster one or fewer checkpoints would help.",
      wait->seconds);
}
// The same for a job whose next state waits for the journal.
std::optional<Diagnosis> of_disk_or_journal(const Situation& s) {
  auto disk = of_disk(s.disk);
  return disk ? std::move(disk) : of_disk(s.journal_disk);
}

// --- Jobs that wait for workers, or for people.

// Workers that a queued job cannot have, and why.
struct Absent {
  std::vector<std::string> draining, sick, leased;
  std::string first_sick;  // its name
  std::string holder;      // the first job that has one
  size_t free = 0;
};

Absent count_workers(const Situation& s) {
  Absent absent;
  for (const NodeView& node : s.nodes) {
    const std::string& name = node.worker.info.worker.name;
    if (node.worker.state == WorkerState::draining) {
      absent.draining.push_back(name);
    } else if (node.worker.state != WorkerState::ready) {
      if (absent.sick.empty()) absent.first_sick = name;
      absent.sick.push_back(cat(name, " is ", name_of(node.worker.state)));
    } else if (!node.job.empty() && node.job != s.job.id) {
      absent.leased.push_back(cat(name, " has ", node.job));
      if (absent.holder.empty()) absent.holder = node.job;
    } else {
      ++absent.free;
    }
  }
  return absent;
}

// The workers are there, but others come first, or none has the data. `reason`: in parentheses.
Diagnosis of_enough_workers(const Situation& s, const std::string& reason, double waited) {
  uint64_t before = 0;
  for (const JobView& other : s.jobs)
    before += other.condition.state == JobState::queued && other.number < s.job.number;
  if (before > 0) {
    return diagnosis(culprit::kQueue, "queue",
                     cat(before, " jobs are before it in the queue", reason, "."),
                     "It begins after them; leat ps shows them.", waited);
  }
  if (auto disk = of_disk_or_journal(s); disk && reason.empty()) return *std::move(disk);
  return diagnosis(culprit::kDevices, "workers",
                   cat("The free workers do not fit the job", reason, "."),
                   "leat nodes shows the data sets and devices of each worker.", waited);
}

Diagnosis of_queued(const Situation& s) {
  const Absent absent = count_workers(s);
  const uint32_t least = s.job.min_workers > 0 ? s.job.min_workers : s.job.num_workers;
  std::vector<std::string> chain{cat("The job needs ", least, " workers; ", absent.free, " of ",
                                     s.nodes.size(), " are free.")};
  for (const std::string& each : absent.leased) chain.push_back(cat(each, "."));
  for (const std::string& each : absent.draining) chain.push_back(cat(each, " is drained."));
  for (const std::string& each : absent.sick) chain.push_back(cat(each, "."));
  const std::string reason =
      s.job.condition.reason.empty() ? "" : cat(" (", s.job.condition.reason, ")");
  const double waited = since(s, s.job.condition.since_ms);
  Diagnosis out;
  const size_t usable = absent.free + absent.leased.size();
  if (!s.job.condition.reason.empty() && is_disk(s.job.condition.reason)) {
    out = diagnosis(culprit::kDisk, "master", cat("The job waits: ", s.job.condition.reason),
                    "Make room on the master's disk.", waited);
  } else if (s.job.condition.reason.find("(quotas.workers)") != std::string::npos) {
    // The job may have none of the workers, whether they are free or not.
    out = diagnosis(culprit::kQueue, "quota",
                    cat("The job waits for the quota of its user", reason, "."),
                    "It begins when other jobs of that user have left their workers; leat ps shows "
                    "them.",
                    waited);
  } else if (absent.free >= least) {
    out = of_enough_workers(s, reason, waited);
  } else if (usable >= least) {
    out = diagnosis(
        culprit::kQueue, absent.holder,
        cat("Other jobs have the workers that it needs: ", join(absent.leased, ", "), "."),
        cat("It begins when ", absent.holder, " ends; leat cancel ", absent.holder,
            " ends that at once."),
        waited);
  } else if (usable + absent.draining.size() >= least && !absent.draining.empty()) {
    out = diagnosis(
        culprit::kDrained, absent.draining.front(),
        cat("Workers that it needs are drained: ", join(absent.draining, ", "), "."),
        cat("leat nodes drain --undo ", absent.draining.front(), " lets it have jobs again."),
        waited);
  } else if (!absent.sick.empty()) {
    out = diagnosis(culprit::kWorker, absent.first_sick,
                    cat("Workers that it needs are not usable: ", join(absent.sick, ", "), "."),
                    "Look at their machines and logs.", waited);
  } else {
    out = diagnosis(
        culprit::kDevices, "workers",
        cat("It needs ", least, " workers, and the cluster has ", s.nodes.size(), reason, "."),
        "Start more workers, or submit it with fewer.", waited);
  }
  out.chain = std::move(chain);
  return out;
}

Diagnosis of_paused(const Situation& s) {
  const std::string& reason = s.job.condition.reason;
  return diagnosis(culprit::kPaused, s.job.id,
                   cat("The job is ", name_of(s.job.condition.state),
                       reason.empty() ? "" : cat(": ", reason), "."),
                   cat("leat resume ", s.job.id, " lets it go on."),
                   since(s, s.job.condition.since_ms));
}

// --- Processes.

// The first worker or runner that gives no sign of life.
std::optional<Diagnosis> of_processes(const Situation& s) {
  for (const RunnerSituation& runner : s.runners) {
    const NodeView* node = node_of(s, runner.worker);
    const double silent =
        node ? 1e-3 * static_cast<double>(node->worker.silent.count()) : kWorkerSilent;
    const bool lost = !node || node->worker.state == WorkerState::lost;
    if (lost || (silent >= kWorkerSilent && !runner.worker_answers)) {
      return diagnosis(culprit::kWorker, runner.worker,
                       cat(runner.worker, " has given no sign of life", lasting(silent),
                           ": its process is stopped, or the network to it is cut."),
                       "The master takes it for lost after 2.5 s, and the job goes on without it.",
                       silent);
    }
    const bool stopped = runner.process_state == 'T' || runner.process_state == 't';
    if (stopped) {
      return diagnosis(culprit::kRunner, runner.worker,
                       cat("The runner on ", runner.worker, " has not run", lasting(runner.quiet),
                           ": its process is stopped."),
                       "The worker ends it after 2.5 s, and the job goes on in another process.",
                       runner.quiet);
    }
    if (runner.registered && !runner.answers && runner.quiet >= kRunnerQuiet) {
      return diagnosis(
          culprit::kRunner, runner.worker,
          cat("The runner on ", runner.worker, " has given no sign of life", lasting(runner.quiet),
              "; its process is in state ", std::string(1, runner.process_state), "."),
          "The worker ends it after 2.5 s.", runner.quiet);
    }
  }
  return std::nullopt;
}

Diagnosis of_starting(const Situation& s) {
  if (auto dead = of_processes(s)) return *std::move(dead);
  for (const RunnerSituation& runner : s.runners) {
    if (runner.registered) continue;
    const char* what = runner.has_process ? "has a process, which has not registered"
                                          : "has not been started by its worker";
    return diagnosis(
        culprit::kStart, runner.worker, cat("The runner on ", runner.worker, " ", what, "."),
        cat("leat logs ", s.job.id, " shows what it wrote."), since(s, s.job.condition.since_ms));
  }
  if (auto disk = of_disk_or_journal(s)) return *std::move(disk);
  return diagnosis(culprit::kStart, "master",
                   cat("The job is ", name_of(s.job.condition.state),
                       s.job.condition.reason.empty() ? "" : ": ", s.job.condition.reason),
                   "", since(s, s.job.condition.since_ms));
}

// A job that recovers waits for its runners, or for workers in the place of those that it lost.
Diagnosis of_recovering(const Situation& s) {
  for (const std::string& worker : s.job.condition.workers) {
    if (node_of(s, worker)) continue;
    return diagnosis(culprit::kWorker, worker,
                     cat(worker, " has not joined the cluster again, and has a runner of the job."),
                     "Look at its machine and log.", since(s, s.job.condition.since_ms));
  }
  const uint32_t least = s.job.min_workers > 0 ? s.job.min_workers : s.job.num_workers;
  const bool waits_for_workers = s.job.position > 0 && count_workers(s).free < least;
  return waits_for_workers ? of_queued(s) : of_starting(s);
}

// --- Steps.

std::string place_of(const Part& part) { return cat(part.worker, " ", part.device); }

std::string quoted_node(const Part& part) {
  if (part.node.empty()) return "";
  return part.op.empty() ? cat("'", part.node, "'") : cat(part.op, " '", part.node, "'");
}

std::string line_of(const Situation& s, const Part& part) {
  const std::string at = cat(place_of(part), " at step ", part.step);
  const std::string to = part.peer == Part::kNobody ? "a peer" : place_of(s.partitions[part.peer]);
  switch (part.state) {
    case Part::State::receives:
      return cat(at, " waits for '", part.node, "' of ", to, ".");
    case Part::State::sends:
      return cat(at, " waits until ", to, " has room for '", part.node, "'.");
    case Part::State::blocked:
      return cat(at, " is blocked in ", quoted_node(part), ".");
    case Part::State::working:
      return part.node.empty() ? cat(at, " computes.") : cat(at, " runs ", quoted_node(part), ".");
    case Part::State::idle:
      break;
  }
  return cat(place_of(part), " has done the ", part.finished, " steps that it may do.");
}

Diagnosis of_link(const Part& from, const Part& to) {
  std::string one = from.worker, other = to.worker;
  if (other < one) std::swap(one, other);
  const char* what = from.state == Part::State::sends ? "the news that it has room" : "the value";
  return diagnosis(
      culprit::kLink, cat(one, " - ", other),
      cat(to.worker, " has sent ", what, " of '", from.node, "', and ", from.worker,
          " has not got it", lasting(from.unchanged), ": the link between them does not carry it."),
      "Look at the network between the two; leat nodes shows their traffic.", from.unchanged);
}

// The runner that has not answered a call for the longest time, if that is long. `writes`: a call
// to write files, or any other one.
const RunnerSituation* longest_call(const Situation& s, bool writes) {
  const RunnerSituation* longest = nullptr;
  for (const RunnerSituation& runner : s.runners) {
    if (runner.call.empty() || runner.call_seconds < kLongCall ||
        runner.call_writes_files != writes)
      continue;
    if (!longest || runner.call_seconds > longest->call_seconds) longest = &runner;
  }
  return longest;
}

// The end of a chain of waits, which waits for no other device.
Diagnosis of_last(const Situation& s, const Part& part) {
  const std::string since = lasting(part.unchanged);
  if (part.state == Part::State::receives || part.state == Part::State::sends) {
    return diagnosis(culprit::kBlocked, part.worker,
                     cat(part.worker, " waits", since, " for '", part.node,
                         "', and the master does not know at which device."),
                     "", part.unchanged);
  }
  if (part.state == Part::State::blocked) {
    if (part.reads_data) {
      return diagnosis(culprit::kInput, part.worker,
                       cat(part.worker, " waits for data in ", quoted_node(part), since, "."),
                       "Its files or their disk are slow.", part.unchanged);
    }
    return diagnosis(culprit::kBlocked, part.worker,
                     cat(part.worker, " is blocked in ", quoted_node(part), since, "."), "",
                     part.unchanged);
  }
  if (part.state == Part::State::working && part.reads_data) {
    return diagnosis(culprit::kInput, part.worker,
                     cat(part.worker, " reads data in ", quoted_node(part),
                         since.empty() ? "" : ", without an end", since, "."),
                     "Its files or their disk are slow; leat explain shows the share of a step.",
                     part.unchanged);
  }
  if (part.state == Part::State::working) {
    return diagnosis(culprit::kCompute, part.worker,
                     cat(part.worker, " computes",
                         part.node.empty() ? "" : cat(" ", quoted_node(part)), since, "."),
                     "leat explain shows which nodes take the time.", part.unchanged);
  }
  // A call that a runner does not answer keeps the master, which allows no further steps meanwhile.
  if (const RunnerSituation* slow = longest_call(s, false)) {
    return diagnosis(slow->call_reads_data ? culprit::kInput : culprit::kRunner, slow->worker,
                     cat("The master waits for ", slow->worker, ": ", slow->call, " takes ",
                         seconds_of(slow->call_seconds), " so far."),
                     "", slow->call_seconds);
  }
  if (auto disk = of_disk(s.disk)) return *std::move(disk);
  if (const RunnerSituation* slow = longest_call(s, true)) {
    return diagnosis(
        culprit::kDisk, slow->worker,
        cat(slow->worker, " has taken ", seconds_of(slow->call_seconds),
            " so far to write its part of a checkpoint."),
        "The disk of the job's folder, or the mount of it on that machine, is slow, or "
        "the part is large.",
        slow->call_seconds);
  }
  return diagnosis(culprit::kMaster, "master",
                   cat("All devices have done the steps that the master has allowed", since,
                       "; it writes a checkpoint, evaluates, or is slow."),
                   cat("leat logs ", s.job.id, " shows what it does."), part.unchanged);
}

// Follows the waits from one partition to the one that keeps it.
Diagnosis follow(const Situation& s, size_t at) {
  std::vector<std::string> chain;
  std::set<size_t> seen;
  while (true) {
    const Part& part = s.partitions[at];
    chain.push_back(line_of(s, part));
    seen.insert(at);
    const bool waits = part.state == Part::State::receives || part.state == Part::State::sends;
    Diagnosis out;
    if (!waits || part.peer == Part::kNobody) {
      out = of_last(s, part);
    } else if (const Part& peer = s.partitions[part.peer]; !peer.answers) {
      out = diagnosis(culprit::kRunner, peer.worker,
                      cat("The runner on ", peer.worker, " does not answer."), "", part.unchanged);
    } else if (part.peer_is_done || seen.contains(part.peer)) {
      chain.push_back(line_of(s, peer));
      out = of_link(part, peer);
    } else {
      at = part.peer;
      continue;
    }
    out.chain = std::move(chain);
    return out;
  }
}

// The partition to begin with: of the newest run that has steps to do, the one that has waited the
// longest.
size_t first_to_ask(const Situation& s) {
  size_t best = Part::kNobody;
  for (size_t i = 0; i < s.partitions.size(); ++i) {
    const Part& part = s.partitions[i];
    if (!part.answers) continue;
    if (best == Part::kNobody) {
      best = i;
      continue;
    }
    const Part& than = s.partitions[best];
    const bool busy = part.finished < part.allowed, was_busy = than.finished < than.allowed;
    if (busy != was_busy) {
      if (busy) best = i;
    } else if (part.trains != than.trains) {
      // While the training waits for the master, another run does the work: an evaluation.
      if (part.trains) best = i;
    } else if (part.unchanged > than.unchanged) {
      best = i;
    }
  }
  return best;
}

// The wait of others for a device that is known to be the culprit.
void add_waits_for(const Situation& s, Diagnosis& out) {
  for (const Part& part : s.partitions) {
    const bool waits = part.state == Part::State::receives || part.state == Part::State::sends;
    if (!part.answers || !waits || part.peer == Part::kNobody) continue;
    if (s.partitions[part.peer].worker == out.subject) out.chain.push_back(line_of(s, part));
  }
  out.chain.push_back(out.sentence);
}

// The session has answered all that its clients have asked.
Diagnosis of_idle_session(const Situation& s) {
  const SessionSituation& session = *s.session;
  const std::string since = lasting(session.idle);
  if (session.clients == 0) {
    return diagnosis(culprit::kClient, s.job.id, cat("No client holds the session", since, "."),
                     "The master ends it if none comes back in time.", session.idle);
  }
  return diagnosis(
      culprit::kClient, s.job.id,
      cat("The client of the session has asked for nothing", since, ": all its steps are done."),
      "Look at the program that has opened it: it computes, waits, or is stopped.", session.idle);
}

Diagnosis of_running(const Situation& s) {
  if (auto dead = of_processes(s)) {
    add_waits_for(s, *dead);
    return *std::move(dead);
  }
  const std::string& reason = s.job.condition.reason;
  if (!s.journal.ok()) {
    return diagnosis(culprit::kDisk, "master",
                     cat("The master cannot write its journal: ", s.journal.message()),
                     "Make room on the master's disk.");
  }
  if (!reason.empty() && is_disk(reason)) {
    return diagnosis(culprit::kDisk, "master", cat("The job waits: ", reason),
                     "Make room on the master's disk.", since(s, s.job.condition.since_ms));
  }
  if (s.session && s.session->idle >= 0) return of_idle_session(s);
  if (const size_t first = first_to_ask(s); first != Part::kNobody) return follow(s, first);
  if (reason.starts_with(kWaitsForCheckpoint)) {
    const std::string followed =
        reason.substr(kWaitsForCheckpoint.size(),
                      reason.find('\'', kWaitsForCheckpoint.size()) - kWaitsForCheckpoint.size());
    return diagnosis(
        culprit::kJob, followed,
        cat("It has evaluated job '", followed, "' as far as that has come: it ", reason),
        cat("'leat why ", followed, "' tells what that job does."));
  }
  // No run yet: the master prepares one, and may wait for a runner.
  Part nothing;
  nothing.unchanged = since(s, s.job.condition.since_ms);
  Diagnosis out = of_last(s, nothing);
  if (out.kind != culprit::kMaster) return out;
  if (auto disk = of_disk_or_journal(s)) return *std::move(disk);
  out.sentence = "The master prepares the job's next run: it compiles a plan or reads files.";
  return out;
}

}  // namespace

bool moves(const Situation& situation) {
  if (situation.job.condition.state != JobState::running) return false;
  if (of_processes(situation)) return false;
  return std::any_of(
      situation.partitions.begin(), situation.partitions.end(),
      [](const Part& part) { return part.answers && part.unchanged < kStandsStill; });
}

Diagnosis find_culprit(const Situation& s) {
  const JobCondition& condition = s.job.condition;
  Diagnosis out;
  switch (condition.state) {
    case JobState::succeeded:
    case JobState::failed:
    case JobState::cancelled:
      out = diagnosis(culprit::kEnded, s.job.id,
                      cat("The job has ended: it is ", name_of(condition.state),
                          condition.reason.empty() ? "" : ": ", condition.reason),
                      "", since(s, condition.since_ms));
      break;
    case JobState::queued:
      out = of_queued(s);
      break;
    case JobState::running:
      out = of_running(s);
      break;
    case JobState::paused:
    case JobState::pausing:
      out = of_paused(s);
      break;
    case JobState::recovering:
      out = of_recovering(s);
      break;
    default:
      out = of_starting(s);
      break;
  }
  // The reason of a recovery is the failure before it.
  if (condition.state == JobState::recovering && !condition.reason.empty())
    out.chain.insert(out.chain.begin(), cat("The job recovers: ", condition.reason));
  if (out.chain.empty()) out.chain.push_back(out.sentence);
  return out;
}

Diagnosis most_common(std::span<const Diagnosis> looks, double steps_per_second) {
  std::map<std::pair<std::string, std::string>, size_t> counts;
  for (const Diagnosis& look : looks) ++counts[{look.kind, look.subject}];
  const auto most =
      std::max_element(counts.begin(), counts.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  // The last such look is the newest.
  Diagnosis out;
  for (const Diagnosis& look : looks) {
    if (look.kind == most->first.first && look.subject == most->first.second) out = look;
  }
  char speed[32];
  std::snprintf(speed, sizeof speed, "%.1f", steps_per_second);
  out.chain.insert(out.chain.begin(), cat("The job goes on, with ", speed, " steps/s."));
  out.sentence =
      cat("The job goes on. In ", most->second, " of ", looks.size(), " looks: ", out.sentence);
  out.seconds = 0;
  return out;
}

}  // namespace leat
