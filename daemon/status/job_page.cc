#include "daemon/status/job_page.h"

#include <algorithm>

#include "daemon/base/json_line.h"
#include "daemon/status/compare_page.h"
#include "daemon/status/curve_figures.h"
#include "daemon/status/page_parts.h"
#include "daemon/status/status_json.h"
#include "devices/base/ascii_text.h"
#include "devices/base/counted.h"
#include "devices/base/text.h"

namespace leat {
namespace {

// A row of the table of facts; "" without a value. `html` must be escaped already.
std::string fact(std::string_view name, std::string_view html) {
  return html.empty() ? "" : cat("<tr><th>", name, "</th><td>", html, "</td></tr>\n");
}

// "0.5, validation 0.625"
std::string with_validation(const std::string& value, const std::string& validation) {
  return cat(value, !value.empty() && !validation.empty() ? ", " : "",
             validation.empty() ? "" : "validation ", validation);
}

std::string workers_of(const JobView& job) {
  const std::string most =
      cat(job.min_workers == 0 ? "" : cat(job.min_workers, " to "), job.num_workers);
  return html_escaped(
      cat(most, job.condition.workers.empty() ? "" : ": ", join(job.condition.workers, ", ")));
}

std::string weights_of(const JobResult& result) {
  if (result.weights_sha256.empty()) return "";
  return cat("<code>", html_escaped(result.weights_sha256), "</code>",
             result.shards == 0
                 ? ""
                 : small_text(cat("shards ", result.shards, ", seed ", result.seed,
                                  precision_clause(result.precision), ", ", result.cpu,
                                  result.depends_on_timing ? "; depends on timing" : "")));
}

std::string skipped_steps(const ProgressReport& report) {
  if (report.steps_skipped == 0) return "";
  return cat(counted(report.steps_skipped, "step"), ", whose numbers were not finite");
}

// "val_f1 0.8712, val_auc 0.9411": the metrics that have no line of their own.
std::string other_metrics(const ProgressReport& report) {
  std::vector<std::string> texts;
  for (const NamedNumber& each : report.ended.more)
    texts.push_back(html_escaped(cat(each.name, " ", decimal(each.value))));
  return join(texts, ", ");
}

std::string facts(const JobView& job, const ClusterView& cluster) {
  const JobCondition& condition = job.condition;
  const ProgressReport& last = job.progress.last;
  const bool runs = condition.state == JobState::running;
  const std::string steps = runs ? decimal(job.progress.steps_per_second) : "";
  const std::string samples = runs ? decimal(job.progress.samples_per_second) : "";
  return cat("<table class=\"facts\"><tbody>", fact("Name", html_escaped(job.name)),
             fact("Submitted",
                  cat(iso_time(job.submitted_ms), ", ", age_at(cluster, job.submitted_ms), " ago")),
             fact("Workers", workers_of(job)), fact("Progress", progress_bar(last)),
             fact("Loss", with_validation(decimal(last.loss), decimal(last.val_loss))),
             fact("Accuracy", with_validation(percent(last.accuracy), percent(last.val_accuracy))),
             fact("Other metrics", other_metrics(last)),
             fact("Speed", cat(steps, steps.empty() ? "" : " steps/s", samples.empty() ? "" : ", ",
                               samples, samples.empty() ? "" : " samples/s")),
             fact("Time left", runs ? short_duration(job.progress.eta_seconds) : ""),
             fact("Skipped", skipped_steps(last)), fact("Metrics", lost_metrics(last)),
             fact("Restarts", std::to_string(condition.restarts)),
             fact("Weights", weights_of(condition.result)), "</tbody></table>\n");
}

// The steps from which the job went on after a loss.
std::vector<CurveMark> recoveries_of(const JobHistory& history) {
  std::vector<CurveMark> marks;
  for (const LostAssembly& lost : history.last) {
    if (lost.went_on_from < 0) continue;
    marks.push_back({static_cast<double>(lost.went_on_from),
                     cat("went on from step ", lost.went_on_from, ": ", lost.cause)});
  }
  return marks;
}

std::string steps_link(const JobView& job) {
  // A session has no steps of its own.
  if (job.condition.state != JobState::running || job.progress.last.step == 0) return "";
  return cat("<p><a href=\"", job_path(job.id),
             "/steps\">The next steps</a>: time line, critical path and graph</p>\n");
}

std::string line_text(const LogLine& line) {
  return html_escaped(cat(line.worker, line.worker.empty() ? "" : " | ", line.text));
}

std::string log_part(const JobView& job, const LogPage& log) {
  std::string html = "<h2 id=\"log\">Log</h2>\n<div data-part=\"log\" class=\"scroll\"><pre>";
  if (log.lines.empty()) html += "(no lines)";
  for (const LogLine& line : log.lines) html += line_text(line) + "\n";
  return cat(html, "</pre></div>\n<p><a href=\"", job_path(job.id),
             "/log\">All lines, with their times</a></p>\n");
}

}  // namespace

HttpResponse job_page(const JobView& job, const LogPage& log, const ClusterView& cluster,
                      const CurvesView& curves) {
  const JobCondition& condition = job.condition;
  const std::string json = "/api/v1/jobs/" + url_encoded(job.id);
  return html_page(
      job.id + " \xc2\xb7 Leat",
      cat("<p><a href=\"/\">All jobs and workers</a></p>\n<header data-part=\"job\"><h1>",
          html_escaped(job.id), " ", badge(name_of(condition.state), colour_of(condition.state)),
          " <span class=\"faint\">", age_at(cluster, condition.since_ms), "</span></h1>\n",
          condition.reason.empty() ? "" : cat("<p>", html_escaped(condition.reason), "</p>\n"),
          facts(job, cluster), steps_link(job), "</header>\n",
          curve_figures(curves, recoveries_of(job.history)), compare_form(std::span(&job.id, 1)),
          log_part(job, log), "<p><a href=\"", job_path(job.id),
          "/files\">Its files and its job file</a></p>\n<p class=\"faint\">As JSON: <a href=\"",
          json, "\">the job</a>, <a href=\"", json, "/curves\">its curves</a>, <a href=\"", json,
          "/logs\">its log</a></p>\n"));
}

HttpResponse job_log_page(const JobView& job, const LogPage& log, uint64_t most) {
  const uint64_t behind = log.first + log.lines.size();
  const auto link = [&](uint64_t from, std::string_view text) {
    return cat(" <a href=\"", job_path(job.id), "/log?from=", from, "\">", text, "</a>");
  };
  std::string lines;
  for (const LogLine& line : log.lines)
    lines += cat(iso_time(line.at_ms), "  ", line_text(line), "\n");
  return html_still_page(
      cat("Log of ", job.id, " \xc2\xb7 Leat"),
      cat("<p><a href=\"", job_path(job.id), "\">", html_escaped(job.id),
          "</a></p>\n<h1>Log</h1>\n<p>",
          lines.empty() ? "No lines." : cat("Lines ", log.first, " to ", behind - 1, "."),
          log.first > 0 ? link(log.first - std::min(log.first, most), "Older") : "",
          behind < log.end ? link(behind, "Newer") : "", "</p>\n<div class=\"scroll\"><pre>", lines,
          "</pre></div>\n"));
}

}  // namespace leat
