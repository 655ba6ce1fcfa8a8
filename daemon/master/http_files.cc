#include "daemon/master/http_files.h"

#include <memory>
#include <string>

#include "daemon/base/task_thread.h"
#include "daemon/status/page_parts.h"
#include "daemon/status/pending_response.h"
#include "daemon/status/status_routes.h"
#include "devices/base/files.h"
#include "devices/base/text.h"

namespace leat {
namespace {

constexpr uint64_t kMostJobFile = uint64_t{1} << 20;
constexpr size_t kMostWaiting = 32;  // pages whose files are still to be read

// The text of the job file; a sentence if the job has none yet, or if it cannot be read.
std::string job_file_text(JobService& jobs, const std::string& id) {
  const auto path = jobs.file_path(id, "job.yaml", "the page of files");
  if (!path.ok()) return "(the job has no job file yet)";
  const auto text = read_file(real_files(), *path, kMostJobFile);
  if (!text.ok()) return cat("(", text.status().message(), ")");
  return {reinterpret_cast<const char*>(text->data()), text->size()};
}

HttpResponse files_page(JobService& jobs, const JobView& job) {
  const auto files = jobs.files(job.id);
  if (!files.ok()) return http_failure(files.status());
  std::string rows;
  for (const JobFile& file : *files) {
    rows += cat("<tr><td>", html_escaped(file.name), "</td><td class=\"number\">",
                human_bytes(file.size), "</td></tr>\n");
  }
  const std::string id = html_escaped(job.id);
  return html_still_page(
      cat("Files of ", job.id, " \xc2\xb7 Leat"),
      cat("<p><a href=\"", job_path(job.id), "\">", id, "</a></p>\n<h1>Files</h1>\n",
          rows.empty() ? "<p>The job has no files yet.</p>\n"
                       : cat("<table><thead><tr><th>File</th><th>Size</th></tr></thead><tbody>\n",
                             rows, "</tbody></table>\n"),
          "<p class=\"faint\"><code>leat fetch ", id,
          "</code> copies all of them, <code>leat fetch ", id,
          " NAME</code> one.</p>\n<h2>Job file</h2>\n<div class=\"scroll\"><pre>",
          html_escaped(job_file_text(jobs, job.id)), "</pre></div>\n"));
}

HttpResponse read_for_page(JobService& jobs, const StatusSource& source, TaskThread& reader,
                           const HttpRequest& request) {
  const auto job = source.job(request.captured[0]);
  if (!job.ok()) return http_failure(job.status());
  if (request.method == "HEAD") return html_still_page(job->id, "");  // reads no disk
  if (reader.waiting() >= kMostWaiting) {
    return html_error_page(
        503, "Too many pages are read",
        cat("the master's disk answers slowly: ", kMostWaiting, " such pages wait for it"));
  }
  HttpResponse response;
  response.pending = std::make_shared<PendingResponse>();
  const bool posted = reader.post(
      [&jobs, job = *job, pending = response.pending] { pending->set(files_page(jobs, job)); });
  if (!posted) return html_error_page(503, "The master stops", "it reads no more files");
  return response;
}

}  // namespace

std::vector<HttpRoute> file_routes(JobService& jobs, const StatusSource& source) {
  auto reader = std::make_shared<TaskThread>("job files");
  return {{"/jobs/{id}/files", [&jobs, &source, reader](const HttpRequest& request) {
             return read_for_page(jobs, source, *reader, request);
           }}};
}

}  // namespace leat
