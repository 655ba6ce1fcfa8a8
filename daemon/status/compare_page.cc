#include "daemon/status/compare_page.h"

#include <algorithm>

#include "daemon/status/page_parts.h"
#include "devices/base/text.h"

namespace leat {
namespace {

// The key of a job in the query, by its place.
char key_of(size_t i) { return static_cast<char>('a' + i); }

}  // namespace

std::vector<std::string> compared_jobs(const HttpRequest& request) {
  std::vector<std::string> jobs;
  for (size_t i = 0; i < kMostCompared; ++i) {
    for (const auto& [key, text] : request.query) {
      if (key.size() == 1 && key[0] == key_of(i) && !text.empty()) jobs.push_back(text);
    }
  }
  return jobs;
}

std::string compare_form(std::span<const std::string> jobs) {
  if (jobs.size() >= kMostCompared) return "";
  std::string html = "<nav><form action=\"/compare\" method=\"get\">";
  for (size_t i = 0; i < jobs.size(); ++i) {
    html += cat("<input type=\"hidden\" name=\"", key_of(i), "\" value=\"", html_escaped(jobs[i]),
                "\">");
  }
  return html + cat("<input type=\"search\" name=\"", key_of(jobs.size()),
                    "\" placeholder=\"Compare with job\" aria-label=\"Compare with job\">"
                    "</form></nav>\n");
}

HttpResponse compare_page(std::span<const ComparedJob> jobs) {
  std::vector<std::string> names;
  for (const ComparedJob& job : jobs) names.push_back(job.job);
  return html_page(
      "Compare \xc2\xb7 Leat",
      cat("<p><a href=\"/\">All jobs and workers</a></p>\n<h1>", html_escaped(join(names, ", ")),
          "</h1>\n", compare_form(names), compared_figures(jobs)));
}

}  // namespace leat
