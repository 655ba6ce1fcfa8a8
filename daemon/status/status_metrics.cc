#include "daemon/status/status_metrics.h"

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <iterator>
#include <string_view>

namespace leat {
namespace {

constexpr double kMillisecond = 1e-3;

Metric gauge(const char* name, const char* help, std::vector<MetricSample> samples) {
  return {name, help, MetricKind::gauge, std::move(samples)};
}
Metric number(const char* name, const char* help, double value) {
  return gauge(name, help, {{{}, value}});
}

struct JobNumber {
  const char* name;
  const char* help;
  double (*of)(const JobView&);
  MetricKind kind = MetricKind::gauge;
};
const JobNumber kJobNumbers[] = {
    {"leat_job_step", "Steps that the job has done",
     [](const JobView& job) { return static_cast<double>(job.progress.last.step); }},
    {"leat_job_steps", "Steps that the job is to do, 0 if that is not known",
     [](const JobView& job) { return static_cast<double>(job.progress.last.steps); }},
    {"leat_job_epoch", "Passes over the data that the job has done",
     [](const JobView& job) { return static_cast<double>(job.progress.last.epoch); }},
    {"leat_job_loss", "Mean loss over the steps of the epoch so far",
     [](const JobView& job) { return job.progress.last.loss; }},
    {"leat_job_accuracy", "Mean accuracy over the steps of the epoch so far",
     [](const JobView& job) { return job.progress.last.accuracy; }},
    {"leat_job_val_loss", "Loss of the last validation",
     [](const JobView& job) { return job.progress.last.val_loss; }},
    {"leat_job_val_accuracy", "Accuracy of the last validation",
     [](const JobView& job) { return job.progress.last.val_accuracy; }},
    {"leat_job_steps_per_second", "Steps a second, over the last 20 seconds",
     [](const JobView& job) { return job.progress.steps_per_second; }},
    {"leat_job_samples_per_second", "Samples a second, over the last 20 seconds",
     [](const JobView& job) { return job.progress.samples_per_second; }},
    {"leat_job_eta_seconds", "Time that the steps to come will take at that rate",
     [](const JobView& job) { return job.progress.eta_seconds; }},
    {"leat_job_workers", "Workers that the job asks for",
     [](const JobView& job) { return static_cast<double>(job.num_workers); }},
    {"leat_job_restarts_total", "Recoveries of the job so far",
     [](const JobView& job) { return static_cast<double>(job.condition.restarts); },
     MetricKind::counter},
};

void add_jobs(std::span<const JobView> jobs, std::vector<Metric>& out) {
  Metric& states = out.emplace_back(gauge("leat_jobs", "Jobs by state", {}));
  for (const JobState state : kJobStates) {
    double count = 0;
    for (const JobView& job : jobs) count += job.condition.state == state ? 1 : 0;
    states.samples.push_back({{{"state", std::string(name_of(state))}}, count});
  }
  Metric info = gauge("leat_job_info", "1 for each job that has not ended", {});
  Metric since = gauge("leat_job_state_start_time_seconds",
                       "When the state of the job began, seconds of Unix time", {});
  for (const JobView& job : jobs) {
    if (has_ended(job.condition.state)) continue;
    const std::string state(name_of(job.condition.state));
    info.samples.push_back({{{"job", job.id}, {"name", job.name}, {"state", state}}, 1});
    since.samples.push_back(
        {{{"job", job.id}}, kMillisecond * static_cast<double>(job.condition.since_ms)});
  }
  out.push_back(std::move(info));
  out.push_back(std::move(since));
  for (const JobNumber& number : kJobNumbers) {
    Metric& metric = out.emplace_back(Metric{number.name, number.help, number.kind, {}});
    for (const JobView& job : jobs) {
      const double value = number.of(job);
      if (!has_ended(job.condition.state) && is_known(value))
        metric.samples.push_back({{{"job", job.id}}, value});
    }
  }
}

void add_nodes(std::span<const NodeView> nodes, std::vector<Metric>& out) {
  Metric states = gauge("leat_nodes", "Workers by state", {});
  for (const WorkerState state :
       {WorkerState::ready, WorkerState::draining, WorkerState::stuck, WorkerState::lost}) {
    double count = 0;
    for (const NodeView& node : nodes) count += node.worker.state == state ? 1 : 0;
    states.samples.push_back({{{"state", std::string(name_of(state))}}, count});
  }
  Metric up = gauge("leat_node_up", "1 for each worker that lives, 0 for one that was lost", {});
  Metric leased = gauge("leat_node_leased", "1 for each worker that serves a job", {});
  Metric silent = gauge("leat_node_silent_seconds", "Time since the worker was last heard", {});
  Metric memory = gauge("leat_node_device_memory_bytes", "Memory of the worker's device", {});
  for (const NodeView& node : nodes) {
    const std::pair<std::string, std::string> name = {"node", node.worker.info.worker.name};
    const bool lives = node.worker.state != WorkerState::lost;
    up.samples.push_back({{name}, lives ? 1.0 : 0.0});
    if (!lives) continue;
    leased.samples.push_back({{name}, node.job.empty() ? 0.0 : 1.0});
    silent.samples.push_back({{name}, std::chrono::duration<double>(node.worker.silent).count()});
    for (const WorkerDevice& device : node.worker.info.devices)
      memory.samples.push_back({{name, {"device", device.name}, {"kind", device.kind}},
                                static_cast<double>(device.memory_bytes)});
  }
  for (Metric* metric : {&states, &up, &leased, &silent, &memory})
    out.push_back(std::move(*metric));
}

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

double open_descriptors() {
  DIR* directory = ::opendir("/proc/self/fd");
  if (directory == nullptr) return std::nan("");
  double count = -3;  // ".", ".." and the directory itself
  while (::readdir(directory) != nullptr) ++count;
  ::closedir(directory);
  return count;
}

double resident_bytes() {
  std::FILE* file = std::fopen("/proc/self/statm", "re");
  if (file == nullptr) return std::nan("");
  long size = 0, resident = 0;
  const int read = std::fscanf(file, "%ld %ld", &size, &resident);
  std::fclose(file);
  if (read != 2) return std::nan("");
  return static_cast<double>(resident) * static_cast<double>(::sysconf(_SC_PAGESIZE));
}

}  // namespace

std::vector<Metric> cluster_metrics(const ClusterView& cluster, std::span<const JobView> jobs,
                                    std::span<const NodeView> nodes, const Status& ready) {
  std::vector<Metric> out;
  out.push_back(gauge("leat_build_info", "1, with the version of the master's program",
                      {{{{"version", cluster.version}}, 1}}));
  out.push_back(gauge("leat_cluster_info", "1, with the cluster's name and id",
                      {{{{"cluster", cluster.name}, {"id", cluster.id}}, 1}}));
  out.push_back(number("leat_master_start_time_seconds",
                       "When the master started, seconds of Unix time",
                       kMillisecond * static_cast<double>(cluster.started_ms)));
  out.push_back(number("leat_master_generation", "Starts of a master on this journal",
                       static_cast<double>(cluster.generation)));
  out.push_back(number("leat_master_ready", "1 if the master can take a job", ready.ok()));
  out.push_back(number("leat_journal_ok", "1 if the last write of the journal succeeded",
                       cluster.journal.ok()));
  out.push_back({"leat_membership_changes_total",
                 "Workers that joined or were lost",
                 MetricKind::counter,
                 {{{}, static_cast<double>(cluster.membership)}}});
  add_jobs(jobs, out);
  add_nodes(nodes, out);
  return out;
}

std::vector<Metric> process_metrics() {
  std::vector<Metric> out;
  const auto add = [&out](const char* name, const char* help, MetricKind kind, double value) {
    if (!std::isnan(value)) out.push_back({name, help, kind, {{{}, value}}});
  };
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  add("process_cpu_seconds_total", "Processor time, of user and system", MetricKind::counter,
      seconds(usage.ru_utime) + seconds(usage.ru_stime));
  add("process_resident_memory_bytes", "Memory that is resident", MetricKind::gauge,
      resident_bytes());
  add("process_open_fds", "Open file descriptors", MetricKind::gauge, open_descriptors());
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    add("process_max_fds", "File descriptors that there may be", MetricKind::gauge,
        static_cast<double>(limit.rlim_cur));
  return out;
}

}  // namespace leat
