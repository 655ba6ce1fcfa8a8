#include "daemon/master/post_mortem.h"

#include <chrono>
#include <set>
#include <span>
#include <utility>

#include "daemon/base/json_line.h"
#include "daemon/base/version.h"
#include "daemon/status/status_json.h"
#include "devices/base/text.h"
#include "devices/base/utf8.h"

namespace leat {
namespace {

std::string steps_lines(const std::vector<LastSteps>& all,
                        std::chrono::steady_clock::time_point end) {
  std::string text;
  JsonLine line;
  for (const LastSteps& each : all) {
    for (const HeardSteps& heard : each.heard) {
      const double seconds = std::chrono::duration<double>(end - heard.at).count();
      line.clear();
      line.add("worker", each.worker).add("device", each.device).add("plan", each.plan->name);
      line.add("run", each.number).add("steps_done", heard.done);
      line.add("steps_allowed", each.allowed);
      text += line.add("seconds_before_end", seconds).text();
    }
  }
  return text;
}

// Devices of one run have one plan.
std::string plans_text(const std::vector<LastSteps>& all) {
  std::set<const Plan*> told;
  std::string text;
  for (const LastSteps& each : all) {
    if (!told.insert(each.plan.get()).second) continue;
    text += cat("Plan '", each.plan->name, "':\n", each.plan->summary(), "\n");
  }
  return text;
}

// A file of YAML all the same, although an override is no part of the job file.
std::string job_file_of(const Submission& submission) {
  std::string text = submission.text;
  if (!text.empty() && text.back() != '\n') text += "\n";
  for (const std::string& each : submission.overrides)
    text += cat("# --set ", printable(each), "\n");
  for (const std::string& each : submission.chaos) text += cat("# --chaos ", printable(each), "\n");
  return text;
}

}  // namespace

void PostMortems::note(const std::string& job, const std::vector<LastSteps>& steps) {
  if (steps.empty()) return;
  Noted noted{steps_lines(steps, std::chrono::steady_clock::now()), plans_text(steps)};
  const std::lock_guard lock(mutex_);
  noted_[job] = std::move(noted);
}

void PostMortems::forget(const std::string& job) {
  const std::lock_guard lock(mutex_);
  noted_.erase(job);
}

Status PostMortems::write(const FailedJob& failed, Files& files, const std::string& folder) {
  Noted noted;
  {
    const std::lock_guard lock(mutex_);
    if (auto found = noted_.extract(failed.job.id)) noted = std::move(found.mapped());
  }
  const std::string below = folder + "/post-mortem";
  LEAT_RETURN_IF_ERROR(files.make_directories(below));
  const std::pair<const char*, std::string> parts[] = {
      {"job.json", job_json(failed.job)},
      {"job.yaml", job_file_of(failed.submission)},
      {"steps.jsonl", noted.steps},
      {"plan.txt", noted.plan},
      {"nodes.json", nodes_json(failed.nodes)},
      {"master.txt", cat("version: ", leat_version(), "\n", failed.settings)}};
  Status first;
  for (const auto& [name, text] : parts) {
    if (text.empty()) continue;  // no run has begun, so that there is no plan
    const Status written =
        write_file_atomically(files, cat(below, "/", name), std::as_bytes(std::span(text)));
    if (first.ok()) first = written;
  }
  return first;
}

}  // namespace leat
