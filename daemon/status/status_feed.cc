#include "daemon/status/status_feed.h"

#include <functional>
#include <utility>

#include "daemon/status/event_text.h"
#include "daemon/status/status_json.h"
#include "devices/base/text.h"

namespace leat {
namespace {

// Adds an event for each job. The last one has an id: the version up to which a client that got all
// of them has every change. Jobs are in the order of their submission, so the versions of the
// single jobs do not ascend, and some jobs share one.
void add_events(const std::vector<JobView>& jobs, uint64_t version,
                const std::function<void(StatusEvent)>& add) {
  for (size_t i = 0; i < jobs.size(); ++i) {
    const std::string id = i + 1 == jobs.size() ? std::to_string(version) : "";
    add({.job = jobs[i].id, .text = event_text("job", id, job_summary_json(jobs[i]))});
  }
}

StatusEvent event_of(const NodeView& node) {
  return {.job = "", .text = event_text("node", "", node_json(node))};
}

// The fields of a worker whose change is an event. Its counters change all the time.
std::string change_of(const NodeView& node) {
  const WorkerView& worker = node.worker;
  return cat(worker.info.worker.incarnation, " ", name_of(worker.state), " ", join(node.jobs, ","),
             " ", worker.reason);
}

}  // namespace

StatusFeed::StatusFeed(const StatusSource& source, size_t most_events,
                       std::chrono::milliseconds pause)
    : source_(source),
      most_events_(most_events),
      pause_(pause),
      jobs_version_(source.jobs_version()) {
  for (const NodeView& node : source.nodes())
    nodes_[node.worker.info.worker.name] = change_of(node);
}

void StatusFeed::update() {
  const auto now = std::chrono::steady_clock::now();
  if (now - asked_ < pause_) return;
  asked_ = now;
  update_jobs();
  update_nodes();
  while (events_.size() > most_events_) {
    events_.pop_front();
    ++first_;
  }
}

std::vector<StatusEvent> StatusFeed::snapshot(uint64_t version) const {
  std::vector<StatusEvent> events;
  const uint64_t now = source_.jobs_version();  // first: the jobs have all changes up to it
  add_events(source_.changed_jobs(version), now,
             [&](StatusEvent event) { events.push_back(std::move(event)); });
  for (const NodeView& node : source_.nodes()) events.push_back(event_of(node));
  return events;
}

void StatusFeed::update_jobs() {
  const uint64_t version = source_.jobs_version();
  if (version == jobs_version_) return;
  // A job that changes after the version was read has an event now and perhaps one more later.
  add_events(source_.changed_jobs(jobs_version_), version,
             [&](StatusEvent event) { events_.push_back(std::move(event)); });
  jobs_version_ = version;
}

void StatusFeed::update_nodes() {
  for (const NodeView& node : source_.nodes()) {
    std::string change = change_of(node);
    std::string& last = nodes_[node.worker.info.worker.name];
    if (last == change) continue;
    last = std::move(change);
    events_.push_back(event_of(node));
  }
}

}  // namespace leat
