#include "daemon/status/status_page.h"

#include <algorithm>
#include <cmath>

#include "daemon/status/job_order.h"
#include "daemon/status/page_parts.h"
#include "daemon/status/usage_picture.h"
#include "devices/base/ascii_text.h"
#include "devices/base/counted.h"
#include "devices/base/text.h"

namespace leat {
namespace {

constexpr size_t kJobsOnPage = 200;

std::string cell(std::string_view html) { return cat("<td>", html, "</td>"); }
std::string name_cell(std::string_view html) { return cat("<td class=\"name\">", html, "</td>"); }
std::string number_cell(std::string_view text, std::string_view below = "") {
  return cat("<td class=\"number\">", html_escaped(text), small_text(below), "</td>");
}
std::string state_cell(std::string_view name, std::string_view colour, std::string_view age,
                       std::string_view reason) {
  return cat("<td", reason.empty() ? "" : " class=\"reason\"", "><span class=\"state ", colour,
             "\">", name, "</span> <span class=\"faint\">", age, "</span>", small_text(reason),
             "</td>");
}

// Shows enough digits to distinguish two jobs; the tooltip and the JSON have all digits.
std::string weights(const JobResult& result) {
  const std::string& sha256 = result.weights_sha256;
  if (sha256.empty()) return "";
  std::string title = sha256;
  if (result.shards > 0) {
    title +=
        cat("; shards ", result.shards, ", seed ", result.seed, precision_clause(result.precision),
            ", ", result.cpu, result.depends_on_timing ? "; depends on timing" : "");
  }
  return cat("<small title=\"", html_escaped(title), "\">weights <code>",
             html_escaped(sha256.substr(0, 16)), "</code></small>");
}

std::string job_row(const JobView& job, const ClusterView& cluster) {
  const JobCondition& condition = job.condition;
  const ProgressReport& last = job.progress.last;
  const std::string path = job_path(job.id);
  std::string html = cat("<tr id=\"job-", html_escaped(job.id), "\">");
  html += name_cell(cat("<a href=\"", path, "\">", html_escaped(job.id),
                        "</a> <a class=\"faint\" href=\"", path, "#log\">log</a>",
                        small_text(job.name), weights(condition.result)));
  html += state_cell(name_of(condition.state), colour_of(condition.state),
                     age_at(cluster, condition.since_ms), condition.reason);
  html += cell(progress_bar(last));
  html += number_cell(decimal(last.loss), decimal(last.val_loss));
  html += number_cell(percent(last.accuracy), percent(last.val_accuracy));
  const std::string samples = decimal(job.progress.samples_per_second);
  html += number_cell(decimal(job.progress.steps_per_second),
                      samples.empty() ? "" : samples + " samples/s");
  html += number_cell(
      condition.state == JobState::running ? short_duration(job.progress.eta_seconds) : "");
  html += number_cell(std::to_string(condition.restarts));
  const std::string elastic = job.min_workers == 0 ? "" : cat(job.min_workers, " to ");
  html += cell(cat(elastic, job.num_workers, small_text(join(condition.workers, ", "))));
  return html + "</tr>\n";
}

std::string node_row(const NodeView& node, const ClusterView& cluster) {
  const WorkerView& worker = node.worker;
  std::string html = cat("<tr id=\"node-", html_escaped(worker.info.worker.name), "\">");
  html += name_cell(cat(html_escaped(worker.info.worker.name), small_text(worker.info.address)));
  html += state_cell(name_of(worker.state), colour_of(worker.state),
                     age_at(cluster, worker.since_ms), worker.reason);
  std::vector<std::string> links;
  for (const std::string& job : node.jobs)
    links.push_back(cat("<a href=\"", job_path(job), "\">", html_escaped(job), "</a>"));
  html += cell(join(links, ", "));
  std::string devices;
  for (const WorkerDevice& device : worker.info.devices) {
    const std::string threads =
        device.threads > 0 ? cat(counted(device.threads, "thread"), ", ") : "";
    devices +=
        cat("<div>", html_escaped(device.name), " <span class=\"faint\">", threads,
            human_bytes(device.memory_bytes), "</span>", small_text(device.description), "</div>");
  }
  html += cell(devices);
  const bool lives = worker.state != WorkerState::lost;
  html += number_cell(lives ? human_bytes(worker.usage.resident_bytes) : "");
  html += cell(usage_picture(worker, cluster.now_ms));
  html += number_cell(
      std::isfinite(worker.step_seconds) ? milliseconds_text(1000 * worker.step_seconds) : "",
      std::isfinite(worker.waiting) ? percent(worker.waiting) + " waiting" : "");
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
              age_at(cluster, cluster.started_ms), "; ", html_escaped(cluster.version), "; ",
              html_escaped(cluster.rpc_address), "</p></header>\n");
  return html;
}

// The groups of jobs that the page can be narrowed to.
struct JobGroup {
  std::string_view key, label;
  bool (*has)(JobState state);
};
constexpr JobGroup kGroups[] = {
    {"", "All", [](JobState) { return true; }},
    {"running", "Running", has_workers},
    {"waiting", "Waiting", [](JobState state) { return !has_workers(state) && !has_ended(state); }},
    {"ended", "Ended", [](JobState state) { return has_ended(state); }},
};

const JobGroup& group_of(const JobFilter& filter) {
  const auto* found = std::find_if(std::begin(kGroups), std::end(kGroups),
                                   [&](const JobGroup& group) { return group.key == filter.show; });
  return found == std::end(kGroups) ? kGroups[0] : *found;
}

bool takes(const JobFilter& filter, const JobView& job) {
  return group_of(filter).has(job.condition.state) && job.id.find(filter.name) != std::string::npos;
}

// The query for a group of jobs and a name, as part of an address in HTML; "" for all jobs.
std::string query_of(std::string_view group, std::string_view name, uint64_t page = 1) {
  std::string query;
  const auto add = [&query](std::string_view key, const std::string& value) {
    query += cat(query.empty() ? "?" : "&amp;", key, "=", value);
  };
  if (!group.empty()) add("show", std::string(group));
  if (!name.empty()) add("name", url_encoded(name));
  if (page > 1) add("page", std::to_string(page));
  return query;
}

// Links to the groups, with the number of jobs in each, and a form to search for a name.
std::string filter_bar(std::span<const JobView> jobs, const JobFilter& filter) {
  const JobGroup& chosen = group_of(filter);
  std::string html = "<nav data-part=\"filter\" aria-label=\"Jobs\">";
  for (const JobGroup& group : kGroups) {
    const auto count = std::count_if(jobs.begin(), jobs.end(), [&](const JobView& job) {
      return group.has(job.condition.state);
    });
    html += cat("<a href=\"/", query_of(group.key, filter.name), "\"",
                &group == &chosen ? " aria-current=\"page\"" : "", ">", group.label, " ", count,
                "</a>");
  }
  html += "</nav>\n<nav><form action=\"/\" method=\"get\">";
  if (!chosen.key.empty())
    html += cat("<input type=\"hidden\" name=\"show\" value=\"", chosen.key, "\">");
  return html +
         cat("<input type=\"search\" name=\"name\" value=\"", html_escaped(filter.name),
             "\" placeholder=\"Name of a job\" aria-label=\"Name of a job\"></form></nav>\n");
}

// Links to the pages before and after this one of `pages`; "" if it is the only one.
std::string page_bar(const JobFilter& filter, uint64_t page, uint64_t pages) {
  if (pages < 2) return "";
  const auto link = [&](uint64_t to, std::string_view label) {
    if (to < 1 || to > pages) return cat("<span>", label, "</span>");
    return cat("<a href=\"/", query_of(group_of(filter).key, filter.name, to), "\">", label,
               "</a>");
  };
  return cat("<nav aria-label=\"Pages of jobs\">", link(page - 1, "Newer"), "<span>Page ", page,
             " of ", pages, "</span>", link(page + 1, "Older"), "</nav>");
}

std::string jobs_table(std::span<const JobView> all, const JobFilter& filter,
                       const ClusterView& cluster) {
  if (all.empty())
    return "<div data-part=\"jobs\" class=\"none\">No jobs yet: <code>leat submit "
           "job.yaml</code></div>\n";
  std::vector<const JobView*> jobs = in_shown_order(all);
  std::erase_if(jobs, [&](const JobView* job) { return !takes(filter, *job); });
  if (jobs.empty()) return "<div data-part=\"jobs\" class=\"none\">No such jobs</div>\n";
  std::string html =
      "<div data-part=\"jobs\"><div class=\"scroll\"><table><thead><tr><th>Job</th><th>State</th>"
      "<th>Progress</th><th class=\"number\">Loss<small>validation</small></th>"
      "<th class=\"number\">Accuracy<small>validation</small>"
      "</th><th class=\"number\">Steps/s</th><th class=\"number\">Time left</th>"
      "<th class=\"number\">Restarts</th><th>Workers</th></tr></thead>\n<tbody>";
  const size_t pages = (jobs.size() + kJobsOnPage - 1) / kJobsOnPage;
  const size_t page = std::clamp<size_t>(filter.page, 1, pages);
  const size_t end = std::min(jobs.size(), page * kJobsOnPage);
  for (size_t i = (page - 1) * kJobsOnPage; i < end; ++i) html += job_row(*jobs[i], cluster);
  return cat(html, "</tbody></table></div>", page_bar(filter, page, pages), "</div>\n");
}

std::string nodes_table(std::span<const NodeView> nodes, const ClusterView& cluster) {
  if (nodes.empty())
    return "<div data-part=\"nodes\" class=\"none\">No workers yet: <code>leatd worker</code>"
           "</div>\n";
  std::string html =
      "<div data-part=\"nodes\"><div class=\"scroll\"><table><thead><tr><th>Worker</th>"
      "<th>State</th><th>Job</th><th>Devices</th><th class=\"number\">Memory</th>"
      "<th>Use<small><span class=\"busy\">threads</span>, <span class=\"warn\">memory</span>"
      "</small></th><th "
      "class=\"number\">Step"
      "<small>waiting for other workers</small></th><th>Data "
      "sets</th><th>Version</th></tr></thead>\n"
      "<tbody>";
  for (const NodeView& node : nodes) html += node_row(node, cluster);
  return html + "</tbody></table></div></div>\n";
}

}  // namespace

HttpResponse status_page(const ClusterView& cluster, std::span<const JobView> jobs,
                         std::span<const NodeView> nodes, const Status& ready,
                         const JobFilter& filter) {
  return html_page(
      cluster.name.empty() ? "Leat" : cluster.name + " \xc2\xb7 Leat",
      cat(header(cluster, jobs.size(), nodes, ready), "<h2>Jobs</h2>\n",
          jobs.empty() ? "" : filter_bar(jobs, filter), jobs_table(jobs, filter, cluster),
          "<h2>Workers</h2>\n", nodes_table(nodes, cluster)));
}

}  // namespace leat
