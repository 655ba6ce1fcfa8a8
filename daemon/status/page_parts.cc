#include "daemon/status/page_parts.h"

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>

#include "daemon/base/json_line.h"
#include "devices/base/ascii_text.h"
#include "devices/base/sha256.h"
#include "devices/base/text.h"
#include "devices/base/utf8.h"

namespace leat {
namespace {

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
th, td { padding: .4rem .6rem; text-align: left; vertical-align: top; white-space: nowrap; }
th { background: var(--head); color: var(--faint); font-weight: 600; font-size: .85rem; }
tbody tr { border-top: 1px solid var(--line); } td.number, th.number { text-align: right; }
th small { display: block; font-weight: 400; }
td small { display: block; color: var(--faint); white-space: normal; max-width: 34rem;
  overflow-wrap: anywhere; }
td.number small { white-space: nowrap; } .reason { min-width: 12rem; }
td.name { white-space: normal; overflow-wrap: anywhere; min-width: 11rem; }
table.facts { width: auto; } table.facts th { background: none; }
table.facts td { white-space: normal; overflow-wrap: anywhere; }
pre { margin: 0; padding: .6rem .8rem; font: .85em/1.5 ui-monospace, monospace;
  white-space: pre-wrap; overflow-wrap: anywhere; }
.state { font-weight: 600; } .good { color: var(--good); } .busy { color: var(--busy); }
.warn { color: var(--warn); } .bad { color: var(--bad); } .rest { color: var(--faint); }
.curves { display: flex; flex-wrap: wrap; gap: 1rem; } figure { margin: 0; width: 22rem; }
figcaption { color: var(--faint); } svg { width: 100%; } svg:not([height]) { height: auto; }
svg text { font: 10px system-ui, sans-serif; fill: var(--faint); } svg line { stroke: var(--line); }
svg .end { text-anchor: end; } svg .middle { text-anchor: middle; }
polyline { fill: none; stroke-width: 1.5; } polyline.training { stroke: var(--busy); }
polyline.validation { stroke: var(--warn); } circle.training { fill: var(--busy); }
circle.validation { fill: var(--warn); } svg line.mark { stroke: var(--bad); stroke-dasharray: 2 2; }
.job0 { --of: #0b62c4; } .job1 { --of: #c4560b; } .job2 { --of: #1a7f37; } .job3 { --of: #8a3fc7; }
.job4 { --of: #b5246c; } .job5 { --of: #7a6a00; } polyline[class^="job"] { stroke: var(--of); }
circle[class^="job"] { fill: var(--of); } .dashed { stroke-dasharray: 4 3; }
svg.key { width: 1.5rem; } svg.use { width: 7.5rem; background: var(--head); }
@media (prefers-color-scheme: dark) {
  .job0 { --of: #62a8f5; } .job1 { --of: #f0994e; } .job2 { --of: #4cc26a; } .job3 { --of: #be8cf0; }
  .job4 { --of: #f07fb2; } .job5 { --of: #d6c33a; } }
.lanes { display: grid; grid-template-columns: max-content 1fr; }
.lanes ol { margin: 0; padding: 0 .6rem 0 0; list-style: none; } .lanes li { height: 18px; }
.lanes svg { display: block; } #x4:target svg { width: 400%; } #x16:target svg { width: 1600%; }
.lanes rect { fill: var(--line); } rect.compute { fill: var(--busy); } rect.wait { fill: var(--line); }
rect.wake-up { fill: var(--warn); } rect.transfer { fill: var(--good); }
.lanes line { stroke: var(--faint); vector-effect: non-scaling-stroke; }
.lanes line.arrow { stroke: var(--good); stroke-opacity: .6; }
.lanes rect.chosen { stroke: var(--text); stroke-width: 3; vector-effect: non-scaling-stroke; }
#bar { min-height: 2.9em; white-space: pre-line; }
.graph { display: none; } .graph:target, .graph:has(:target),
#graphs:not(:has(.graph:target, .graph :target)) > .graph:first-of-type { display: block; }
.graph svg { display: block; width: auto; height: auto; } .graph svg a { text-decoration: none; }
#graphs:has(.half:checked) svg { zoom: .5; } #graphs:has(.twice:checked) svg { zoom: 2; }
.graph path { fill: none; stroke: var(--faint); } .graph path.back { stroke-dasharray: 3 3; }
.graph rect { fill: var(--back); stroke: var(--faint); } .graph text.name { fill: var(--text); }
.graph rect.scope { fill: var(--head); stroke: var(--busy); }
.graph rect.share { fill: var(--busy); stroke: none; }
.card { display: none; position: fixed; left: 1.5rem; right: 1.5rem; bottom: 1rem; max-height: 45vh;
  overflow: auto; padding: .4rem .8rem; background: var(--head); border: 1px solid var(--line);
  border-radius: 6px; } .card:target { display: block; }
.card th, .card td { padding: .1rem .6rem .1rem 0; }
summary { cursor: pointer; } details details, details table { margin-left: 1.2rem; width: auto; }
progress { width: 6rem; accent-color: var(--busy); }
code { font: .9em ui-monospace, monospace; }
.none { padding: 1rem; color: var(--faint); }
nav { display: flex; flex-wrap: wrap; gap: .4rem 1rem; align-items: baseline; margin: 0 0 .5rem; }
nav a { text-decoration: none; color: var(--faint); padding: .1rem .2rem; }
nav a[aria-current] { color: var(--text); font-weight: 600; border-bottom: 2px solid var(--busy); }
nav input { font: inherit; color: inherit; background: var(--head); width: 14rem;
  border: 1px solid var(--line); border-radius: 4px; padding: .15rem .4rem; }
:focus-visible { outline: 2px solid var(--busy); outline-offset: 1px; }
body.stale main { opacity: .55; } #note { min-height: 1.45em; }
)css";

// The script replaces rows by their ids, or the whole table if its ids or their order changed.
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
    const answer = await fetch(location.pathname + location.search, {cache: "no-store", signal: AbortSignal.timeout(4000)});
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

// `live`: with the script that updates the page.
HttpResponse document(std::string_view title, std::string_view main, bool live,
                      std::string_view script) {
  HttpResponse response;
  response.type = "text/html; charset=utf-8";
  response.headers.emplace_back(
      "Content-Security-Policy",
      cat("default-src 'none'; ", live ? "connect-src 'self'; " : "", "img-src data:; style-src ",
          hash_source(kStyle), script.empty() ? "" : cat("; script-src ", hash_source(script)),
          "; frame-ancestors 'none'; base-uri 'none'; form-action ", live ? "'self'" : "'none'"));
  response.body =
      cat("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"
          "<title>",
          html_escaped(title), "</title><link rel=\"icon\" href=\"data:,\">",
          live ? "<noscript><meta http-equiv=\"refresh\" content=\"2\"></noscript>" : "",
          "\n<style>", kStyle, "</style></head>\n<body><main>", main, "</main>\n",
          live ? "<p id=\"note\" class=\"warn\" role=\"status\"></p>" : "",
          script.empty() ? "" : cat("<script>", script, "</script>"), "</body></html>\n");
  return response;
}

}  // namespace

HttpResponse html_page(std::string_view title, std::string_view main) {
  return document(title, main, true, kScript);
}

HttpResponse html_still_page(std::string_view title, std::string_view main,
                             std::string_view script) {
  return document(title, main, false, script);
}

HttpResponse html_error_page(int status, std::string_view phrase, std::string_view message) {
  HttpResponse page =
      document(cat(status, " ", phrase),
               cat("<h1>", html_escaped(phrase), "</h1>\n<p>", html_escaped(message),
                   "</p>\n<p><a href=\"/\">All jobs and "
                   "workers</a></p>\n"),
               false, {});
  page.status = status;
  return page;
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

std::string job_path(std::string_view id) { return "/jobs/" + url_encoded(id); }

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
    case JobState::pausing:
      return "warn";
    case JobState::succeeded:
      return "good";
    case JobState::failed:
      return "bad";
    case JobState::queued:
    case JobState::paused:
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

std::string small_text(std::string_view text) {
  return text.empty() ? "" : cat("<small>", html_escaped(text), "</small>");
}

std::string progress_bar(const ProgressReport& last) {
  if (last.steps == 0) return last.step > 0 ? cat("step ", last.step) : "";
  const double share =
      std::min(1.0, static_cast<double>(last.step) / static_cast<double>(last.steps));
  return cat("<progress max=\"", last.steps, "\" value=\"", std::min(last.step, last.steps),
             "\"></progress> ", format("%.0f %%", std::floor(100 * share)), "<small>", last.step,
             " of ", last.steps, " steps",
             last.epochs > 0 ? cat(", epoch ", last.epoch, " of ", last.epochs) : "", "</small>");
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

std::string milliseconds_text(double ms) { return format("%.3f ms", ms); }

std::string short_duration(double seconds) {
  if (!(seconds >= 0) || seconds > 1e9) return "";
  const auto s = static_cast<long>(seconds);
  if (s < 60) return format("%ld s", s);
  if (s < 3600) return format("%ld min %02ld s", s / 60, s % 60);
  if (s < 24 * 3600) return format("%ld h %02ld min", s / 3600, s / 60 % 60);
  return format("%ld d %ld h", s / (24 * 3600), s / 3600 % 24);
}

std::string age_at(const ClusterView& cluster, int64_t since_ms) {
  return short_duration(static_cast<double>(std::max<int64_t>(0, cluster.now_ms - since_ms)) /
                        1000);
}

}  // namespace leat
