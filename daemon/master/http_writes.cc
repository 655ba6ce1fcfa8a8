#include "daemon/master/http_writes.h"

#include <openssl/evp.h>

#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "daemon/status/pending_response.h"
#include "daemon/status/status_json.h"
#include "daemon/status/status_routes.h"
#include "devices/base/text.h"
#include "devices/base/utf8.h"
#include "transport/rpc/hello.h"

namespace leat {
namespace {

using Json = nlohmann::json;

Status wrong_type(std::string_view key, std::string_view expected, const Json& received) {
  return invalid_argument(cat(key, ": expected ", expected, ", received ", received.type_name()));
}

Result<std::string> text_at(const Json& object, const char* key) {
  const Json& value = object.at(key);
  if (!value.is_string()) return wrong_type(key, "a text", value);
  return value.get<std::string>();
}

// Decodes standard base64 with padding. The library alone would take blanks, and padding anywhere.
Result<std::string> from_base64(std::string_view text) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const size_t digits = text.find_last_not_of('=') + 1;  // 0 if there is none
  const size_t padding = text.size() - digits;
  const size_t wrong = text.substr(0, digits).find_first_not_of(kDigits);
  if (wrong != std::string_view::npos)
    return invalid_argument(cat("expected base64, received '", printable(text.substr(wrong, 1)),
                                "' at character ", wrong));
  if (text.size() % 4 != 0 || padding > 2 || text.size() > std::numeric_limits<int>::max())
    return invalid_argument(cat("expected base64 with padding, received ", digits,
                                " characters and ", padding, " of padding"));
  std::string bytes(text.size() / 4 * 3, '\0');
  const int size = ::EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                                     reinterpret_cast<const unsigned char*>(text.data()),
                                     static_cast<int>(text.size()));
  // The library counts the padding as bytes.
  bytes.resize(static_cast<size_t>(size) - padding);
  return bytes;
}

Result<AttachedFile> read_file(const std::string& name, const Json& value) {
  const std::string key = cat("files.", name);
  if (value.is_string()) return attach(name, value.get<std::string>());
  if (!value.is_object() || value.size() != 1 || !value.contains("base64") ||
      !value.at("base64").is_string())
    return invalid_argument(cat(key, ": expected a text, or {\"base64\": \"...\"}"));
  auto bytes = from_base64(value.at("base64").get_ref<const std::string&>());
  if (!bytes.ok()) return invalid_argument(cat(key, ".base64: ", bytes.status().message()));
  return attach(name, std::move(*bytes));
}

Status read_member(const std::string& key, const Json& body, Submission& submission) {
  const Json& value = body.at(key);
  if (key == "job") {
    LEAT_ASSIGN_OR_RETURN(submission.text, text_at(body, "job"));
  } else if (key == "request_id") {
    LEAT_ASSIGN_OR_RETURN(submission.request_id, text_at(body, "request_id"));
  } else if (key == "set") {
    if (!value.is_array()) return wrong_type(key, "a list of texts", value);
    for (const Json& each : value) {
      if (!each.is_string()) return wrong_type("set", "a list of texts", each);
      submission.overrides.push_back(each.get<std::string>());
    }
  } else if (key == "files") {
    if (!value.is_object()) return wrong_type(key, "an object", value);
    for (const auto& [name, file] : value.items()) {
      LEAT_ASSIGN_OR_RETURN(AttachedFile attached, read_file(name, file));
      submission.files.push_back(std::move(attached));
    }
  } else {
    return invalid_argument(cat(key, ": unknown key; expected job, files, set or request_id"));
  }
  return {};
}

// Returns the response for an error of a request that writes.
HttpResponse refused(const Status& status) {
  switch (status.code()) {
    case Code::invalid_argument:
      return http_error(422, status.message());
    case Code::failed_precondition:
      return http_error(409, status.message(), "conflict");
    case Code::unavailable:
    case Code::cancelled:
    case Code::resource_exhausted:
      return http_error(503, status.message());
    default:
      return http_error(500, status.message());
  }
}

HttpResponse with_job(int status, const JobView& job) {
  HttpResponse response;
  response.status = status;
  response.body = job_json(job);
  return response;
}

// Has `ask` call the service, and answers with the job that comes back.
template <typename Ask>
HttpResponse answer_later(int status, Ask ask) {
  HttpResponse response;
  response.pending = std::make_shared<PendingResponse>();
  ask([status, pending = response.pending](Result<JobView> job) {
    pending->set(job.ok() ? with_job(status, *job) : refused(job.status()));
  });
  return response;
}

// The client of a request, for logs.
std::string http_client(const HttpRequest& request) {
  return cat("a client over HTTP", request.client.empty() ? "" : " at ", request.client);
}

HttpResponse submit(JobService& jobs, const HttpRequest& request) {
  auto submission = read_http_submission(request.body);
  if (!submission.ok()) return http_error(400, submission.status().message());
  submission->by = http_client(request);
  return answer_later(201, [&](JobService::Done<JobView> done) {
    jobs.submit(std::move(*submission), std::move(done));
  });
}

// Finds the job, whose id may be a prefix of no other one, and has `ask` change it.
template <typename Ask>
HttpResponse change_job(const StatusSource& source, const HttpRequest& request, Ask ask) {
  const auto job = source.job(request.captured[0]);
  if (!job.ok()) return http_failure(job.status());
  return answer_later(200, [&](JobService::Done<JobView> done) {
    ask(job->id, http_client(request), std::move(done));
  });
}

}  // namespace

Result<Submission> read_http_submission(std::string_view body) {
  const Json json = Json::parse(body, nullptr, false);
  if (!json.is_object()) return invalid_argument("body: expected a JSON object");
  if (!json.contains("job")) return invalid_argument("job: missing; expected the job file's text");
  Submission submission;
  for (const auto& [key, value] : json.items())
    LEAT_RETURN_IF_ERROR(read_member(key, json, submission));
  if (submission.request_id.empty()) submission.request_id = to_hex(random_nonce());
  return submission;
}

std::vector<HttpRoute> write_routes(JobService& jobs, const StatusSource& source) {
  using Done = JobService::Done<JobView>;
  std::vector<HttpRoute> routes;
  const auto add = [&](const char* pattern,
                       std::function<HttpResponse(const HttpRequest&)> handler) {
    routes.push_back({pattern, std::move(handler), false, "POST"});
  };
  add("/api/v1/jobs", [&jobs](const HttpRequest& request) { return submit(jobs, request); });
  const auto add_change = [&](const char* pattern, auto ask) {
    add(pattern,
        [&source, ask](const HttpRequest& request) { return change_job(source, request, ask); });
  };
  add_change("/api/v1/jobs/{id}/cancel", [&jobs](const std::string& id, std::string by, Done done) {
    jobs.cancel(id, std::move(by), std::move(done));
  });
  add_change("/api/v1/jobs/{id}/pause", [&jobs](const std::string& id, std::string by, Done done) {
    jobs.pause(id, false, std::move(by), std::move(done));
  });
  add_change("/api/v1/jobs/{id}/resume", [&jobs](const std::string& id, std::string by, Done done) {
    jobs.pause(id, true, std::move(by), std::move(done));
  });
  return routes;
}

}  // namespace leat
