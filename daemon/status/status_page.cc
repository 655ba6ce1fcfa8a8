#include "daemon/status/status_page.h"

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>

#include "daemon/json_line.h"
#include "daemon/status/job_order.h"
#include "daemon/status/status_json.h"
#include "devices/base/counted.h"
#include "devices/base/sha256.h"
#include "devices/base/text.h"
#include "devices/base/utf8.h"

namespace leat {
namespace {

constexpr size_t kMostJobs = 200;  // on the page

constexpr std::string_view kStyle = R"css(
:root { color-scheme: light dark; --back: #fff; --text: #1d2328; --faint: #68737d; --line: #dde2e7;
  --head: #f5f7f9; --good: #1a7f37; --busy: #0b62c4; --warn: #9a6700; --bad: #c4242e; }
@media (prefers-color-scheme: dark) {
  :root { --back: #12161a; --text: #dde3e8; --faint: #8f9ba6; --line: #2b333b; --head: #1a2026;
    --good: #4cc26a; --busy: #62a8f5; --warn: #dca63a; --bad: #f5736f; } }
body { margin: 0 auto; padding: 1.2rem 1.5rem 3rem; max-width: 100rem; background: var(--back);
  color: var(--text); font: 14px/1.45 system-ui, sans-serif; }
h1 { margin: 0; font-size: 1.4rem; } h2 { margin: 1.8rem 0 .5rem; font-size: 1.05rem; }
p { margin: .3rem 0; } a { color: inherit; } .faint { color: var(--faint); }
.scroll { overflow-x: auto; border: 1px solid var(--line); border-radius: 6px; }
table { width: 100%; border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .4rem .7rem; text-align: left; vertical-align: top; white-space: nowrap; }
th { background: var(--head); color: var(--faint); font-weight: 600; font-size: .85rem; }
tbody tr { border-top: 1px solid var(--line); } td.number, th.number { text-align: right; }
td small { display: block; color: var(--faint); white-space: normal; max-width: 34rem;
  overflow-wrap: anywhere; }
td.number small { white-space: nowrap; } .reason { min-width: 15rem; }
.state { font-weight: 600; } .good { color: var(--good); } .busy { color: var(--busy); }
.warn { color: var(--warn); } .bad { color: var(--bad); } .rest { color: var(--faint); }
progress { width: 9rem; accent-color: var(--busy); }
code { font: .9em ui-monospace, monospace; }
.none { padding: 1rem; color: var(--faint); }
body.stale main { opacity: .55; } #note { min-height: 1.45em; }
)css";

// Rows have ids; a table whose rows are others, or stand in another order, is replaced as a whole.
constexpr std::string_view kScript = R"js(
"use strict";
const note = document.getElementById("note");
let heard = Date.now();
const ids = (part) => [...part.querySelectorAll("[id]")].map((row) => row.id).join(" ");
function replace(old, now) {
  if (old.outerHTML !== now.outerHTML) old.replaceWith(document.adoptNode(now));
}
function show(page) {
  for (const now of [...page.querySelectorAll("[data-part]")]) {
    const old = document.querySelector(`[data-part="${now.dataset.part}"]`);
    const rows = [...now.querySelectorAll("[id]")];
    if (rows.length === 0 || ids(old) !== ids(now)) { replace(old, now); continue; }
    for (const row of rows) replace(document.getElementById(row.id), row);
  }
}
async function refresh() {
  if (document.hidden) return;
  try {
    const answer = await fetch("/", {cache: "no-store", signal: AbortSignal.timeout(4000)});
    if (!answer.ok) throw new Error("HTTP " + answer.status);
    show(new DOMParser().parseFromString(await answer.text(), "text/html"));
    heard = Date.now();
    note.textContent = "";
    document.body.classList.remove("stale");
  } catch (error) {
    const seconds = Math.round((Date.now() - heard) / 1000);
    note.textContent = `No answer from the master for ${seconds} s (${error.message}).`;
    document.body.classList.add("stale");
  }
}
async function run() {
  for (;;) {
    await new Promise((done) => setTimeout(done, 1000));
    await refresh();
  }
}
run();
)js";

std::string hash_source(std::string_view text) {
  const Sha256Digest digest = sha256(std::as_bytes(std::span(text)));
  return cat("'sha256-", base64({reinterpret_cast<const char*>(digest.data()), digest.size()}),
             "'");
}

[[gnu::format(printf, 1, 2)]] std::string format(const char* pattern, ...) {
  char text[64];
  va_list arguments;
  va_start(arguments, pattern);
  std::vsnprintf(text, sizeof text, pattern, arguments);
  va_end(arguments);
  return text;
}

std::string decimal(double value) {
  if (!is_known(value)) return "";
  if (!std::isfinite(value)) return std::string(name_of_number(value));
  return format(std::abs(value) >= 1000 && std::abs(value) < 1e9 ? "%.0f" : "%.4g", value);
}
std::string percent(double value) {
  if (!is_known(value)) return "";
  return std::isfinite(value) ? format("%.2f %%", 100 * value) : std::string(name_of_number(value));
}

// As a segment of a path.
std::string percent_encoded(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                       c == '-' || c == '_' || c == '.';
    out += plain ? std::string(1, c) : format("%%%02X", static_cast<unsigned char>(c));
  }
  return out;
}

// What it says, for those who see no colours; and a colour.
std::string badge(std::string_view text, std::string_view colour) {
  return cat("<span class=\"state ", colour, "\">", html_escaped(text), "</span>");
}
std::string_view colour_of(JobState state) {
  switch (state) {
    case JobState::running:
    case JobState::starting:
      return "busy";
    case JobState::recovering:
    case JobState::cancelling:
      return "warn";
    case JobState::succeeded:
      return "good";
    case JobState::failed:
      return "bad";
    case JobState::queued:
    case JobState::cancelled:
      return "rest";
  }
  return "rest";
}
std::string_view colour_of(WorkerState state) {
  switch (state) {
    case WorkerState::ready:
      return "good";
    case WorkerState::draining:
    case WorkerState::stuck:
      return "warn";
    case WorkerState::lost:
      return "bad";
  }
  return "rest";
}

std::string small(std::string_view text) {
  return text.empty() ? "" : cat("<small>", html_escaped(text), "</small>");
}
std::string cell(std::string_view html) { return cat("<td>", html, "</td>"); }
std::string number_cell(std::string_view text, std::string_view below = "") {
  return cat("<td class=\"number\">", html_escaped(text), small(below), "</td>");
}
std::string age(int64_t since_ms, const ClusterView& cluster) {
  return short_duration(static_cast<double>(std::max<int64_t>(0, cluster.now_ms - since_ms)) /
                        1000);
}

std::string state_cell(std::string_view name, std::string_view colour, std::string_view age,
                       std::string_view reason) {
  return cat("<td", reason.empty() ? "" : " class=\"reason\"", "><span class=\"state ", colour,
             "\">", name, "</span> <span class=\"faint\">", age, "</span>", small(reason), "</td>");
}

// Enough digits to tell two from each other; the tooltip and the JSON have them all.
std::string weights(const JobResult& result) {
  const std::string& sha256 = result.weights_sha256;
  if (sha256.empty()) return "";
  std::string title = sha256;
  if (result.shards > 0) {
    title += cat("; shards ", result.shards, ", seed ", result.seed, ", ", result.cpu,
                 result.depends_on_timing ? "; depends on timing" : "");
  }
  return cat("<small title=\"", html_escaped(title), "\">weights <code>",
             html_escaped(sha256.substr(0, 16)), "</code></small>");
}

std::string progress_cell(const ProgressReport& last) {
  if (last.steps == 0) return cell(last.step > 0 ? cat("step ", last.step) : "");
  const double share =
      std::min(1.0, static_cast<double>(last.step) / static_cast<double>(last.steps));
  return cell(cat("<progress max=\"", last.steps, "\" value=\"", std::min(last.step, last.steps),
                  "\"></progress> ", format("%.0f %%", std::floor(100 * share)), "<small>",
                  last.step, " of ", last.steps, " steps</small>"));
}

std::string job_row(const JobView& job, const ClusterView& cluster) {
  const JobCondition& condition = job.condition;
  const ProgressReport& last = job.progress.last;
  const std::string path = "/api/v1/jobs/" + percent_encoded(job.id);
  std::string html = cat("<tr id=\"job-", html_escaped(job.id), "\">");
  html +=
      cell(cat("<a href=\"", path, "\">", html_escaped(job.id), "</a> <a class=\"faint\" href=\"",
               path, "/logs\">log</a>", small(job.name), weights(parse_result(condition.result))));
  html += state_cell(name_of(condition.state), colour_of(condition.state),
                     age(condition.since_ms, cluster), condition.reason);
  html += progress_cell(last);
  html += number_cell(last.epochs > 0 ? cat(last.epoch, " of ", last.epochs) : "");
  html += number_cell(decimal(last.loss), decimal(last.val_loss));
  html += number_cell(percent(last.accuracy), percent(last.val_accuracy));
  const std::string samples = decimal(job.progress.samples_per_second);
  html += number_cell(decimal(job.progress.steps_per_second),
                      samples.empty() ? "" : samples + " samples/s");
  html += number_cell(
      condition.state == JobState::running ? short_duration(job.progress.eta_seconds) : "");
  html += number_cell(std::to_string(condition.restarts));
  const std::string elastic = job.min_workers == 0 ? "" : cat(job.min_workers, " to ");
  html += cell(cat(elastic, job.num_workers, small(join(condition.workers, ", "))));
  return html + "</tr>\n";
}

std::string node_row(const NodeView& node, const ClusterView& cluster) {
  const WorkerView& worker = node.worker;
  std::string html = cat("<tr id=\"node-", html_escaped(worker.info.worker.name), "\">");
  html += cell(cat(html_escaped(worker.info.worker.name), small(worker.info.address)));
  html += state_cell(name_of(worker.state), colour_of(worker.state), age(worker.since_ms, cluster),
                     worker.reason);
  html += cell(node.job.empty() ? ""
                                : cat("<a href=\"/api/v1/jobs/", percent_encoded(node.job), "\">",
                                      html_escaped(node.job), "</a>"));
  std::string devices;
  for (const WorkerDevice& device : worker.info.devices) {
    devices += cat("<div>", html_escaped(device.name), " <span class=\"faint\">",
                   counted(device.threads, "thread"), ", ", human_bytes(device.memory_bytes),
                   "</span>", small(device.description), "</div>");
  }
  html += cell(devices);
  html += cell(html_escaped(join(worker.info.datasets, ", ")));
  html += cell(html_escaped(worker.info.version));
  return html + "</tr>\n";
}

std::string header(const ClusterView& cluster, size_t jobs, std::span<const NodeView> nodes,
                   const Status& ready) {
  const auto lives = [](const NodeView& node) { return node.worker.state != WorkerState::lost; };
  std::string html =
      cat("<header data-part=\"cluster\"><h1>",
          html_escaped(cluster.name.empty() ? "Leat" : cluster.name), " ",
          ready.ok() ? badge("READY", "good") : badge("NOT READY", "bad"), "</h1>\n");
  if (!ready.ok()) html += cat("<p class=\"bad\">", html_escaped(ready.message()), "</p>");
  if (!cluster.journal.ok() && cluster.journal.message() != ready.message())
    html += cat("<p class=\"bad\">", html_escaped(cluster.journal.message()), "</p>");
  html += cat("<p class=\"faint\">", counted(jobs, "job"), ", ",
              std::count_if(nodes.begin(), nodes.end(), lives), " of ", nodes.size(),
              nodes.size() == 1 ? " worker" : " workers", " there; up for ",
              age(cluster.started_ms, cluster), "; ", html_escaped(cluster.version), "; ",
              html_escaped(cluster.rpc_address), "</p></header>\n");
  return html;
}

std::string jobs_table(std::span<const JobView> jobs, const ClusterView& cluster) {
  if (jobs.empty())
    return "<div data-part=\"jobs\" class=\"none\">No jobs yet: <code>leat submit "
           "job.yaml</code></div>\n";
  std::string html =
      "<div data-part=\"jobs\"><div class=\"scroll\"><table><thead><tr><th>Job</th><th>State</th>"
      "<th>Progress</th><th class=\"number\">Epoch</th><th class=\"number\">Loss"
      "<small> / validation</small></th><th class=\"number\">Accuracy<small> / validation</small>"
      "</th><th class=\"number\">Steps/s</th><th class=\"number\">Time left</th>"
      "<th class=\"number\">Restarts</th><th>Workers</th></tr></thead>\n<tbody>";
  const auto ordered = in_shown_order(jobs);
  const size_t shown = std::min(ordered.size(), kMostJobs);
  for (size_t i = 0; i < shown; ++i) html += job_row(*ordered[i], cluster);
  html += "</tbody></table></div>";
  if (shown < jobs.size())
    html += cat("<p class=\"faint\">and ", jobs.size() - shown,
                " older ones: <a href=\"/api/v1/jobs\">/api/v1/jobs</a></p>");
  return html + "</div>\n";
}

std::string nodes_table(std::span<const NodeView> nodes, const ClusterView& cluster) {
  if (nodes.empty())
    return "<div data-part=\"nodes\" class=\"none\">No workers yet: <code>leatd worker</code>"
           "</div>\n";
  std::string html =
      "<div data-part=\"nodes\"><div class=\"scroll\"><table><thead><tr><th>Worker</th>"
      "<th>State</th><th>Job</th><th>Devices</th><th>Data sets</th><th>Version</th></tr></thead>\n"
      "<tbody>";
  for (const NodeView& node : nodes) html += node_row(node, cluster);
  return html + "</tbody></table></div></div>\n";
}

}  // namespace

HttpResponse status_page(const ClusterView& cluster, std::span<const JobView> jobs,
                         std::span<const NodeView> nodes, const Status& ready) {
  HttpResponse response;
  response.type = "text/html; charset=utf-8";
  response.headers.emplace_back(
      "Content-Security-Policy",
      cat("default-src 'none'; connect-src 'self'; img-src data:; style-src ", hash_source(kStyle),
          "; script-src ", hash_source(kScript),
          "; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"));
  response.body = cat(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"
      "<title>",
      html_escaped(cluster.name.empty() ? "Leat" : cluster.name + " \xc2\xb7 Leat"),
      "</title><link rel=\"icon\" href=\"data:,\">"
      "<noscript><meta http-equiv=\"refresh\" content=\"2\"></noscript>\n<style>",
      kStyle, "</style></head>\n<body><main>", header(cluster, jobs.size(), nodes, ready),
      "<h2>Jobs</h2>\n", jobs_table(jobs, cluster), "<h2>Workers</h2>\n",
      nodes_table(nodes, cluster), "</main>\n<p id=\"note\" class=\"warn\" role=\"status\"></p>",
      "<script>", kScript, "</script></body></html>\n");
  return response;
}

std::string html_escaped(std::string_view text) {
  std::string out;
  for (const char c : replaced_utf8(text)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string short_duration(double seconds) {
  if (!(seconds >= 0) || seconds > 1e9) return "";
  const auto s = static_cast<long>(seconds);
  if (s < 60) return format("%ld s", s);
  if (s < 3600) return format("%ld min %02ld s", s / 60, s % 60);
  if (s < 24 * 3600) return format("%ld h %02ld min", s / 3600, s / 60 % 60);
  return format("%ld d %ld h", s / (24 * 3600), s / 3600 % 24);
}

}  // namespace leat
