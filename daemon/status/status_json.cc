#include "daemon/status/status_json.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "daemon/base/json_line.h"
#include "daemon/jobs/job_facts.h"
#include "devices/base/text.h"

namespace leat {
namespace {

using Json = nlohmann::ordered_json;

Json object(std::string_view kind) { return {{"apiVersion", kApiVersion}, {"kind", kind}}; }

Json list_object(std::string_view kind, const ListEnd& end) {
  Json json = object(kind);
  if (end.version > 0) json["version"] = end.version;
  if (end.next) json["next"] = *end.next;
  return json;
}

std::string line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Json number_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }
// 0 and "" stand for unknown values, which become null.
Json known(uint64_t value) { return value > 0 ? Json(value) : Json(nullptr); }
Json known(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

Json error_of(const Status& status) {
  if (status.ok()) return nullptr;
  return {{"code", code_name(status.code())}, {"message", status.message()}};
}

// A text, because most readers of JSON keep only 53 bits of a number.
std::string hexadecimal(uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

// A number from the training, which may be infinite or NaN: those become texts.
Json computed_or_null(double value) {
  if (!is_known(value)) return nullptr;
  return std::isfinite(value) ? Json(value) : Json(name_of_number(value));
}

// Adds the facts of a job to its object: see daemon/jobs/job_facts.h. Unknown values become null.
class FactJson {
 public:
  // `whole`: with the facts that are lists, too.
  FactJson(Json& json, bool whole) : json_(json), whole_(whole) {}

  void count(const Fact& fact, uint64_t value) { put(fact, value); }
  void known(const Fact& fact, uint64_t value) { put(fact, leat::known(value)); }
  void known(const Fact& fact, const std::string& value) { put(fact, leat::known(value)); }
  void integer(const Fact& fact, int64_t value) { put(fact, value); }
  void option(const Fact& fact, uint64_t value) {
    if (value > 0) put(fact, value);
  }
  void text(const Fact& fact, const std::string& value) { put(fact, value); }
  void names(const Fact& fact, const std::vector<std::string>& names) { put(fact, names); }
  void flag(const Fact& fact, bool value) { put(fact, value); }
  void choice(const Fact& fact, JobState state) { put(fact, name_of(state)); }
  void choice(const Fact& fact, RecoverySource from) {
    put(fact, leat::known(std::string(name_of(from))));
  }
  void date(const Fact& fact, int64_t ms) { put(fact, iso_time(ms)); }
  void span(const Fact& fact, int64_t ms) {
    json_[cat(fact.key, "_seconds")] =
        ms < 0 ? Json(nullptr) : Json(static_cast<double>(ms) / 1000);
  }
  void steps(const Fact& fact, int64_t steps) {
    put(fact, steps < 0 ? Json(nullptr) : Json(steps));
  }
  void number(const Fact& fact, double value) { put(fact, computed_or_null(value)); }
  void rate(const Fact& fact, double value) { put(fact, number_or_null(value)); }
  void numbers(const Fact& fact, const std::vector<NamedNumber>& all) {
    if (all.empty()) return;
    Json& object = json_[std::string(fact.key)] = Json::object();
    for (const NamedNumber& each : all) object[each.name] = computed_or_null(each.value);
  }
  template <typename T>
  void derived(const Fact& fact, const std::optional<T>& value) {
    put(fact, value ? Json(*value) : Json(nullptr));
  }
  template <typename Visit>
  void group(bool there, Visit visit) {
    if (there) visit();
  }
  template <typename Visit>
  void record(std::string_view key, Visit visit) {
    Json& object = json_[std::string(key)] = Json::object();
    FactJson below(object, whole_);
    visit(below);
  }
  template <typename T, typename Visit>
  void list(std::string_view key, const std::vector<T>& all, Visit visit) {
    if (!whole_) return;
    Json& array = json_[std::string(key)] = Json::array();
    for (const T& item : all) {
      FactJson each(array.emplace_back(Json::object()), whole_);
      visit(each, item);
    }
  }

 private:
  void put(const Fact& fact, Json value) {
    if (!fact.shown) return;
    json_[std::string(fact.key)] = value;
    if (!fact.old.empty()) json_[std::string(fact.old)] = std::move(value);
  }

  Json& json_;
  const bool whole_;
};

Json job_object(const JobView& job, bool whole, Json json) {
  FactJson facts(json, whole);
  visit_job(facts, job);
  return json;
}

Json device(const WorkerDevice& device) {
  return {{"name", device.name},
          {"kind", device.kind},
          {"description", device.description},
          {"memory_bytes", device.memory_bytes},
          {"threads", device.threads}};
}

Json reserved(const ReservedMemory& memory) {
  Json json = Json::object();
  for (const ReservedMemoryField& field : kReservedMemoryFields)
    json[field.name] = memory.*field.bytes;
  return json;
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
               {"jobs", node.jobs},
               {"address", worker.info.address},
               {"machine", worker.info.machine},
               {"version", worker.info.version},
               {"devices", Json::array()},
               {"datasets", worker.info.datasets}};
  json["cpu_seconds"] = static_cast<double>(worker.usage.cpu_ms) / 1000;
  json["resident_bytes"] = worker.usage.resident_bytes;
  json["reserved_bytes"] = {{"host", reserved(worker.usage.host)},
                            {"accelerators", reserved(worker.usage.accelerators)}};
  json["step_seconds"] = number_or_null(worker.step_seconds);
  json["waiting"] = number_or_null(worker.waiting);
  for (const WorkerDevice& each : worker.info.devices) json["devices"].push_back(device(each));
  for (const LinkCounterField& field : kLinkCounterFields)
    json["traffic"][field.name] = worker.traffic.*field.value;
  return json;
}

Json line_of_log(const LogLine& line) {
  return {{"time", iso_time(line.at_ms)}, {"worker", line.worker}, {"text", line.text}};
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

std::string jobs_json(std::span<const JobView> jobs, const ListEnd& end) {
  Json json = list_object("JobList", end);
  Json& items = json["items"] = Json::array();
  for (const JobView& job : jobs) items.push_back(job_object(job, false, Json::object()));
  return line(json);
}

std::string job_json(const JobView& job) { return line(job_object(job, true, object("Job"))); }

std::string job_summary_json(const JobView& job) {
  return line(job_object(job, false, object("Job")));
}

std::string nodes_json(std::span<const NodeView> nodes, const ListEnd& end) {
  Json json = list_object("NodeList", end);
  Json& items = json["items"] = Json::array();
  for (const NodeView& each : nodes) items.push_back(node(each));
  return line(json);
}

std::string node_json(const NodeView& view) {
  Json json = object("Node");
  json.update(node(view));
  return line(json);
}

std::string curves_json(std::string_view job, const CurvesView& curves) {
  Json json = object("Curves");
  json["job"] = job;
  json["whole"] = curves.whole;
  for (const auto& [key, list] :
       {std::pair("steps", &curves.of_steps), std::pair("epochs", &curves.of_epochs)}) {
    json[key] = Json::array();
    for (const Curve& curve : *list) {
      json[key].push_back(
          {{"metric", curve.label}, {"steps", curve.steps}, {"values", curve.values}});
    }
  }
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
  for (const LogLine& each : page.lines) lines.push_back(line_of_log(each));
  return line(json);
}

std::string log_line_json(const LogLine& each) { return line(line_of_log(each)); }

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

}  // namespace leat
