#include "daemon/status/status_metrics.h"

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <iterator>
#include <string_view>

#include "daemon/jobs/job_facts.h"
#include "devices/base/text.h"

namespace leat {
namespace {

constexpr double kMillisecond = 1e-3;

Metric gauge(const char* name, const char* help, std::vector<MetricSample> samples) {
  return {name, help, MetricKind::gauge, std::move(samples)};
}
Metric number(const char* name, const char* help, double value) {
  return gauge(name, help, {{{}, value}});
}

// Adds one sample of a job to each of its metrics, which are in the order of the facts: see
// daemon/jobs/job_facts.h.
class FactMetrics {
 public:
  explicit FactMetrics(std::vector<Metric>& metrics) : metrics_(metrics) {}
  // The facts that follow belong to this job.
  void begin(const JobView& job) {
    job_ = &job;
    next_ = 0;
  }

  template <typename Integer>
  void count(const Fact& fact, Integer value) {
    add(fact, static_cast<double>(value));
  }
  void known(const Fact& fact, uint64_t value) { count(fact, value); }
  void known(const Fact&, const std::string&) {}
  void integer(const Fact& fact, int64_t value) { add(fact, static_cast<double>(value)); }
  void option(const Fact& fact, uint64_t value) { count(fact, value); }
  void text(const Fact&, const std::string&) {}
  void names(const Fact&, const std::vector<std::string>&) {}
  void flag(const Fact& fact, bool value) { add(fact, value ? 1 : 0); }
  template <typename Enum>
  void choice(const Fact&, Enum) {}
  void date(const Fact& fact, int64_t ms) { add(fact, kMillisecond * static_cast<double>(ms)); }
  void span(const Fact& fact, int64_t ms) {
    add(fact, ms < 0 ? kNoNumber : kMillisecond * static_cast<double>(ms));
  }
  void steps(const Fact& fact, int64_t steps) {
    add(fact, steps < 0 ? kNoNumber : static_cast<double>(steps));
  }
  void number(const Fact& fact, double value) { add(fact, value); }
  void rate(const Fact& fact, double value) { add(fact, value); }
  // One sample for each number, with its name as a label.
  void numbers(const Fact& fact, const std::vector<NamedNumber>& numbers) {
    if (fact.metric.empty()) return;
    Metric& metric = next(fact);
    for (const NamedNumber& each : numbers) {
      if (is_known(each.value))
        metric.samples.push_back(
            {{{"job", job_->id}, {std::string(fact.by), each.name}}, each.value});
    }
  }
  template <typename T>
  void derived(const Fact&, const T&) {}
  template <typename Visit>
  void group(bool, Visit visit) {
    visit();
  }
  template <typename Visit>
  void record(std::string_view, Visit visit) {
    visit(*this);
  }
  template <typename T, typename Visit>
  void list(std::string_view, const std::vector<T>&, Visit) {}

 private:
  Metric& next(const Fact& fact) {
    if (next_ == metrics_.size()) {
      metrics_.push_back({std::string(fact.metric),
                          std::string(fact.help),
                          fact.metric.ends_with("_total") ? MetricKind::counter : MetricKind::gauge,
                          {}});
    }
    return metrics_[next_++];
  }
  void add(const Fact& fact, double value) {
    if (fact.metric.empty()) return;
    Metric& metric = next(fact);
    if (is_known(value)) metric.samples.push_back({{{"job", job_->id}}, value});
  }

  std::vector<Metric>& metrics_;
  const JobView* job_ = nullptr;
  size_t next_ = 0;
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
  std::vector<Metric> numbers;
  FactMetrics facts(numbers);
  for (const JobView& job : jobs) {
    if (has_ended(job.condition.state)) continue;
    facts.begin(job);
    visit_job(facts, job);
  }
  out.insert(out.end(), numbers.begin(), numbers.end());
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
  Metric cpu = {"leat_node_cpu_seconds_total",
                "CPU time of the worker and its runners since it started",
                MetricKind::counter,
                {}};
  Metric resident =
      gauge("leat_node_resident_memory_bytes", "Resident memory of the worker and its runners", {});
  Metric reserved = gauge("leat_node_reserved_memory_bytes",
                          "Memory that the runners have reserved, by kind", {});
  Metric step = gauge("leat_node_step_seconds", "Time of a step of the runners", {});
  Metric waiting =
      gauge("leat_node_waiting_ratio",
            "Share of the last seconds in which the runners only waited for others", {});
  std::vector<Metric> traffic = traffic_metrics("leat_node");
  for (const NodeView& node : nodes) {
    const std::pair<std::string, std::string> name = {"node", node.worker.info.worker.name};
    const bool lives = node.worker.state != WorkerState::lost;
    up.samples.push_back({{name}, lives ? 1.0 : 0.0});
    if (!lives) continue;
    leased.samples.push_back({{name}, node.job.empty() ? 0.0 : 1.0});
    silent.samples.push_back({{name}, std::chrono::duration<double>(node.worker.silent).count()});
    cpu.samples.push_back({{name}, static_cast<double>(node.worker.usage.cpu_ms) / 1000});
    resident.samples.push_back({{name}, static_cast<double>(node.worker.usage.resident_bytes)});
    add_reserved(node.worker.usage, {name}, reserved);
    if (std::isfinite(node.worker.step_seconds))
      step.samples.push_back({{name}, node.worker.step_seconds});
    if (std::isfinite(node.worker.waiting))
      waiting.samples.push_back({{name}, node.worker.waiting});
    for (const WorkerDevice& device : node.worker.info.devices)
      memory.samples.push_back({{name, {"device", device.name}, {"kind", device.kind}},
                                static_cast<double>(device.memory_bytes)});
    add_traffic(node.worker.traffic, {name}, traffic);
  }
  for (Metric* metric :
       {&states, &up, &leased, &silent, &memory, &cpu, &resident, &reserved, &step, &waiting})
    out.push_back(std::move(*metric));
  out.insert(out.end(), traffic.begin(), traffic.end());
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

void add_reserved(const WorkerUsage& usage, std::vector<std::pair<std::string, std::string>> labels,
                  Metric& out) {
  const size_t own = labels.size();
  const auto add = [&](const char* on, const ReservedMemory& memory) {
    for (const ReservedMemoryField& field : kReservedMemoryFields) {
      labels.resize(own);
      labels.emplace_back("on", on);
      labels.emplace_back("kind", field.name);
      out.samples.push_back({labels, static_cast<double>(memory.*field.bytes)});
    }
  };
  add("host", usage.host);
  if (total(usage.accelerators) > 0) add("accelerators", usage.accelerators);
}

std::vector<Metric> traffic_metrics(const std::string& prefix) {
  std::vector<Metric> metrics;
  for (const LinkCounterField& field : kLinkCounterFields)
    metrics.push_back(
        {cat(prefix, "_", field.name, "_total"), field.help, MetricKind::counter, {}});
  return metrics;
}

void add_traffic(const LinkCounters& traffic,
                 const std::vector<std::pair<std::string, std::string>>& labels,
                 std::span<Metric> out) {
  for (size_t i = 0; i < out.size(); ++i)
    out[i].samples.push_back({labels, static_cast<double>(traffic.*kLinkCounterFields[i].value)});
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
