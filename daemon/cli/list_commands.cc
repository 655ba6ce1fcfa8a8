// The commands that list or describe jobs, workers and the cluster: ps, show, nodes, cluster.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <iostream>

#include "daemon/base/json_line.h"
#include "daemon/cli/attend.h"
#include "daemon/cli/cluster_commands.h"
#include "daemon/cli/cluster_connection.h"
#include "daemon/cli/event_program.h"
#include "daemon/cli/follower.h"
#include "daemon/cli/table.h"
#include "daemon/jobs/job_facts.h"
#include "daemon/status/job_order.h"
#include "daemon/status/status_json.h"
#include "devices/base/counted.h"
#include "devices/base/text.h"

namespace leat {
namespace {

// The columns that become narrower or disappear on a narrow terminal, in this order. `leat show`
// prints all values.
TableFit fit_of_jobs() {
  return {stdout_columns(),
          {{"REASON", 24},
           {"NAME", 0},
           {"STEPS/S", 0},
           {"REASON", 12},
           {"WORKERS", 0},
           {"AGE", 0},
           {"ETA", 0},
           {"REASON", 0}}};
}
TableFit fit_of_nodes() {
  return {stdout_columns(),
          {{"REASON", 24},
           {"DEVICES", 24},
           {"DATASETS", 16},
           {"ADDRESS", 0},
           {"DEVICES", 12},
           {"MEMORY", 0},
           {"REASON", 12},
           {"DATASETS", 0},
           {"DEVICES", 0},
           {"HEARD", 0}}};
}
TableFit fit_of_losses() {
  return {stdout_columns(),
          {{"CAUSE", 24},
           {"FAULT", 0},
           {"CULPRIT", 12},
           {"RECOMPUTED", 0},
           {"STOPPED AT", 0},
           {"DETECTED", 0},
           {"CULPRIT", 0},
           {"WENT ON FROM", 0}}};
}

int64_t now_ms() { return moment_of(RealClock()).wall_ms; }

// The time since a date of the master, by the clock of this machine. format_age() shows no negative
// one.
std::string age_of(int64_t at_ms) { return format_age(now_ms() - at_ms); }

// Formats a number of the job's progress; "-" if it is unknown.
std::string number(double value) { return is_known(value) ? format_value(value) : "-"; }

// The speed with one decimal place, also below 1 step in a second; "-" if it is unknown.
std::string rate(double steps_per_second) {
  if (std::isnan(steps_per_second)) return "-";
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", steps_per_second);
  return text;
}

// Returns "700/1000", only "700" if the number of all steps is unknown, or "-" before the first
// step.
std::string steps_of(const ProgressReport& last) {
  if (last.steps == 0) return last.step == 0 ? "-" : std::to_string(last.step);
  return cat(last.step, "/", last.steps);
}

// The time that is left; "-" unless the job runs, because no other job comes nearer to its end.
std::string eta_of(const JobView& job) {
  const double left = job.progress.eta_seconds;
  return job.condition.state != JobState::running || std::isnan(left) ? "-" : format_seconds(left);
}

// Returns "4", or "3 of 2:4" for an elastic job that runs on 3.
std::string workers_of(const JobView& job) {
  if (job.min_workers == 0) return std::to_string(job.num_workers);
  const bool runs = !has_ended(job.condition.state) && !job.condition.workers.empty();
  return cat(runs ? cat(job.condition.workers.size(), " of ") : "", job.min_workers, ":",
             job.num_workers);
}

// The cells of a job for `leat ps`, in the order of the headers there.
std::vector<std::string> row_of(const JobView& job) {
  const JobCondition& condition = job.condition;
  return {job.id,
          job.name,
          std::string(name_of(condition.state)),
          or_dash(condition.reason),
          steps_of(job.progress.last),
          number(job.progress.last.loss),
          condition.state == JobState::running ? rate(job.progress.steps_per_second) : "-",
          eta_of(job),
          age_of(job.submitted_ms),
          workers_of(job)};
}

// Prints a line "Name            value", whose values are below each other. The texts may come from
// others, so control characters are escaped.
void line(std::string_view name, const std::string& value) {
  std::cout << name << std::string(name.size() < 16 ? 16 - name.size() : 1, ' ') << printable(value)
            << "\n";
}

// Returns "1.25s". A negative time or step is unknown, and shown as "-".
std::string seconds_of(int64_t milliseconds) {
  if (milliseconds < 0) return "-";
  char text[32];
  std::snprintf(text, sizeof text, "%.2fs", static_cast<double>(milliseconds) / 1000);
  return text;
}
std::string step_of(int64_t step) { return step < 0 ? "-" : std::to_string(step); }

// The cells of a lost assembly, in the order of the headers of its table.
std::vector<std::string> row_of(const LostAssembly& lost) {
  const auto recomputed = lost.recomputed();
  return {std::to_string(lost.assembly),
          iso_time(lost.failed_ms),
          or_dash(lost.culprit),
          seconds_of(lost.detected_after),
          seconds_of(lost.recovered_after),
          step_of(lost.stopped_at),
          lost.went_on_from < 0 ? "-" : cat(lost.went_on_from, " (", name_of(lost.source), ")"),
          recomputed ? std::to_string(*recomputed) : "-",
          or_dash(lost.fault),
          lost.cause};
}

// Prints the results of a job's epochs.
void describe(const std::vector<EpochResult>& epochs) {
  if (epochs.empty()) return;
  std::vector<std::string> head{"EPOCH", "STEP", "LOSS", "ACCURACY", "VAL_LOSS", "VAL_ACCURACY"};
  for (const NamedNumber& each : epochs.back().more) {
    std::string name = printable(each.name);
    std::transform(name.begin(), name.end(), name.begin(),
                   [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
    head.push_back(std::move(name));
  }
  std::vector<std::vector<std::string>> rows;
  for (const EpochResult& each : epochs) {
    rows.push_back({std::to_string(each.epoch), std::to_string(each.step), number(each.loss),
                    number(each.accuracy), number(each.val_loss), number(each.val_accuracy)});
    for (const NamedNumber& column : epochs.back().more)
      rows.back().push_back(number(each.number(column.name)));
  }
  std::cout << "\n" << format_table(head, rows, true);
}

// Prints the assemblies that a job has lost.
void describe(const JobHistory& history) {
  if (history.last.empty()) return;
  std::cout << "\nLost assemblies"
            << (history.count > history.last.size()
                    ? cat(", the last ", history.last.size(), " of ", history.count)
                    : "")
            << "\n";
  std::vector<std::vector<std::string>> rows;
  for (const LostAssembly& each : history.last) rows.push_back(row_of(each));
  std::cout << format_table({"ASSEMBLY", "FAILED", "CULPRIT", "DETECTED", "RECOVERED", "STOPPED AT",
                             "WENT ON FROM", "RECOMPUTED", "FAULT", "CAUSE"},
                            rows, true, fit_of_losses());
}

// Prints a line for each fact of a job that has a label: see daemon/jobs/job_facts.h.
class FactLines {
 public:
  template <typename Integer>
  void count(const Fact& fact, Integer value) {
    put(fact, std::to_string(value));
  }
  void known(const Fact& fact, uint64_t value) {
    if (value > 0) count(fact, value);
  }
  void known(const Fact& fact, const std::string& value) { text(fact, value); }
  void integer(const Fact& fact, int64_t value) {
    if (value != 0) put(fact, std::to_string(value));
  }
  void option(const Fact& fact, uint64_t value) { known(fact, value); }
  void text(const Fact& fact, const std::string& value) {
    if (!value.empty()) put(fact, value);
  }
  void names(const Fact& fact, const std::vector<std::string>& names) {
    put(fact, join(names, ", "));
  }
  void flag(const Fact& fact, bool value) { put(fact, value ? "yes" : "no"); }
  template <typename Enum>
  void choice(const Fact& fact, Enum value) {
    put(fact, std::string(name_of(value)));
  }
  void date(const Fact& fact, int64_t ms) { put(fact, iso_time(ms)); }
  void span(const Fact& fact, int64_t ms) {
    if (ms >= 0) put(fact, format_age(ms));
  }
  void steps(const Fact& fact, int64_t steps) { put(fact, step_of(steps)); }
  void number(const Fact& fact, double value) { put(fact, leat::number(value)); }
  void rate(const Fact& fact, double value) { put(fact, leat::rate(value)); }
  void numbers(const Fact&, const std::vector<NamedNumber>&) {}
  template <typename T>
  void derived(const Fact&, const T&) {}
  template <typename Visit>
  void group(bool there, Visit visit) {
    if (there) visit();
  }
  template <typename Visit>
  void record(std::string_view, Visit visit) {
    visit(*this);
  }
  template <typename T, typename Visit>
  void list(std::string_view, const std::vector<T>&, Visit) {}

 private:
  void put(const Fact& fact, const std::string& value) {
    if (!fact.label.empty()) line(fact.label, value);
  }
};

// "worker-1 3.2 s (4 steps ahead), worker-2 3 s"; "" before it is known.
std::string input_waits(const ProgressReport& last) {
  std::vector<std::string> out;
  for (size_t i = 0; i < last.input_wait.size(); ++i) {
    const NamedNumber& each = last.input_wait[i];
    const auto ahead =
        static_cast<int64_t>(i < last.steps_ahead.size() ? last.steps_ahead[i].value : 0);
    out.push_back(cat(printable(each.name), " ", number(each.value), " s",
                      ahead > 0 ? cat(" (", counted(ahead, "step"), " ahead)") : std::string()));
  }
  return join(out, ", ");
}

// Prints a job for `leat show`: its state, the facts that have labels, its progress, its result,
// its epochs and the assemblies that it has lost.
void describe(const JobView& job) {
  const JobCondition& condition = job.condition;
  const ProgressReport& last = job.progress.last;
  line("Id", job.id);
  line("Name", job.name);
  line("State", cat(name_of(condition.state), " for ", age_of(condition.since_ms)));
  if (!condition.reason.empty()) line("Reason", condition.reason);
  line("Submitted", cat(iso_time(job.submitted_ms), ", ", age_of(job.submitted_ms), " ago"));
  line("Workers", condition.workers.empty()
                      ? cat(workers_of(job), ", none leased")
                      : cat(workers_of(job), ": ", join(condition.workers, ", ")));
  FactLines lines;
  // visit_job() also makes the JSON. Facts without a label appear only there.
  visit_job(lines, job);
  if (last.step > 0) {
    line("Step", steps_of(last));
    if (last.epochs > 0) line("Epochs", std::to_string(last.epochs));
    line("Loss", number(last.loss));
    if (is_known(last.accuracy)) line("Accuracy", number(last.accuracy));
    if (is_known(last.val_loss)) line("Validation", cat("loss ", number(last.val_loss)));
    if (is_known(last.val_accuracy)) {
      line("", cat("accuracy ", number(last.val_accuracy)));
    }
    for (const NamedNumber& each : last.ended.more)
      line("", cat(printable(each.name), " ", number(each.value)));
  }
  if (const std::string waits = input_waits(last); !waits.empty()) line("Input wait", waits);
  std::vector<std::string> audits;
  for (const NamedNumber& each : last.audits)
    audits.push_back(cat(static_cast<uint64_t>(each.value), " ", printable(each.name)));
  if (!audits.empty()) line("Audits", join(audits, ", "));
  if (last.steps_skipped > 0) {
    line("Skipped", cat(counted(static_cast<int64_t>(last.steps_skipped), "step"),
                        ", whose numbers were not finite"));
  }
  if (const std::string lost = lost_metrics(last); !lost.empty()) line("Metrics", lost);
  if (condition.state == JobState::running) {
    line("Steps/s", rate(job.progress.steps_per_second));
    line("ETA", eta_of(job));
  }
  // The hash of the weights stands with the facts on which it depends.
  const JobResult& result = condition.result;
  if (!result.weights_sha256.empty()) line("Weights sha256", result.weights_sha256);
  if (result.shards > 0) {
    line("", cat("shards ", result.shards, ", seed ", result.seed,
                 precision_clause(result.precision), ", ", result.cpu));
  }
  if (result.depends_on_timing) line("", "depends on timing: no other run gives these weights");
  if (condition.state == JobState::failed) {
    line("Post-mortem", cat("leat fetch ", job.id, " copies post-mortem/ and log.txt"));
    line("To report it", cat("leat support-bundle ", job.id));
  }
  describe(job.progress.epochs);
  describe(job.history);
}

// Lists the names that jobs may use for data sets, but not paths.
std::string datasets_of(const WorkerInfo& worker) {
  std::vector<std::string> names;
  for (const std::string& each : worker.datasets) {
    if (!each.starts_with('/')) names.push_back(each);
  }
  if (has_dataset(worker.datasets, "/")) names.emplace_back("any path");
  return names.empty() ? "none: trains nothing" : join(names, ", ");
}

// Warns if no worker has data, since no job can train then, although the table looks fine.
void warn_without_data(std::span<const NodeView> nodes) {
  const bool any = std::any_of(nodes.begin(), nodes.end(), [](const NodeView& node) {
    return node.worker.state != WorkerState::lost && !node.worker.info.datasets.empty();
  });
  if (any) return;
  std::cerr << "leat: no worker has a data set, so that no job can train here; start workers with "
               "--set datasets.NAME=PATH\n";
}

// The part of a device's description that is its model: the rest names libraries.
std::string model_of(const WorkerDevice& device) {
  return device.description.substr(0, device.description.find(','));
}

// The cells of a worker for `leat nodes`. The column of memory is that of its CPU; a GPU has its
// own beside its model.
std::vector<std::string> row_of(const NodeView& node) {
  const WorkerView& worker = node.worker;
  uint64_t memory = 0;
  std::vector<std::string> devices;
  for (const WorkerDevice& device : worker.info.devices) {
    if (device.kind == "cpu") {
      memory += device.memory_bytes;
      devices.push_back(cat(device.name, " (", counted(device.threads, "thread"), ")"));
    } else {
      devices.push_back(cat(device.name, " (", printable(model_of(device)), ", ",
                            human_bytes(device.memory_bytes), ")"));
    }
  }
  return {worker.info.worker.name,
          std::string(name_of(worker.state)),
          or_dash(worker.reason),
          or_dash(node.jobs.size() > 1 ? join(node.jobs, ", ") : node.job),
          or_dash(join(devices, ", ")),
          human_bytes(memory),
          datasets_of(worker.info),
          format_age(worker.silent.count()),
          worker.info.address};
}

}  // namespace

int run_ps(const PsCommand& command) {
  ClusterConnection connection(command.cluster);
  if (const int code = connection.open(); code != kExitOk) return code;
  auto jobs = connection.client().jobs();
  if (!jobs.ok()) return connection.report(jobs.status(), About::cluster);
  if (!command.all) {
    std::erase_if(*jobs, [](const JobView& job) { return has_ended(job.condition.state); });
  }
  if (command.cluster.json) {
    std::cout << jobs_json(*jobs);
    return kExitOk;
  }
  // The JSON has the order of the master; people get the order of the status page.
  const auto ordered = in_shown_order(*jobs);
  if (command.quiet) {
    for (const JobView* job : ordered) std::cout << job->id << "\n";
    return kExitOk;
  }
  std::vector<std::vector<std::string>> rows;
  for (const JobView* job : ordered) rows.push_back(row_of(*job));
  std::cout << format_table(
      {"ID", "NAME", "STATE", "REASON", "STEP", "LOSS", "STEPS/S", "ETA", "AGE", "WORKERS"}, rows,
      command.headers, fit_of_jobs());
  return kExitOk;
}

int run_show(const ShowCommand& command) {
  ClusterConnection connection(command.cluster);
  connection.set_timeout(command.timeout);
  if (const int code = connection.open(command.attend != Attend::no); code != kExitOk) return code;
  auto job = connection.client().job(command.id);
  if (!job.ok()) return connection.report(job.status(), About::name);
  if (command.attend != Attend::no) {
    std::unique_ptr<EventProgram> program;
    if (!command.on_event.empty()) {
      auto started = EventProgram::start(command.on_event);
      if (!started.ok()) return report(started.status(), command.cluster.color);
      program = *std::move(started);
    }
    return attend_job(connection, std::move(job).value(), command.cluster, command.attend,
                      program.get());
  }
  if (command.cluster.json) {
    std::cout << job_json(*job);
  } else {
    describe(*job);
  }
  return kExitOk;
}

int run_nodes(const NodesCommand& command) {
  ClusterConnection connection(command.cluster);
  if (const int code = connection.open(); code != kExitOk) return code;
  const auto nodes = connection.client().nodes();
  if (!nodes.ok()) return connection.report(nodes.status(), About::cluster);
  if (command.cluster.json) {
    std::cout << nodes_json(*nodes);
    return kExitOk;
  }
  if (command.quiet) {
    for (const NodeView& node : *nodes) {
      std::cout << printable(node.worker.info.worker.name) << "\n";
    }
    return kExitOk;
  }
  std::vector<std::vector<std::string>> rows;
  for (const NodeView& node : *nodes) rows.push_back(row_of(node));
  std::cout << format_table(
      {"NAME", "STATE", "REASON", "JOB", "DEVICES", "MEMORY", "DATASETS", "HEARD", "ADDRESS"}, rows,
      command.headers, fit_of_nodes());
  // The table is on stdout, and the warning on stderr, so it disturbs no program.
  warn_without_data(*nodes);
  return kExitOk;
}

int run_drain(const DrainCommand& command) {
  ClusterConnection connection(command.cluster);
  if (const int code = connection.open(); code != kExitOk) return code;
  const auto node = connection.client().drain(command.worker, command.undo);
  if (!node.ok()) return connection.report(node.status(), About::name);
  if (command.cluster.json) {
    std::cout << nodes_json(std::span(&*node, 1));
  } else {
    std::cout << printable(node->worker.info.worker.name) << " " << name_of(node->worker.state)
              << (node->job.empty() || command.undo ? "" : "; job " + node->job + " leaves it")
              << "\n";
  }
  return kExitOk;
}

int run_cluster(const ClusterCommand& command) {
  ClusterConnection connection(command.cluster);
  if (const int code = connection.open(); code != kExitOk) return code;
  const auto cluster = connection.client().cluster();
  if (!cluster.ok()) return connection.report(cluster.status(), About::cluster);
  if (command.cluster.json) {
    std::cout << cluster_json(*cluster);
    return kExitOk;
  }
  line("Cluster", cluster->name);
  line("Id", cluster->id);
  line("Version", cluster->version);
  line("Started", cat(iso_time(cluster->started_ms), ", ",
                      format_age(cluster->now_ms - cluster->started_ms), " ago"));
  line("Generation", std::to_string(cluster->generation));
  line("Membership", std::to_string(cluster->membership));
  line("Master", cluster->rpc_address);
  line("Status page", cluster->http_address.empty() ? "-" : "http://" + cluster->http_address);
  line("Journal", cluster->journal.ok() ? "ok" : cluster->journal.to_string());
  return kExitOk;
}

}  // namespace leat
