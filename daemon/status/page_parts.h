// The common parts of the status endpoint's pages: the document around them, and the text of their
// cells. Each page is one HTML document that needs nothing beside itself.
//
// Threads: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "daemon/status/http.h"
#include "daemon/status/status_source.h"

namespace leat {

// A document with the policy that lets a browser run its own script and style, by their hashes, and
// nothing else. It is complete without scripts (and then loads itself anew); with them it asks for
// itself each second and replaces what changed: elements with data-part, and in them rows with ids.
// `title` is text, `main` is HTML.
HttpResponse html_page(std::string_view title, std::string_view main);
// The page of an error, which stays as it is. `phrase`: "Unauthorized".
HttpResponse html_error_page(int status, std::string_view phrase, std::string_view message);

// For text between tags and for values in quotes.
std::string html_escaped(std::string_view text);
// As a segment of a path.
std::string percent_encoded(std::string_view text);
// "/jobs/ID": the page of a job.
std::string job_path(std::string_view id);

// Of these, those that return HTML take text.
std::string badge(std::string_view text, std::string_view colour);  // what it says, and a colour
std::string_view colour_of(JobState state);
std::string_view colour_of(WorkerState state);
std::string small_text(std::string_view text);  // below the rest of a cell; "" for ""
std::string progress_bar(const ProgressReport& last);
std::string decimal(double value);  // "" if it is no number, as below
std::string percent(double share);
// "4 s", "3 min 12 s", "2 h 05 min", "3 d 4 h"; "" if it is not known.
std::string short_duration(double seconds);
std::string age_at(const ClusterView& cluster, int64_t since_ms);

}  // namespace leat
