#include "daemon/master/post_mortem.h"

#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "daemon/base/version.h"
#include "daemon/status/status_json.h"
#include "devices/base/text.h"

namespace leat {
namespace {

using Json = nlohmann::ordered_json;

double seconds_between(std::chrono::steady_clock::time_point from,
                       std::chrono::steady_clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

std::string steps_json(const std::vector<LastSteps>& all,
                       std::chrono::steady_clock::time_point end) {
  Json devices = Json::array();
  for (const LastSteps& each : all) {
    Json reports = Json::array();
    for (const HeardSteps& heard : each.heard) {
      reports.push_back(
          {{"steps_done", heard.done}, {"seconds_before_end", seconds_between(heard.at, end)}});
    }
    devices.push_back({{"worker", each.worker},
                       {"device", each.device},
                       {"run", each.run},
                       {"steps_allowed", each.allowed},
                       {"reports", std::move(reports)}});
  }
  const Json json = {
      {"apiVersion", kApiVersion}, {"kind", "LastSteps"}, {"devices", std::move(devices)}};
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

// Devices of one run have one plan.
std::string plans_text(const std::vector<LastSteps>& all) {
  std::set<const Plan*> told;
  std::string text;
  for (const LastSteps& each : all) {
    if (!told.insert(each.plan.get()).second) continue;
    text += cat("Plan of '", each.run, "':\n", each.plan->summary(), "\n");
  }
  return text;
}

// A file of YAML all the same, although an override is no part of the job file.
std::string job_file_of(const Submission& submission) {
  std::string text = submission.text;
  if (!text.empty() && text.back() != '\n') text += "\n";
  for (const std::string& each : submission.overrides) text += cat("# --set ", each, "\n");
  for (const std::string& each : submission.chaos) text += cat("# --chaos ", each, "\n");
  return text;
}

}  // namespace

void PostMortems::note(const std::string& job, std::vector<LastSteps> steps) {
  if (steps.empty()) return;
  const std::lock_guard lock(mutex_);
  noted_[job] = {std::chrono::steady_clock::now(), std::move(steps)};
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
      {"steps.json", steps_json(noted.steps, noted.at)},
      {"plan.txt", plans_text(noted.steps)},
      {"nodes.json", nodes_json(failed.nodes)},
      {"master.txt", cat("version: ", leat_version(), "\n", failed.settings)}};
  for (const auto& [name, text] : parts) {
    if (text.empty()) continue;  // no run has begun, so that there is no plan
    LEAT_RETURN_IF_ERROR(
        write_file_atomically(files, cat(below, "/", name), std::as_bytes(std::span(text))));
  }
  return {};
}

}  // namespace leat
