#include "daemon/cli/top_view.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "daemon/base/json_line.h"
#include "daemon/cli/table.h"
#include "daemon/status/job_order.h"
#include "daemon/status/page_parts.h"
#include "daemon/status/status_json.h"
#include "devices/base/counted.h"
#include "devices/base/text.h"

namespace leat {
namespace {

constexpr double kClearlyLess = 0.2;  // of waiting
constexpr double kNoRate = std::numeric_limits<double>::quiet_NaN();
constexpr size_t kMostJobsShown = 20;

const NodeView* find_node(const TopSample& sample, const std::string& name) {
  for (const NodeView& node : sample.nodes)
    if (node.worker.info.worker.name == name) return &node;
  return nullptr;
}

NodeRates rates_in(const TopSample& before, const TopSample& after, const NodeView& node) {
  const NodeView* earlier = find_node(before, node.worker.info.worker.name);
  if (earlier == nullptr) return {kNoRate, kNoRate, kNoRate, kNoRate};
  return rates_of(*earlier, node, after.at - before.at);
}

std::string fixed(double value, int digits) {
  if (!std::isfinite(value)) return "-";
  char text[32];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

std::string percent_text(double share) {
  return std::isfinite(share) ? fixed(100 * share, 0) + "%" : "-";
}

std::string bytes_rate(double rate) {
  return std::isfinite(rate) ? human_bytes(static_cast<uint64_t>(rate)) + "/s" : "-";
}

std::vector<std::string> job_cells(const JobView& job, const std::vector<NodeView>& nodes) {
  const ProgressReport& last = job.progress.last;
  const bool runs = job.condition.state == JobState::running;
  const double rate = job.progress.steps_per_second;
  return {job.id,
          std::string(name_of(job.condition.state)),
          last.steps > 0 ? cat(last.step, "/", last.steps) : std::to_string(last.step),
          is_known(last.loss) ? fixed(last.loss, 4) : "-",
          runs && rate > 0 ? milliseconds_text(1000 / rate) : "-",
          runs ? fixed(rate, 1) : "-",
          runs ? fixed(job.progress.samples_per_second, 0) : "-",
          or_dash(slowest_worker(job, nodes)),
          or_dash(job.condition.reason)};
}

// The memory of the worker's accelerators; 0 if it has none.
uint64_t accelerator_memory(const NodeView& node) {
  uint64_t bytes = 0;
  for (const WorkerDevice& device : node.worker.info.devices)
    bytes += device.kind == "cpu" ? 0 : device.memory_bytes;
  return bytes;
}

// "3.1 GiB of 80.0 GiB": what its runners have reserved of that.
std::string accelerator_cell(const NodeView& node) {
  const uint64_t all = accelerator_memory(node);
  return all == 0
             ? "-"
             : cat(human_bytes(total(node.worker.usage.accelerators)), " of ", human_bytes(all));
}

// The shares of a worker's cores and of its memory that it uses, 0 to 1; NaN if it is not known.
struct UsedShares {
  double cores = kNoRate, memory = kNoRate;
};
UsedShares used_shares(const NodeView& node, const NodeRates& rates) {
  const auto [threads, memory] = node.worker.info.cpu();
  UsedShares shares;
  if (threads > 0) shares.cores = rates.cpu / threads;
  if (memory > 0) {
    shares.memory =
        static_cast<double>(node.worker.usage.resident_bytes) / static_cast<double>(memory);
  }
  return shares;
}

std::vector<std::string> node_cells(const NodeView& node, const NodeRates& rates) {
  const UsedShares shares = used_shares(node, rates);
  const uint32_t cores = node.worker.info.cpu().cores;
  const bool lives = node.worker.state != WorkerState::lost;
  return {node.worker.info.worker.name,
          std::string(name_of(node.worker.state)),
          lives ? percent_text(rates.cpu) : "-",
          lives && cores > 0 ? cat(percent_text(shares.cores), " of ", cores) : "-",
          lives ? human_bytes(node.worker.usage.resident_bytes) : "-",
          lives ? percent_text(shares.memory) : "-",
          lives ? accelerator_cell(node) : "-",
          lives ? bytes_rate(rates.sent) : "-",
          lives ? bytes_rate(rates.received) : "-",
          lives && std::isfinite(node.worker.step_seconds)
              ? milliseconds_text(1000 * node.worker.step_seconds)
              : "-",
          lives ? percent_text(node.worker.waiting) : "-",
          or_dash(join(node.jobs, ", "))};
}

}  // namespace

NodeRates rates_of(const NodeView& before, const NodeView& after,
                   std::chrono::duration<double> time) {
  const WorkerView &a = before.worker, &b = after.worker;
  if (a.info.worker != b.info.worker || time.count() <= 0)
    return {kNoRate, kNoRate, kNoRate, kNoRate};
  const auto rate = [&](uint64_t from, uint64_t to) {
    return to < from ? kNoRate : static_cast<double>(to - from) / time.count();
  };
  return {rate(a.usage.cpu_ms, b.usage.cpu_ms) / 1000,
          rate(a.traffic.bytes_sent, b.traffic.bytes_sent),
          rate(a.traffic.bytes_received, b.traffic.bytes_received), rate(a.progress, b.progress)};
}

std::string slowest_worker(const JobView& job, const std::vector<NodeView>& nodes) {
  const NodeView* slowest = nullptr;
  double next = std::numeric_limits<double>::infinity();  // the least waiting of the others
  for (const NodeView& node : nodes) {
    const double waiting = node.worker.waiting;
    const bool serves = std::find(node.jobs.begin(), node.jobs.end(), job.id) != node.jobs.end();
    if (!serves || !std::isfinite(waiting)) continue;
    if (slowest == nullptr || waiting < slowest->worker.waiting) {
      if (slowest != nullptr) next = std::min(next, slowest->worker.waiting);
      slowest = &node;
    } else {
      next = std::min(next, waiting);
    }
  }
  if (slowest == nullptr || !std::isfinite(next)) return "";
  return next - slowest->worker.waiting >= kClearlyLess ? slowest->worker.info.worker.name : "";
}

std::string top_text(const TopSample& before, const TopSample& after, size_t columns) {
  std::vector<std::vector<std::string>> jobs, nodes;
  size_t ended = 0, more = 0;
  for (const JobView* job : in_shown_order(after.jobs)) {
    if (has_ended(job->condition.state)) {
      ++ended;
    } else if (jobs.size() == kMostJobsShown) {
      ++more;
    } else {
      jobs.push_back(job_cells(*job, after.nodes));
    }
  }
  size_t lives = 0;
  for (const NodeView& node : after.nodes) {
    lives += node.worker.state != WorkerState::lost;
    nodes.push_back(node_cells(node, rates_in(before, after, node)));
  }
  const std::string name = after.cluster.name.empty() ? "leat" : after.cluster.name;
  std::string text =
      cat(name, " ", after.cluster.version, ", up ",
          format_age(after.cluster.now_ms - after.cluster.started_ms), "; ",
          counted(static_cast<int64_t>(lives), "worker"), "; ",
          counted(static_cast<int64_t>(jobs.size() + more), "job"), ", ", ended, " ended\n\n");
  const TableFit fit_jobs = {columns,
                             {{"REASON", 12}, {"STEPS/S", 0}, {"SAMPLES/S", 0}, {"JOB", 12}}};
  if (!jobs.empty()) {
    text += format_table(
        {"JOB", "STATE", "STEP", "LOSS", "STEP TIME", "STEPS/S", "SAMPLES/S", "SLOWEST", "REASON"},
        jobs, true, fit_jobs);
  }
  if (more > 0) text += cat("and ", counted(static_cast<int64_t>(more), "job"), " that wait\n");
  text += jobs.empty() ? "no jobs\n\n" : "\n";
  const TableFit fit_nodes = {columns, {{"JOB", 10}, {"OF CORES", 0}, {"OF MEMORY", 0}}};
  std::vector<std::string> headers = {"WORKER",   "STATE",     "CPU",        "OF CORES",
                                      "MEMORY",   "OF MEMORY", "GPU MEMORY", "SENT",
                                      "RECEIVED", "STEP TIME", "WAITS",      "JOB"};
  // A cluster without accelerators needs no column for them.
  if (std::all_of(after.nodes.begin(), after.nodes.end(),
                  [](const NodeView& node) { return accelerator_memory(node) == 0; })) {
    const auto at = std::find(headers.begin(), headers.end(), "GPU MEMORY") - headers.begin();
    headers.erase(headers.begin() + at);
    for (std::vector<std::string>& cells : nodes) cells.erase(cells.begin() + at);
  }
  text += nodes.empty() ? "no workers\n" : format_table(headers, nodes, true, fit_nodes);
  return text;
}

std::string top_json(const TopSample& before, const TopSample& after) {
  const auto known = [](double value) {
    return std::isfinite(value) ? std::optional(value) : std::nullopt;
  };
  JsonLine jobs, nodes, line;
  for (const JobView& job : after.jobs) {
    if (has_ended(job.condition.state)) continue;
    const std::string slowest = slowest_worker(job, after.nodes);
    JsonLine each;
    each.add("state", name_of(job.condition.state))
        .add("step", job.progress.last.step)
        .add("loss", known(job.progress.last.loss))
        .add("steps_per_second", known(job.progress.steps_per_second))
        .add("samples_per_second", known(job.progress.samples_per_second))
        .add("slowest_worker", slowest.empty() ? std::nullopt : std::optional(slowest))
        .add("reason", job.condition.reason);
    jobs.add(job.id, each);
  }
  for (const NodeView& node : after.nodes) {
    const NodeRates rates = rates_in(before, after, node);
    const UsedShares shares = used_shares(node, rates);
    JsonLine each;
    each.add("state", name_of(node.worker.state))
        .add("cpu", known(rates.cpu))
        .add("of_cores", known(shares.cores))
        .add("resident_bytes", node.worker.usage.resident_bytes)
        .add("of_memory", known(shares.memory))
        .add("accelerators_reserved_bytes", total(node.worker.usage.accelerators))
        .add("accelerators_memory_bytes", accelerator_memory(node))
        .add("bytes_sent_per_second", known(rates.sent))
        .add("bytes_received_per_second", known(rates.received))
        .add("steps_per_second", known(rates.steps))
        .add("step_seconds", known(node.worker.step_seconds))
        .add("waiting", known(node.worker.waiting))
        .add("job", node.job.empty() ? std::nullopt : std::optional(node.job))
        .add("jobs", node.jobs);
    nodes.add(node.worker.info.worker.name, each);
  }
  return line.add("apiVersion", kApiVersion)
      .add("kind", "Top")
      .add("time", iso_time(after.cluster.now_ms))
      .add("jobs", jobs)
      .add("nodes", nodes)
      .text();
}

}  // namespace leat
