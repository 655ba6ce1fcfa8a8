// The common parts of the status endpoint's pages: the HTML document around them, and the text of
// their cells. Each page is one HTML document that loads no other files.
//
// Threads: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "daemon/status/http.h"
#include "daemon/status/status_source.h"

namespace leat {

// Returns a document with a content policy that lets a browser run only the document's own script
// and style, by their hashes. Without scripts the page is complete, and reloads itself; with them
// it requests itself each second and replaces the parts that changed: elements with data-part, and
// in them rows with ids. `title` is text, `main` is HTML.
HttpResponse html_page(std::string_view title, std::string_view main);
// Returns a page that does not reload itself, and runs no script but `script`.
HttpResponse html_still_page(std::string_view title, std::string_view main,
                             std::string_view script = {});
// Returns the page of an error, which does not reload itself. `phrase`: "Unauthorized".
HttpResponse html_error_page(int status, std::string_view phrase, std::string_view message);

// Escapes text for use between tags and in quoted values.
std::string html_escaped(std::string_view text);
// Returns the path of a job's page: "/jobs/ID".
std::string job_path(std::string_view id);

// The functions below take text. Those that return HTML escape it.
std::string badge(std::string_view text, std::string_view colour);  // a word in a colour
std::string_view colour_of(JobState state);
std::string_view colour_of(WorkerState state);
std::string small_text(std::string_view text);  // below the rest of a cell; "" for ""
std::string progress_bar(const ProgressReport& last);
std::string decimal(double value);  // "" if the value is unknown, as for percent()
std::string percent(double share);
std::string milliseconds_text(double ms);  // "1.234 ms"
// Returns "4 s", "3 min 12 s", "2 h 05 min" or "3 d 4 h"; "" if the duration is unknown.
std::string short_duration(double seconds);
// Returns the time from `since_ms` until the view's time, like short_duration().
std::string age_at(const ClusterView& cluster, int64_t since_ms);

}  // namespace leat
