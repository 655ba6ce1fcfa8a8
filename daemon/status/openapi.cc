#include "daemon/status/openapi.h"

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "daemon/jobs/job_facts.h"
#include "daemon/jobs/views.h"
#include "daemon/status/http.h"
#include "daemon/status/status_json.h"
#include "devices/base/text.h"
#include "transport/link_counters.h"

namespace leat {
namespace {

using Json = nlohmann::ordered_json;

Json typed(std::string_view type) { return {{"type", type}}; }
Json nullable(Json schema) {
  schema["nullable"] = true;
  return schema;
}
Json list_of(Json items) { return {{"type", "array"}, {"items", std::move(items)}}; }
Json reference(std::string_view schema) { return {{"$ref", cat("#/components/schemas/", schema)}}; }
Json date() { return {{"type", "string"}, {"format", "date-time"}}; }
Json count_from(int least) { return {{"type", "integer"}, {"minimum", least}}; }
// A number that a job computed: "NaN", "Infinity" and "-Infinity" are texts.
Json computed() {
  return {{"nullable", true},
          {"anyOf",
           {typed("number"), {{"type", "string"}, {"enum", {"NaN", "Infinity", "-Infinity"}}}}}};
}
template <typename Values>
Json one_of(const Values& values) {
  Json names = Json::array();
  for (const auto& value : values) names.push_back(name_of(value));
  return {{"type", "string"}, {"enum", std::move(names)}};
}

// Returns the schema of an object with these properties, all of which it always has.
Json object_of(const std::vector<std::pair<const char*, Json>>& properties) {
  Json schema = typed("object");
  schema["additionalProperties"] = false;
  for (const auto& [name, property] : properties) {
    schema["properties"][name] = property;
    schema["required"].push_back(name);
  }
  return schema;
}

// Adds the fields that each answer of the API has.
Json answer_of(std::string_view kind, Json schema) {
  schema["properties"]["apiVersion"] = {{"type", "string"}, {"enum", {kApiVersion}}};
  schema["properties"]["kind"] = {{"type", "string"}, {"enum", {kind}}};
  schema["required"].push_back("apiVersion");
  schema["required"].push_back("kind");
  return schema;
}

// Makes the schema of a job out of its facts: see daemon/jobs/job_facts.h. The members are those of
// FactJson in status_json.cc, which writes the JSON.
class FactSchema {
 public:
  explicit FactSchema(Json& schema) : schema_(schema) {
    schema_ = typed("object");
    schema_["additionalProperties"] = false;
  }

  void count(const Fact& fact, uint64_t) { put(fact, count_from(0)); }
  void known(const Fact& fact, uint64_t) { put(fact, nullable(count_from(1))); }
  void known(const Fact& fact, const std::string&) { put(fact, nullable(typed("string"))); }
  void integer(const Fact& fact, int64_t) { put(fact, typed("integer")); }
  void option(const Fact& fact, uint64_t) { put(fact, count_from(1), false); }
  void text(const Fact& fact, const std::string&) { put(fact, typed("string")); }
  void names(const Fact& fact, const std::vector<std::string>&) {
    put(fact, list_of(typed("string")));
  }
  void flag(const Fact& fact, bool) { put(fact, typed("boolean")); }
  void choice(const Fact& fact, JobState) { put(fact, one_of(kJobStates)); }
  void choice(const Fact& fact, RecoverySource) { put(fact, nullable(typed("string"))); }
  void date(const Fact& fact, int64_t) { put(fact, leat::date()); }
  void span(const Fact& fact, int64_t) {
    const std::string key = cat(fact.key, "_seconds");
    put({.key = key, .help = fact.help}, nullable(typed("number")));
  }
  void steps(const Fact& fact, int64_t) { put(fact, nullable(count_from(0))); }
  void number(const Fact& fact, double) { put(fact, computed()); }
  void rate(const Fact& fact, double) { put(fact, nullable(typed("number"))); }
  void numbers(const Fact& fact, const std::vector<NamedNumber>&) {
    put(fact, {{"type", "object"}, {"additionalProperties", computed()}}, false);
  }
  template <typename T>
  void derived(const Fact& fact, const std::optional<T>&) {
    put(fact, nullable(typed("number")));
  }
  template <typename Visit>
  void group(bool, Visit visit) {
    const bool outside = std::exchange(optional_, true);
    visit();
    optional_ = outside;
  }
  template <typename Visit>
  void record(std::string_view key, Visit visit) {
    Json below;
    FactSchema each(below);
    visit(each);
    put({.key = key}, std::move(below));
  }
  template <typename T, typename Visit>
  void list(std::string_view key, const std::vector<T>&, Visit visit) {
    Json below;
    FactSchema each(below);
    T item{};
    visit(each, item);
    put({.key = key}, list_of(std::move(below)), false);  // a list of jobs leaves it out
  }

 private:
  void put(const Fact& fact, Json schema, bool required = true) {
    if (!fact.shown) return;
    if (!fact.help.empty()) schema["description"] = fact.help;
    for (const std::string_view key : {fact.key, fact.old}) {
      if (key.empty()) continue;
      schema_["properties"][std::string(key)] = schema;
      if (required && !optional_) schema_["required"].push_back(key);
    }
  }

  Json& schema_;
  bool optional_ = false;  // the facts of a group are there or not
};

Json job_schema() {
  Json schema;
  FactSchema facts(schema);
  const JobView job;
  visit_job(facts, job);
  return schema;
}

Json node_schema() {
  std::vector<std::pair<const char*, Json>> counters;
  for (const LinkCounterField& field : kLinkCounterFields)
    counters.emplace_back(field.name, count_from(0));
  std::vector<std::pair<const char*, Json>> kinds;
  for (const ReservedMemoryField& field : kReservedMemoryFields)
    kinds.emplace_back(field.name, count_from(0));
  const Json memory = object_of(kinds);
  const Json device = object_of({{"name", typed("string")},
                                 {"kind", typed("string")},
                                 {"description", typed("string")},
                                 {"memory_bytes", count_from(0)},
                                 {"threads", count_from(0)}});
  return object_of({{"name", typed("string")},
                    {"incarnation", typed("string")},
                    {"state", one_of(kWorkerStates)},
                    {"reason", typed("string")},
                    {"since", date()},
                    {"silent_seconds", typed("number")},
                    {"progress", count_from(0)},
                    {"job", nullable(typed("string"))},
                    {"jobs", list_of(typed("string"))},
                    {"address", typed("string")},
                    {"machine", typed("string")},
                    {"version", typed("string")},
                    {"devices", list_of(device)},
                    {"datasets", list_of(typed("string"))},
                    {"cpu_seconds", typed("number")},
                    {"resident_bytes", count_from(0)},
                    {"reserved_bytes", object_of({{"host", memory}, {"accelerators", memory}})},
                    {"step_seconds", nullable(typed("number"))},
                    {"waiting", nullable(typed("number"))},
                    {"traffic", object_of(counters)}});
}

Json error_schema() { return object_of({{"code", typed("string")}, {"message", typed("string")}}); }

Json cluster_schema() {
  return object_of(
      {{"name", typed("string")},
       {"id", typed("string")},
       {"version", typed("string")},
       {"time", date()},
       {"started", date()},
       {"generation", count_from(0)},
       {"membership", count_from(0)},
       {"epoch", count_from(0)},
       {"addresses",
        object_of({{"rpc", nullable(typed("string"))}, {"http", nullable(typed("string"))}})},
       {"journal", object_of({{"ok", typed("boolean")}, {"error", nullable(error_schema())}})}});
}

// A list. The last page of one has no `next`.
Json list_schema(std::string_view item) {
  Json schema = object_of({{"items", list_of(reference(item))}});
  schema["properties"]["version"] = count_from(0);
  schema["properties"]["next"] = typed("string");
  return schema;
}

Json log_line_schema() {
  return object_of({{"time", date()}, {"worker", typed("string")}, {"text", typed("string")}});
}

// The request that submits a job.
Json submission_schema() {
  const Json file = {{"anyOf", {typed("string"), object_of({{"base64", typed("string")}})}}};
  Json schema = object_of({{"job", typed("string")}});
  schema["properties"]["files"] = {{"type", "object"}, {"additionalProperties", file}};
  schema["properties"]["set"] = list_of(typed("string"));
  schema["properties"]["request_id"] = typed("string");
  return schema;
}

Json schemas() {
  const Json curve = object_of({{"metric", typed("string")},
                                {"steps", list_of(count_from(0))},
                                {"values", list_of(nullable(typed("number")))}});
  Json error = object_of({{"error", error_schema()}});
  error["properties"]["apiVersion"] = {{"type", "string"}, {"enum", {kApiVersion}}};
  error["required"].push_back("apiVersion");
  Json all;
  all["JobSummary"] = job_schema();
  all["Job"] = answer_of("Job", job_schema());
  all["JobList"] = answer_of("JobList", list_schema("JobSummary"));
  all["NodeSummary"] = node_schema();
  all["Node"] = answer_of("Node", node_schema());
  all["NodeList"] = answer_of("NodeList", list_schema("NodeSummary"));
  all["Cluster"] = answer_of("Cluster", cluster_schema());
  all["Curves"] = answer_of("Curves", object_of({{"job", typed("string")},
                                                 {"whole", typed("boolean")},
                                                 {"steps", list_of(curve)},
                                                 {"epochs", list_of(curve)}}));
  all["LogLine"] = log_line_schema();
  all["LogPage"] = answer_of("LogPage", object_of({{"job", typed("string")},
                                                   {"first", count_from(0)},
                                                   {"next", count_from(0)},
                                                   {"end", count_from(0)},
                                                   {"complete", typed("boolean")},
                                                   {"lines", list_of(reference("LogLine"))}}));
  all["Error"] = std::move(error);
  all["Submission"] = submission_schema();
  return all;
}

Json parameter(std::string_view in, std::string_view name, Json schema,
               std::string_view description) {
  return {{"in", in},
          {"name", name},
          {"required", in == "path"},
          {"schema", std::move(schema)},
          {"description", description}};
}
Json in_query(std::string_view name, Json schema, std::string_view description) {
  return parameter("query", name, std::move(schema), description);
}
Json id_parameter() {
  return parameter("path", "id", typed("string"), "The id of a job, or a prefix of only one");
}

// The answers of a path: the right one, and those that any path may have.
Json responses(std::string_view type, Json schema, const std::vector<int>& errors) {
  Json all;
  all["200"] = {{"description", "The answer"},
                {"content", {{std::string(type), {{"schema", std::move(schema)}}}}}};
  for (const int status : errors) {
    all[std::to_string(status)] = {
        {"description", http_phrase(status)},
        {"content", {{"application/json", {{"schema", reference("Error")}}}}}};
  }
  return all;
}

Json get(std::string_view id, std::string_view summary, Json parameters, Json answers) {
  return {{"get",
           {{"operationId", id},
            {"summary", summary},
            {"parameters", std::move(parameters)},
            {"responses", std::move(answers)}}}};
}

Json json_answer(std::string_view schema, const std::vector<int>& errors) {
  return responses("application/json", reference(schema), errors);
}
Json stream_answer(const std::vector<int>& errors) {
  return responses("text/event-stream", typed("string"), errors);
}

Json list_parameters(Json after) {
  return Json::array(
      {in_query("state", typed("string"), "Only items in one of these states, with commas between"),
       in_query("name", typed("string"), "Only items whose id or name has this text in it"),
       in_query("after", std::move(after), "The `next` of the page before"),
       in_query("limit", {{"type", "integer"}, {"minimum", 1}, {"maximum", 10'000}},
                "The most items of a page")});
}

Json post(std::string_view id, std::string_view summary, Json parameters, Json answers) {
  return {{"operationId", id},
          {"summary", summary},
          {"parameters", std::move(parameters)},
          {"responses", std::move(answers)},
          {"security", {{{"bearer", Json::array()}}}}};
}

void add_writes(Json& paths) {
  Json created = json_answer("Job", {400, 401, 409, 413, 415, 422, 503, 504});
  created["201"] = std::move(created["200"]);
  created.erase("200");
  Json submit = post("submit", "Submits a job", Json::array(), std::move(created));
  submit["requestBody"] = {
      {"required", true},
      {"content", {{"application/json", {{"schema", reference("Submission")}}}}}};
  paths["/api/v1/jobs"]["post"] = std::move(submit);
  const auto add = [&paths](std::string_view verb, std::string_view summary) {
    paths[cat("/api/v1/jobs/{id}/", verb)]["post"] =
        post(verb, summary, Json::array({id_parameter()}),
             json_answer("Job", {401, 404, 409, 503, 504}));
  };
  add("cancel", "Ends a job");
  add("pause", "Has a job save a checkpoint and leave its workers");
  add("resume", "Puts a paused job back into the queue");
}

Json paths() {
  const Json none = Json::array();
  const Json id = Json::array({id_parameter()});
  const Json last_id = parameter("header", "Last-Event-ID", typed("string"),
                                 "The id of the last event that the client has got");
  Json all;
  all["/api/v1/cluster"] = get("cluster", "The master", none, json_answer("Cluster", {401}));
  all["/api/v1/jobs"] = get("jobs", "The jobs, in the order of submission",
                            list_parameters(count_from(0)), json_answer("JobList", {400, 401}));
  all["/api/v1/jobs/{id}"] = get("job", "A job", id, json_answer("Job", {401, 404, 409}));
  all["/api/v1/jobs/{id}/curves"] =
      get("curves", "The numbers of a job's steps and epochs, at most 1000 points each", id,
          json_answer("Curves", {401, 404, 409}));
  all["/api/v1/jobs/{id}/logs"] = get(
      "logs", "Lines that the runners of a job wrote",
      Json::array({id_parameter(), in_query("from", count_from(0), "The number of the first line"),
                   in_query("limit", {{"type", "integer"}, {"minimum", 1}, {"maximum", 1000}},
                            "The most lines")}),
      json_answer("LogPage", {400, 401, 404, 409}));
  all["/api/v1/jobs/{id}/events"] =
      get("jobEvents", "Events `job` with a Job; `end` is the last one", id,
          stream_answer({401, 404, 409, 503}));
  all["/api/v1/jobs/{id}/logs/events"] =
      get("logEvents", "Events `line` with a LogLine; `end` is the last one",
          Json::array({id_parameter(), last_id,
                       in_query("from", count_from(0), "The number of the first line")}),
          stream_answer({400, 401, 404, 409, 503}));
  all["/api/v1/nodes"] = get("nodes", "The workers by name, lost ones too",
                             list_parameters(typed("string")), json_answer("NodeList", {400, 401}));
  all["/api/v1/events"] =
      get("events", "Events `job` with a Job without its lists, and `node` with a Node",
          Json::array({last_id, in_query("since", count_from(0),
                                         "Begin with the jobs of a higher version than this")}),
          stream_answer({400, 401, 503}));
  all["/api/v1/openapi.json"] =
      get("openapi", "This document", none, responses("application/json", typed("object"), {401}));
  add_writes(all);
  return all;
}

}  // namespace

std::string openapi_json(std::string_view version) {
  Json document;
  document["openapi"] = "3.0.3";
  document["info"] = {{"title", "Leat"},
                      {"version", version},
                      {"description",
                       "The status of a master, its jobs and its workers. Within a version of the "
                       "API fields are only added."}};
  document["paths"] = paths();
  document["components"]["schemas"] = schemas();
  document["components"]["securitySchemes"] = {{"bearer", {{"type", "http"}, {"scheme", "bearer"}}},
                                               {"basic", {{"type", "http"}, {"scheme", "basic"}}}};
  document["security"] =
      Json::array({Json::object(), {{"bearer", Json::array()}}, {{"basic", Json::array()}}});
  return document.dump() + "\n";
}

}  // namespace leat
