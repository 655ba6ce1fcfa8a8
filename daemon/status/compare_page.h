// The page that draws the curves of several jobs over each other.
//
// Threads: pure functions.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "daemon/status/curve_figures.h"
#include "daemon/status/http.h"

namespace leat {

// The jobs that a query names by the keys "a", "b" and so on, kMostCompared at most; empty values
// are left out.
std::vector<std::string> compared_jobs(const HttpRequest& request);

// A form that leads to the page of these jobs and one more, whose name a user writes. "" if there
// are kMostCompared. HTML.
std::string compare_form(std::span<const std::string> jobs);

HttpResponse compare_page(std::span<const ComparedJob> jobs);

}  // namespace leat
