#include "daemon/status/status_routes.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <limits>

#include "daemon/status/job_page.h"
#include "daemon/status/metrics_text.h"
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

// Returns the response for an error of the StatusSource.
HttpResponse failure(const Status& status) {
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

// Returns a number of the query, or `otherwise` if it is absent.
Result<uint64_t> number(const HttpRequest& request, std::string_view name, uint64_t otherwise) {
  for (const auto& [key, text] : request.query) {
    if (key != name) continue;
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size())
      return invalid_argument(cat(name, ": expected a whole number, got '", text, "'"));
    return value;
  }
  return otherwise;
}

HttpResponse log_page(const StatusSource& source, const HttpRequest& request) {
  const auto from = number(request, "from", 0);
  const auto limit = number(request, "limit", kMostLines);
  for (const auto* value : {&from, &limit})
    if (!value->ok()) return http_error(400, value->status().message());
  if (*limit < 1 || *limit > kMostLines)
    return http_error(400, cat("limit: expected 1 to ", kMostLines, ", got ", *limit));
  const auto job = source.job(request.captured[0]);
  if (!job.ok()) return failure(job.status());
  const auto page = source.log(job->id, *from, *limit);
  return page.ok() ? json(log_json(job->id, *page)) : failure(page.status());
}

// The page has the last lines of the job's log.
HttpResponse page_of(const StatusSource& source, const JobView& job) {
  const auto end = source.log(job.id, std::numeric_limits<uint64_t>::max(), 1);
  const uint64_t lines = end.ok() ? end->end : 0;
  const auto log = source.log(job.id, lines - std::min(lines, kShownLines), kShownLines);
  return job_page(job, log.ok() ? *log : LogPage(), source.cluster(), source.curves(job.id));
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
  add("/", [&source](const HttpRequest&) {
    return status_page(source.cluster(), source.jobs(), source.nodes(), source.ready());
  });
  add("/jobs/{id}", [&source](const HttpRequest& request) {
    const auto job = source.job(request.captured[0]);
    return job.ok() ? page_of(source, *job) : failure(job.status());
  });
  add("/api/v1/cluster",
      [&source](const HttpRequest&) { return json(cluster_json(source.cluster())); });
  add("/api/v1/nodes", [&source](const HttpRequest&) { return json(nodes_json(source.nodes())); });
  add("/api/v1/jobs", [&source](const HttpRequest&) { return json(jobs_json(source.jobs())); });
  add("/api/v1/jobs/{id}", [&source](const HttpRequest& request) {
    const auto job = source.job(request.captured[0]);
    return job.ok() ? json(job_json(*job)) : failure(job.status());
  });
  add("/api/v1/jobs/{id}/curves", [&source](const HttpRequest& request) {
    const auto job = source.job(request.captured[0]);
    return job.ok() ? json(curves_json(job->id, source.curves(job->id))) : failure(job.status());
  });
  add("/api/v1/jobs/{id}/logs",
      [&source](const HttpRequest& request) { return log_page(source, request); });
  return routes;
}

Result<std::unique_ptr<HttpServer>> open_status_server(Reactor& reactor, const std::string& address,
                                                       const StatusSource& source,
                                                       HttpOptions options) {
  if (!options.counters) options.counters = std::make_shared<HttpCounters>();
  auto routes = status_routes(source, options.counters);
  return HttpServer::open(reactor, address, std::move(routes), std::move(options));
}

}  // namespace leat
