#include "daemon/master/http_steps.h"

#include <chrono>
#include <memory>

#include "daemon/status/page_parts.h"
#include "daemon/status/pending_response.h"
#include "daemon/status/status_routes.h"
#include "daemon/status/step_page.h"
#include "daemon/wire/recording_file.h"
#include "devices/base/text.h"

namespace leat {
namespace {

constexpr uint64_t kShownSteps = 3;
constexpr auto kRecordForPage = std::chrono::seconds(15);

HttpResponse not_recorded(const JobView& job, const Status& cause) {
  const bool runs = job.condition.state == JobState::running;
  const std::string advice =
      cause.code() != Code::deadline_exceeded
          ? ""
          : cat(". leat trace ", job.id, " waits for a minute, and leat why ", job.id,
                " tells what the job waits for.");
  return html_error_page(runs ? 503 : 409, "No steps were recorded", cat(cause.message(), advice));
}

HttpResponse page_of_recording(const JobView& job, const Result<std::vector<std::byte>>& file) {
  if (!file.ok()) return not_recorded(job, file.status());
  const auto recording = read_recording(*file);
  return recording.ok() ? step_page(job, *recording) : not_recorded(job, recording.status());
}

HttpResponse record_for_page(JobService& jobs, const StatusSource& source,
                             const HttpRequest& request) {
  const auto job = source.job(request.captured[0]);
  if (!job.ok()) return http_failure(job.status());
  if (request.method == "HEAD") return html_still_page(job->id, "");  // asks no runner
  HttpResponse response;
  response.pending = std::make_shared<PendingResponse>();
  jobs.record(job->id, kShownSteps, std::chrono::steady_clock::now() + kRecordForPage,
              [job = *job, pending = response.pending](const auto& file) {
                pending->set(page_of_recording(job, file));
              });
  return response;
}

}  // namespace

std::vector<HttpRoute> step_routes(JobService& jobs, const StatusSource& source) {
  return {{"/jobs/{id}/steps", [&jobs, &source](const HttpRequest& request) {
             return record_for_page(jobs, source, request);
           }}};
}

}  // namespace leat
