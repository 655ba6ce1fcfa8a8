#include "daemon/status/openapi.h"

#include <nlohmann/json.hpp>

#include "daemon/master/http_writes.h"
#include "daemon/status/status_json.h"
#include "tests/catch.h"
#include "tests/daemon/client/job_master.h"
#include "tests/daemon/status/status_testing.h"

using namespace leat;

namespace {

using Json = nlohmann::json;

const Json& openapi_document() {
  static const Json all = Json::parse(openapi_json("1.2.3"));
  return all;
}

std::string misfit(const Json& value, const Json& schema, const std::string& where);

std::string object_misfit(const Json& value, const Json& schema, const std::string& where) {
  const Json properties = schema.value("properties", Json::object());
  for (const Json& name : schema.value("required", Json::array()))
    if (!value.contains(name)) return where + " lacks " + name.dump();
  for (const auto& [name, each] : value.items()) {
    const Json& below =
        properties.contains(name) ? properties.at(name) : schema.at("additionalProperties");
    if (below == false) return where + " must not have " + name;
    if (std::string found = misfit(each, below, where + "." + name); !found.empty()) return found;
  }
  return "";
}

bool has_type(const Json& value, const std::string& type) {
  if (type == "integer") return value.is_number_integer();
  if (type == "number") return value.is_number();
  return type == value.type_name();
}

// The place where the value does not conform to the schema; "" if it does.
std::string misfit(const Json& value, const Json& schema, const std::string& where) {
  if (schema.contains("$ref"))
    return misfit(
        value,
        openapi_document().at(Json::json_pointer(schema.at("$ref").get<std::string>().substr(1))),
        where);
  if (value.is_null()) return schema.value("nullable", false) ? "" : where + " is null";
  if (schema.contains("anyOf")) {
    for (const Json& each : schema.at("anyOf"))
      if (misfit(value, each, where).empty()) return "";
    return where + " fits none of its schemas: " + value.dump();
  }
  if (!has_type(value, schema.at("type"))) return where + " has another type: " + value.dump();
  if (schema.contains("enum") && std::find(schema.at("enum").begin(), schema.at("enum").end(),
                                           value) == schema.at("enum").end())
    return where + " is not listed: " + value.dump();
  if (schema.contains("minimum") && value < schema.at("minimum")) return where + " is too small";
  if (value.is_array())
    for (const Json& each : value)
      if (std::string found = misfit(each, schema.at("items"), where + "[]"); !found.empty())
        return found;
  return value.is_object() ? object_misfit(value, schema, where) : "";
}

const Json& answer_schema(const std::string& path, const std::string& status = "200") {
  return openapi_document()
      .at("paths")
      .at(path)
      .at("get")
      .at("responses")
      .at(status)
      .at("content")
      .at("application/json")
      .at("schema");
}

}  // namespace

TEST_CASE("the document has every request of the API, and no other") {
  const ExampleSource source;
  FakeJobs jobs("unused");
  std::vector<std::string> served, documented;
  const auto add = [&](const std::vector<HttpRoute>& routes) {
    for (const HttpRoute& route : routes)
      if (route.pattern.starts_with("/api/")) served.push_back(route.method + " " + route.pattern);
  };
  add(status_routes(source, nullptr));
  add(write_routes(jobs, source));
  for (const auto& [path, methods] : openapi_document().at("paths").items())
    for (const auto& [method, operation] : methods.items())
      documented.push_back((method == "get" ? "GET " : "POST ") + path);
  std::sort(served.begin(), served.end());
  std::sort(documented.begin(), documented.end());
  CHECK(served == documented);
  CHECK(openapi_document().at("info").at("version") == "1.2.3");
}

TEST_CASE("every answer conforms to its schema in the document") {
  StatusHost host;
  for (const auto& [path, item] : openapi_document().at("paths").items()) {
    if (path.ends_with("/events") || path.ends_with("openapi.json") || !item.contains("get"))
      continue;
    for (const JobView& job : host.source.jobs_) {
      std::string real = path;
      if (const size_t at = real.find("{id}"); at != std::string::npos) real.replace(at, 4, job.id);
      INFO(real);
      CHECK(misfit(Json::parse(host.get(real).body), answer_schema(path), "answer") == "");
    }
  }
  const Json page = Json::parse(host.get("/api/v1/jobs?limit=1").body);
  CHECK(misfit(page, answer_schema("/api/v1/jobs"), "page") == "");
  const Json error = Json::parse(host.get("/api/v1/jobs/none").body);
  CHECK(misfit(error, answer_schema("/api/v1/jobs/{id}", "404"), "error") == "");
}

TEST_CASE("an answer with another field does not conform") {
  Json job = Json::parse(job_json(ExampleSource().jobs()[1]));
  CHECK(misfit(job, answer_schema("/api/v1/jobs/{id}"), "job") == "");
  job["progress"]["surprise"] = 1;
  CHECK(misfit(job, answer_schema("/api/v1/jobs/{id}"), "job") ==
        "job.progress must not have surprise");
  job["progress"].erase("surprise");
  job["progress"]["loss"] = "many";
  CHECK_THAT(misfit(job, answer_schema("/api/v1/jobs/{id}"), "job"),
             Catch::StartsWith("job.progress.loss fits none of its schemas"));
}

TEST_CASE("a stream's events conform to the schemas that the document names") {
  const ExampleSource source;
  const Json& schemas = openapi_document().at("components").at("schemas");
  CHECK(misfit(Json::parse(job_summary_json(source.jobs()[1])), schemas.at("Job"), "job") == "");
  CHECK(misfit(Json::parse(node_json(source.nodes()[0])), schemas.at("Node"), "node") == "");
  CHECK(misfit(Json::parse(log_line_json(source.lines_[0])), schemas.at("LogLine"), "line") == "");
}
