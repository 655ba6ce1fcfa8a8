#include "daemon/status/step_page.h"

#include "daemon/status/graph_picture.h"
#include "daemon/status/node_tree.h"
#include "daemon/status/page_parts.h"
#include "daemon/status/step_timeline.h"
#include "daemon/traces/critical_path.h"
#include "devices/base/counted.h"
#include "devices/base/text.h"

namespace leat {

namespace {

std::string lost_events(const StepRecording& recording) {
  uint64_t dropped = 0;
  for (const RecordedPartition& part : recording.partitions) dropped += part.dropped;
  return dropped == 0 ? ""
                      : cat("<p class=\"warn\">The recording lacks ", counted(dropped, "event"),
                            ", for which there was no room.</p>\n");
}

}  // namespace

HttpResponse step_page(const JobView& job, const StepRecording& recording) {
  const auto explanation = explain(recording);
  const std::vector<ScopedNodes> devices = scoped_nodes(recording);
  const std::string path = job_path(job.id);
  return html_still_page(cat("Steps of ", job.id, " \xc2\xb7 Leat"),
                         cat("<p><a href=\"/\">All jobs and workers</a> \xc2\xb7 <a href=\"", path,
                             "\">", html_escaped(job.id), "</a></p>\n<h1>Steps of ",
                             html_escaped(job.id), "</h1>\n<p><a href=\"", path,
                             "/steps\">Record again</a>; <code>leat trace ", html_escaped(job.id),
                             "</code> writes a file for other viewers.</p>\n<h2>Time line</h2>\n",
                             lost_events(recording), step_timeline(recording),
                             "<h2>Critical path</h2>\n<div class=\"scroll\"><pre>",
                             html_escaped(explanation.ok() ? explanation_text(*explanation)
                                                           : explanation.status().message()),
                             "</pre></div>\n<h2>Graph</h2>\n", graph_picture(devices),
                             "<h2>Nodes</h2>\n", node_tree(devices)),
                         kTimelineScript);
}

}  // namespace leat
