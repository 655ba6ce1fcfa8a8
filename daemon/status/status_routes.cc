#include "daemon/status/status_routes.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "daemon/status/compare_page.h"
#include "daemon/status/event_streams.h"
#include "daemon/status/event_text.h"
#include "daemon/status/job_page.h"
#include "daemon/status/list_query.h"
#include "daemon/status/metrics_text.h"
#include "daemon/status/openapi.h"
#include "daemon/status/status_json.h"
#include "daemon/status/status_metrics.h"
#include "daemon/status/status_page.h"
#include "devices/base/text.h"

namespace leat {
namespace {

constexpr uint64_t kMostLines = 1000;  // of a log, in one answer
constexpr uint64_t kShownLines = 100;  // of a log, on the page of its job

HttpResponse json(std::string body) {
  HttpResponse response;
  response.body = std::move(body);
  return response;
}

HttpResponse log_page(const StatusSource& source, const HttpRequest& request) {
  const auto from = query_number(request, "from", 0);
  const auto limit = query_number(request, "limit", kMostLines);
  for (const auto* value : {&from, &limit})
    if (!value->ok()) return http_error(400, value->status().message());
  if (*limit < 1 || *limit > kMostLines)
    return http_error(400, cat("limit: expected 1 to ", kMostLines, ", got ", *limit));
  const auto job = source.job(request.captured[0]);
  if (!job.ok()) return http_failure(job.status());
  const auto page = source.log(job->id, *from, *limit);
  return page.ok() ? json(log_json(job->id, *page)) : http_failure(page.status());
}

// The number of the first of the last `most` lines of a job's log.
uint64_t first_of_last(const StatusSource& source, const std::string& job, uint64_t most) {
  const auto end = source.log(job, std::numeric_limits<uint64_t>::max(), 1);
  return end.ok() ? end->end - std::min(end->end, most) : 0;
}

// The page has the last lines of the job's log.
HttpResponse page_of(const StatusSource& source, const JobView& job) {
  const auto log = source.log(job.id, first_of_last(source, job.id, kShownLines), kShownLines);
  return job_page(job, log.ok() ? *log : LogPage(), source.cluster(), source.curves(job.id));
}

// Without "from", the page has the last lines.
HttpResponse page_of_log(const StatusSource& source, const HttpRequest& request) {
  const auto job = source.job(request.captured[0]);
  if (!job.ok()) return http_failure(job.status());
  const auto from = query_number(request, "from", first_of_last(source, job->id, kMostLines));
  if (!from.ok()) return http_error(400, from.status().message());
  const auto log = source.log(job->id, *from, kMostLines);
  return log.ok() ? job_log_page(*job, *log, kMostLines) : http_failure(log.status());
}

// Draws the curves of the jobs that the query names, each once.
HttpResponse page_of_compared(const StatusSource& source, const HttpRequest& request) {
  std::vector<ComparedJob> jobs;
  for (const std::string& name : compared_jobs(request)) {
    const auto job = source.job(name);
    if (!job.ok()) return http_failure(job.status());
    const bool twice = std::any_of(jobs.begin(), jobs.end(),
                                   [&](const ComparedJob& each) { return each.job == job->id; });
    if (!twice) jobs.push_back({job->id, source.curves(job->id)});
  }
  return compare_page(jobs);
}

// Returns the place where a stream begins: behind the last event that the client has got, or at a
// number of the query.
Result<uint64_t> place_in_stream(const HttpRequest& request, std::string_view key, bool behind) {
  const std::string* last = request.header("last-event-id");
  if (last == nullptr) return query_number(request, key, 0);
  LEAT_ASSIGN_OR_RETURN(const uint64_t id, whole_number_of("Last-Event-ID", *last));
  return behind ? id + 1 : id;
}

HttpResponse streamed(std::unique_ptr<HttpStream> stream) {
  HttpResponse response;
  response.type = kEventStream;
  response.stream = std::move(stream);
  return response;
}

void add_streams(const StatusSource& source, std::vector<HttpRoute>& routes) {
  const auto feed = std::make_shared<StatusFeed>(source);
  routes.push_back({"/api/v1/events", [feed](const HttpRequest& request) {
                      const auto seen = place_in_stream(request, "since", false);
                      if (!seen.ok()) return http_error(400, seen.status().message());
                      return streamed(stream_cluster(feed, *seen));
                    }});
  routes.push_back({"/api/v1/jobs/{id}/events", [feed, &source](const HttpRequest& request) {
                      const auto job = source.job(request.captured[0]);
                      if (!job.ok()) return http_failure(job.status());
                      return streamed(stream_job(feed, source, job->id));
                    }});
  routes.push_back({"/api/v1/jobs/{id}/logs/events", [&source](const HttpRequest& request) {
                      const auto from = place_in_stream(request, "from", true);
                      if (!from.ok()) return http_error(400, from.status().message());
                      const auto job = source.job(request.captured[0]);
                      if (!job.ok()) return http_failure(job.status());
                      return streamed(stream_log(source, job->id, *from));
                    }});
}

std::vector<Metric> master_metrics(const StatusSource& source, const HttpCounters* counters) {
  std::vector<Metric> metrics =
      cluster_metrics(source.cluster(), source.jobs(), source.nodes(), source.ready());
  const auto add = [&metrics](std::vector<Metric> more) {
    metrics.insert(metrics.end(), std::move_iterator(more.begin()), std::move_iterator(more.end()));
  };
  add(source.metrics());
  if (counters != nullptr) add(http_metrics(*counters));
  return metrics;
}

}  // namespace

HttpResponse http_failure(const Status& status) {
  switch (status.code()) {
    case Code::failed_precondition:
      return http_error(404, status.message());
    case Code::invalid_argument:  // the prefix of several ids
      return http_error(409, status.message());
    case Code::unavailable:
    case Code::resource_exhausted:
      return http_error(503, status.message());
    default:
      return http_error(500, status.message());
  }
}

std::vector<HttpRoute> health_routes(std::function<Status()> ready,
                                     std::function<std::vector<Metric>()> metrics) {
  std::vector<HttpRoute> routes;
  routes.push_back({"/healthz/live", [](const HttpRequest&) { return json(live_json()); }, true});
  const auto answer_ready = [ready = std::move(ready)](const HttpRequest&) {
    const Status status = ready();
    HttpResponse response = json(ready_json(status));
    if (!status.ok()) response.status = 503;
    return response;
  };
  routes.push_back({"/healthz/ready", answer_ready, true});
  const auto answer_metrics = [metrics = std::move(metrics)](const HttpRequest&) {
    std::vector<Metric> all = metrics();
    for (Metric& metric : process_metrics()) all.push_back(std::move(metric));
    HttpResponse response;
    response.type = "text/plain; version=0.0.4; charset=utf-8";
    response.body = metrics_text(all);
    return response;
  };
  routes.push_back({"/metrics", answer_metrics});
  return routes;
}

std::vector<HttpRoute> status_routes(const StatusSource& source,
                                     std::shared_ptr<const HttpCounters> counters) {
  std::vector<HttpRoute> routes =
      health_routes([&source] { return source.ready(); },
                    [&source, counters] { return master_metrics(source, counters.get()); });
  const auto add = [&routes](const char* pattern, auto handler) {
    routes.push_back({pattern, std::move(handler)});
  };
  add("/", [&source](const HttpRequest& request) {
    JobFilter filter;
    for (const auto& [key, text] : request.query) {
      if (key == "show") filter.show = text;
      if (key == "name") filter.name = text;
      if (key != "page") continue;
      if (const auto page = whole_number_of(key, text); page.ok()) filter.page = *page;
    }
    return status_page(source.cluster(), source.jobs(), source.nodes(), source.ready(), filter);
  });
  add("/jobs/{id}", [&source](const HttpRequest& request) {
    const auto job = source.job(request.captured[0]);
    return job.ok() ? page_of(source, *job) : http_failure(job.status());
  });
  add("/jobs/{id}/log",
      [&source](const HttpRequest& request) { return page_of_log(source, request); });
  add("/compare",
      [&source](const HttpRequest& request) { return page_of_compared(source, request); });
  add("/api/v1/cluster",
      [&source](const HttpRequest&) { return json(cluster_json(source.cluster())); });
  add("/api/v1/openapi.json",
      [&source](const HttpRequest&) { return json(openapi_json(source.cluster().version)); });
  add("/api/v1/nodes", [&source](const HttpRequest& request) {
    const auto page = page_of_nodes(request, source.nodes());
    if (!page.ok()) return http_error(400, page.status().message());
    return json(nodes_json(page->items, {.next = page->next}));
  });
  add("/api/v1/jobs", [&source](const HttpRequest& request) {
    const uint64_t version = source.jobs_version();  // first: the list has all changes up to it
    const auto page = page_of_jobs(request, source.jobs());
    if (!page.ok()) return http_error(400, page.status().message());
    return json(jobs_json(page->items, {.version = version, .next = page->next}));
  });
  add("/api/v1/jobs/{id}", [&source](const HttpRequest& request) {
    const auto job = source.job(request.captured[0]);
    return job.ok() ? json(job_json(*job)) : http_failure(job.status());
  });
  add("/api/v1/jobs/{id}/curves", [&source](const HttpRequest& request) {
    const auto job = source.job(request.captured[0]);
    return job.ok() ? json(curves_json(job->id, source.curves(job->id)))
                    : http_failure(job.status());
  });
  add("/api/v1/jobs/{id}/logs",
      [&source](const HttpRequest& request) { return log_page(source, request); });
  add_streams(source, routes);
  return routes;
}

Result<std::unique_ptr<HttpServer>> open_status_server(Reactor& reactor, const std::string& address,
                                                       const StatusSource& source,
                                                       HttpOptions options,
                                                       std::vector<HttpRoute> more) {
  if (!options.counters) options.counters = std::make_shared<HttpCounters>();
  auto routes = status_routes(source, options.counters);
  std::move(more.begin(), more.end(), std::back_inserter(routes));
  return HttpServer::open(reactor, address, std::move(routes), std::move(options));
}

}  // namespace leat
