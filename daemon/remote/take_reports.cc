// take_reports(): checks the reports of runners and passes them to their runs.
#include "daemon/remote/remote_run_state.h"
#include "daemon/remote/wire_remote_host.h"
#include "daemon/remote/wire_runner_channel.h"
#include "devices/base/text.h"

namespace leat {
namespace {

// A row, or a part of one, may arrive twice, but none may be missing. A partial row must be the
// last of its report.
Status take_rows(RemoteRunState& state, wire::RunReport::Reader report) {
  if (report.getTurns() > state.allowed)
    return invalid_argument(cat("a report of ", report.getTurns(), " turns: expected at most ",
                                state.allowed, ", which are allowed"));
  const auto rows = report.getRows();
  if (!state.rows.any()) {
    return rows.size() == 0 ? Status()
                            : invalid_argument("a report with rows of a run that has no fetches");
  }
  uint64_t turn = report.getFirstRow(), offset = report.getRowOffset();
  for (const auto row : rows) {
    const bool is_next = turn == state.rows.stored();
    if (turn > state.rows.stored() || turn >= state.allowed ||
        (is_next && offset > state.rows.part())) {
      return invalid_argument(cat("a report with the fetches of turn ", turn, " from byte ", offset,
                                  ": expected turn ", state.rows.stored(), " of ", state.allowed,
                                  ", from byte ", state.rows.part()));
    }
    if (is_next && offset == state.rows.part())
      LEAT_RETURN_IF_ERROR(state.rows.store(std::as_bytes(std::span(row.begin(), row.size()))));
    ++turn;
    offset = 0;
  }
  return {};
}

Status failure_of(const RemoteRunState& state, wire::RunReport::Reader report) {
  return read_status(report.getFailure())
      .while_doing(cat("running step ", state.first_step + report.getTurns(), " of '",
                       state.plan->name, "' on ", state.channel->facts().node));
}

Status take_report(RemoteRunState& state, wire::RunReport::Reader report) {
  const Status taken =
      take_rows(state, report).while_doing(cat("taking a report of ", state.channel->facts().node));
  if (!taken.ok()) {
    state.group->failed(taken, Failure::cause, &state);
    return taken;
  }
  const uint64_t turns = report.getTurns();
  state.finished.signal(state.rows.any() ? std::min(turns, state.rows.stored()) : turns);
  if (report.getFailure().getCode() == wire::Status::Code::OK) return {};
  const Status failure = failure_of(state, report);
  if (report.getDerived()) {
    state.group->failed(failure, Failure::derived, &state);
  } else {
    state.group->failed(failure, &state);
  }
  return {};
}

}  // namespace

Status take_reports(RemoteHost& runner, capnp::List<wire::RunReport>::Reader reports) {
  Status first;
  for (const auto report : reports) {
    const auto state = runner.channel()->find(report.getRun());
    if (!state) continue;  // the run is released
    const Status status = take_report(*state, report);
    if (first.ok()) first = status;
  }
  return first;
}

}  // namespace leat
