#include "daemon/status/status_json.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "daemon/base/json_line.h"

namespace leat {
namespace {

using Json = nlohmann::ordered_json;

Json object(std::string_view kind) { return {{"apiVersion", kApiVersion}, {"kind", kind}}; }

std::string line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Json number_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }
// The absent is null, and not a number or a text that means it.
Json known(uint64_t value) { return value > 0 ? Json(value) : Json(nullptr); }
Json known(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

Json error_of(const Status& status) {
  if (status.ok()) return nullptr;
  return {{"code", code_name(status.code())}, {"message", status.message()}};
}

// More than 53 bits are no number for most who read JSON.
std::string hexadecimal(uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

// A number that the training computed, whatever it is.
Json computed_or_null(double value) {
  if (!is_known(value)) return nullptr;
  return std::isfinite(value) ? Json(value) : Json(name_of_number(value));
}

Json epoch_result(const EpochResult& epoch) {
  return {{"epoch", epoch.epoch},
          {"step", epoch.step},
          {"loss", computed_or_null(epoch.loss)},
          {"accuracy", computed_or_null(epoch.accuracy)},
          {"val_loss", computed_or_null(epoch.val_loss)},
          {"val_accuracy", computed_or_null(epoch.val_accuracy)},
          {"seconds", number_or_null(epoch.seconds)},
          {"samples_per_second", number_or_null(epoch.samples_per_second)}};
}

Json progress(const JobProgress& progress) {
  const ProgressReport& last = progress.last;
  return {{"step", last.step},
          {"steps", known(last.steps)},
          {"epoch", last.epoch},
          {"epochs", known(last.epochs)},
          {"loss", computed_or_null(last.loss)},
          {"accuracy", computed_or_null(last.accuracy)},
          {"val_loss", computed_or_null(last.val_loss)},
          {"val_accuracy", computed_or_null(last.val_accuracy)},
          {"steps_per_second", number_or_null(progress.steps_per_second)},
          {"samples_per_second", number_or_null(progress.samples_per_second)},
          {"samples_per_step", known(last.samples_per_step)},
          {"eta_seconds", number_or_null(progress.eta_seconds)},
          {"steps_skipped", last.steps_skipped},
          {"metrics_missing_rows", last.metrics_missing},
          {"metrics_changed_until", known(last.metrics_changed_until)}};
}

Json seconds(int64_t milliseconds) {
  return milliseconds < 0 ? Json(nullptr) : Json(static_cast<double>(milliseconds) / 1000);
}
Json from_zero(int64_t value) { return value < 0 ? Json(nullptr) : Json(value); }

Json lost_assembly(const LostAssembly& lost) {
  const auto recomputed = lost.recomputed();
  return {{"number", lost.number},
          {"assembly", lost.assembly},
          {"epoch", lost.assembly},  // an old name, as lost_epochs
          {"cause", lost.cause},
          {"culprit", known(lost.culprit)},
          {"fault", known(lost.fault)},
          {"began", iso_time(lost.began_ms)},
          {"failed", iso_time(lost.failed_ms)},
          {"detection_seconds", seconds(lost.detected_after)},
          {"recovery_seconds", seconds(lost.recovered_after)},
          {"stopped_at", from_zero(lost.stopped_at)},
          {"went_on_from", from_zero(lost.went_on_from)},
          {"source", known(std::string(name_of(lost.source)))},
          {"steps_recomputed", recomputed ? Json(*recomputed) : Json(nullptr)}};
}

void add_job(const JobView& job, Json& json) {
  const JobCondition& condition = job.condition;
  json["id"] = job.id;
  json["number"] = job.number;
  json["name"] = job.name;
  json["state"] = name_of(condition.state);
  json["reason"] = condition.reason;
  json["since"] = iso_time(condition.since_ms);
  json["submitted"] = iso_time(job.submitted_ms);
  json["num_workers"] = job.num_workers;
  if (job.min_workers > 0) json["min_workers"] = job.min_workers;
  json["workers"] = condition.workers;
  json["restarts"] = condition.restarts;
  json["assemblies"] = condition.assembly;
  json["lost_assemblies"] = job.history.count;
  json["lost_epochs"] = job.history.count;  // the old name; the next version leaves it out
  json["progress"] = progress(job.progress);
  const JobResult result = parse_result(condition.result);
  json["weights_sha256"] = known(result.weights_sha256);
  if (result.shards > 0) {
    json["shards"] = result.shards;
    json["seed"] = result.seed;
    json["cpu"] = result.cpu;
    json["depends_on_timing"] = result.depends_on_timing;
  }
  json["version"] = job.version;
}

Json device(const WorkerDevice& device) {
  return {{"name", device.name},
          {"kind", device.kind},
          {"description", device.description},
          {"memory_bytes", device.memory_bytes},
          {"threads", device.threads}};
}

Json node(const NodeView& node) {
  const WorkerView& worker = node.worker;
  Json json = {{"name", worker.info.worker.name},
               {"incarnation", hexadecimal(worker.info.worker.incarnation)},
               {"state", name_of(worker.state)},
               {"reason", worker.reason},
               {"since", iso_time(worker.since_ms)},
               {"silent_seconds", std::chrono::duration<double>(worker.silent).count()},
               {"progress", worker.progress},
               {"job", known(node.job)},
               {"address", worker.info.address},
               {"machine", worker.info.machine},
               {"version", worker.info.version},
               {"devices", Json::array()},
               {"datasets", worker.info.datasets}};
  for (const WorkerDevice& each : worker.info.devices) json["devices"].push_back(device(each));
  return json;
}

}  // namespace

std::string cluster_json(const ClusterView& cluster) {
  Json json = object("Cluster");
  json["name"] = cluster.name;
  json["id"] = cluster.id;
  json["version"] = cluster.version;
  json["time"] = iso_time(cluster.now_ms);
  json["started"] = iso_time(cluster.started_ms);
  json["generation"] = cluster.generation;
  json["membership"] = cluster.membership;
  json["epoch"] = cluster.membership;  // the old name; the next version leaves it out
  json["addresses"] = {{"rpc", known(cluster.rpc_address)}, {"http", known(cluster.http_address)}};
  json["journal"] = {{"ok", cluster.journal.ok()}, {"error", error_of(cluster.journal)}};
  return line(json);
}

std::string jobs_json(std::span<const JobView> jobs) {
  Json json = object("JobList");
  Json& items = json["items"] = Json::array();
  for (const JobView& job : jobs) add_job(job, items.emplace_back(Json::object()));
  return line(json);
}

std::string job_json(const JobView& job) {
  Json json = object("Job");
  add_job(job, json);
  Json& epochs = json["progress"]["results"] = Json::array();
  for (const EpochResult& each : job.progress.epochs) epochs.push_back(epoch_result(each));
  Json& history = json["history"] = Json::array();
  for (const LostAssembly& each : job.history.last) history.push_back(lost_assembly(each));
  return line(json);
}

std::string nodes_json(std::span<const NodeView> nodes) {
  Json json = object("NodeList");
  Json& items = json["items"] = Json::array();
  for (const NodeView& each : nodes) items.push_back(node(each));
  return line(json);
}

std::string log_json(std::string_view job, const LogPage& page) {
  Json json = object("LogPage");
  json["job"] = job;
  json["first"] = page.first;
  json["next"] = page.first + page.lines.size();
  json["end"] = page.end;
  json["complete"] = page.complete;
  Json& lines = json["lines"] = Json::array();
  for (const LogLine& each : page.lines) {
    lines.push_back({{"time", iso_time(each.at_ms)}, {"worker", each.worker}, {"text", each.text}});
  }
  return line(json);
}

std::string live_json() {
  Json json = object("Liveness");
  json["live"] = true;
  return line(json);
}

std::string ready_json(const Status& status) {
  Json json = object("Readiness");
  json["ready"] = status.ok();
  json["error"] = error_of(status);
  return line(json);
}

std::string error_json(std::string_view code, std::string_view message) {
  return line({{"apiVersion", kApiVersion}, {"error", {{"code", code}, {"message", message}}}});
}

std::string iso_time(int64_t unix_ms) {
  using namespace std::chrono;
  // Four digits of a year: a clock that is that wrong shows as the first or the last moment.
  constexpr int64_t kLast = 253'402'300'799'999;  // of 9999
  const sys_time<milliseconds> at{milliseconds(std::clamp<int64_t>(unix_ms, 0, kLast))};
  const auto day = floor<days>(at);
  const year_month_day date(day);
  const hh_mm_ss<milliseconds> time(at - day);
  char text[64];
  std::snprintf(text, sizeof text, "%04d-%02u-%02uT%02d:%02d:%02d.%03dZ",
                static_cast<int>(date.year()), static_cast<unsigned>(date.month()),
                static_cast<unsigned>(date.day()), static_cast<int>(time.hours().count()),
                static_cast<int>(time.minutes().count()), static_cast<int>(time.seconds().count()),
                static_cast<int>(time.subseconds().count()));
  return text;
}

}  // namespace leat
