// take_reports(): checks the reports of runners and passes them to their runs.
#include "daemon/remote/remote_run_state.h"
#include "daemon/remote/wire_remote_host.h"
#include "daemon/remote/wire_runner_channel.h"
#include "daemon/wire/run_messages.h"
#include "devices/base/text.h"

namespace leat {
namespace {

// A row, or a part of one, may arrive twice, but none may be missing. A partial row must be the
// last of its report.
Status take_rows(RemoteRunState& state, const RunReport& report) {
  if (report.turns > state.allowed)
    return invalid_argument(cat("a report of ", report.turns, " turns: expected at most ",
                                state.allowed, ", which are allowed"));
  if (!state.rows.any()) {
    return report.rows.empty()
               ? Status()
               : invalid_argument("a report with rows of a run that has no fetches");
  }
  uint64_t turn = report.first_row, offset = report.row_offset;
  for (const Bytes& row : report.rows) {
    const bool is_next = turn == state.rows.stored();
    if (turn > state.rows.stored() || turn >= state.allowed ||
        (is_next && offset > state.rows.part())) {
      return invalid_argument(cat("a report with the fetches of turn ", turn, " from byte ", offset,
                                  ": expected turn ", state.rows.stored(), " of ", state.allowed,
                                  ", from byte ", state.rows.part()));
    }
    if (is_next && offset == state.rows.part()) LEAT_RETURN_IF_ERROR(state.rows.store(row));
    ++turn;
    offset = 0;
  }
  return {};
}

Status failure_of(const RemoteRunState& state, const RunReport& report) {
  return report.failure.while_doing(cat("running step ", state.first_step + report.turns, " of '",
                                        state.plan->name, "' on ", state.channel->facts().node));
}

Status take_report(RemoteRunState& state, const RunReport& report) {
  const Status taken =
      take_rows(state, report).while_doing(cat("taking a report of ", state.channel->facts().node));
  if (!taken.ok()) {
    state.group->failed(taken, Failure::cause, &state);
    return taken;
  }
  const uint64_t turns = report.turns;
  state.reports.input_wait_us = report.input_wait_us;
  state.reports.steps_ahead = report.steps_ahead;
  state.reports.turns.hear(turns);
  state.finished.signal(state.rows.any() ? std::min(turns, state.rows.stored()) : turns);
  if (report.failure.ok()) return {};
  const Status failure = failure_of(state, report);
  if (report.derived) {
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
    const auto state = runner.channel()->find({report.getRun(), report.getPartition()});
    if (!state) continue;  // the run is released
    const Status status = take_report(*state, read_report(report));
    if (first.ok()) first = status;
  }
  return first;
}

}  // namespace leat
