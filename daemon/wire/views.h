// Conversions of the views of a cluster to and from the messages of daemon/wire/cluster.capnp, for
// both sides of a connection. Includes Cap'n Proto: for .cc files.
//
// All views come from a peer. The readers check ids of jobs and names of workers against their
// grammar (daemon/jobs/grammar.h), and the lines of a page against the numbers beside them. They
// return `internal` with the wrong value, also for a value that this build does not know, such as a
// state of a later version. They do not check other numbers and texts, beyond the limits of the
// connection.
#pragma once

#include <string>
#include <vector>

#include "daemon/jobs/views.h"
#include "daemon/traces/diagnosis.h"
#include "daemon/wire/cluster.capnp.h"
#include "devices/base/status.h"
#include "transport/link_counters.h"

namespace leat {

void write_view(const JobView& view, wire::JobView::Builder out);
Result<JobView> read_view(wire::JobView::Reader in);

void write_traffic(const LinkCounters& traffic, wire::Traffic::Builder out);
LinkCounters read_traffic(wire::Traffic::Reader in);
void write_usage(const WorkerUsage& usage, wire::Usage::Builder out);
WorkerUsage read_usage(wire::Usage::Reader in);

void write_view(const NodeView& view, wire::NodeView::Builder out);
Result<NodeView> read_view(wire::NodeView::Reader in);

void write_view(const ClusterView& view, wire::ClusterView::Builder out);
Result<ClusterView> read_view(wire::ClusterView::Reader in);

void write_view(const Diagnosis& view, wire::Diagnosis::Builder out);
Diagnosis read_view(wire::Diagnosis::Reader in);

void write_view(const LogPage& page, wire::LogPage::Builder out);
Result<LogPage> read_view(wire::LogPage::Reader in);

std::string to_string(capnp::Text::Reader text);
// `out` has one place for each text: it is a list of texts of any kind.
template <typename ListBuilder>
void write_texts(const std::vector<std::string>& texts, ListBuilder out) {
  for (uint32_t i = 0; i < out.size(); ++i)
    out.set(i, capnp::Text::Reader(texts[i].data(), texts[i].size()));
}
std::vector<std::string> read_texts(capnp::List<capnp::Text>::Reader list);

// Reads all views of a list, or returns the first error.
template <typename View, typename ListReader>
Result<std::vector<View>> read_views(ListReader list) {
  std::vector<View> views;
  views.reserve(list.size());
  for (const auto each : list) {
    Result<View> view = read_view(each);
    if (!view.ok()) return view.status();
    views.push_back(std::move(view).value());
  }
  return views;
}

}  // namespace leat
