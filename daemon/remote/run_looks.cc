#include "daemon/remote/run_looks.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "daemon/base/gathered.h"
#include "daemon/remote/remote_run_state.h"
#include "daemon/remote/wire_runner_channel.h"
#include "daemon/wire/recording_file.h"
#include "daemon/wire/run_messages.h"
#include "devices/base/text.h"
#include "transport/rpc/chunks.h"

namespace leat {
namespace {

using Client = wire::Runner::Client;
using Steady = std::chrono::steady_clock;
using std::chrono::milliseconds;
using StatePtr = std::shared_ptr<RemoteRunState>;
using Hosts = std::span<const std::shared_ptr<RemoteHost>>;

constexpr auto kLookDeadline = milliseconds(2'000);
constexpr auto kTakeDeadline = milliseconds(20'000);
constexpr uint64_t kMostRecorded = uint64_t{1} << 30;  // bytes of a partition's recording
constexpr int kClockLooks = 9;
// The time that all runners have to begin a recording.
constexpr double kBeginSeconds = 0.05;

constexpr std::string_view kLooking = "looking at it";

int64_t now_ns() { return StepRecorder::now(); }

struct Described {
  RunStanding standing;
  int64_t asked_ns = 0, answered_ns = 0;
};

// Describes a run. The times are taken on the loop, right around the call.
auto describe_call(const RunPart& part) {
  return [part](Client& runner) {
    auto request = runner.describeRequest();
    name_part(part, request);
    const int64_t asked = now_ns();
    return request.send().then([asked](auto&& response) -> Result<Described> {
      const int64_t answered = now_ns();
      const auto outcome = response.getOutcome();
      if (outcome.isError()) return read_status(outcome.getError());
      LEAT_ASSIGN_OR_RETURN(const RunStanding standing, read_standing(outcome.getOk()));
      return Described{standing, asked, answered};
    });
  };
}

void take(const Result<Described>& described, RunLook& look) {
  look.answer = described.status();
  if (!described.ok()) return;
  look.standing = described->standing;
  const int64_t middle = described->asked_ns / 2 + described->answered_ns / 2;
  look.clock_offset = middle - described->standing.now_ns;
  look.clock_error = (described->answered_ns - described->asked_ns + 1) / 2;
}

// True if the runner itself has answered, be it with an error.
bool is_answer(const Status& status) {
  return status.code() != Code::deadline_exceeded && status.code() != Code::unavailable &&
         status.code() != Code::cancelled;
}

RunLook look_of(const StatePtr& state) {
  RunLook look;
  look.part = state->part;
  look.plan = state->plan;
  const RemoteRunState::Title title = state->title();
  look.name = title.name;
  look.trains = title.trains;
  look.first_step = state->first_step.load();
  look.connected = state->connected.value() > 0;
  look.answer = deadline_exceeded("describing the run: no answer yet");
  return look;
}

// Asks one runner: a question for each of its runs, or one about a run that it does not have.
void ask(const RemoteHost& host, milliseconds deadline, const std::shared_ptr<Gathered>& all,
         const std::shared_ptr<RunnerLook>& look) {
  const std::shared_ptr<RunnerChannel>& channel = host.channel();
  look->facts = channel->facts();
  look->calls = channel->pending();
  // Another thread may look at the runner, too: such calls are left out.
  std::erase_if(look->calls, [](const PendingCall& call) { return call.doing == kLooking; });
  std::vector<StatePtr> runs;
  (void)channel->loop().run([&] { runs = channel->runs(); });
  look->runs.reserve(runs.size());
  for (const StatePtr& run : runs) look->runs.push_back(look_of(run));
  std::vector<RunPart> parts;
  for (const StatePtr& run : runs) parts.push_back(run->part);
  if (parts.empty()) parts.push_back({0, 0});
  for (size_t i = 0; i < parts.size(); ++i) {
    all->add();
    channel->start(kLooking, deadline, describe_call(parts[i]),
                   [all, look, i](const Result<Described>& described) {
                     all->done([&] {
                       look->answers = look->answers || is_answer(described.status());
                       if (i < look->runs.size()) take(described, look->runs[i]);
                     });
                   });
  }
}

// The partitions of the run that trains, one for each device.
struct Training {
  StatePtr state;
  RunLook look;  // with the best of its clocks
  double turns_per_second = 0;
};

Result<std::vector<Training>> find_training(Hosts hosts) {
  std::map<uint64_t, std::vector<Training>> by_run;
  for (const auto& host : hosts) {
    std::vector<StatePtr> runs;
    (void)host->channel()->loop().run([&] { runs = host->channel()->runs(); });
    for (const StatePtr& run : runs) {
      if (!run->title().trains || run->connected.value() == 0 || run->finished.failed()) continue;
      by_run[run->part.run].push_back({run, look_of(run), 0});
    }
  }
  if (by_run.empty()) return failed_precondition("record: expected a job whose run trains");
  return by_run.rbegin()->second;
}

// One look at all partitions. The clock of the quickest answer counts.
Status look_once(std::vector<Training>& training) {
  const auto all = std::make_shared<Gathered>();
  std::vector<std::shared_ptr<RunLook>> looks;
  for (const Training& each : training) {
    looks.push_back(std::make_shared<RunLook>(each.look));
    all->add();
    each.state->channel->start(kLooking, kLookDeadline, describe_call(each.state->part),
                               [all, look = looks.back()](const Result<Described>& described) {
                                 all->done([&] { take(described, *look); });
                               });
  }
  all->wait(Steady::now() + kLookDeadline);
  for (size_t i = 0; i < training.size(); ++i) {
    LEAT_RETURN_IF_ERROR(looks[i]->answer);
    RunLook& kept = training[i].look;
    const bool better = kept.standing.now_ns == 0 || looks[i]->clock_error < kept.clock_error;
    const int64_t offset = better ? looks[i]->clock_offset : kept.clock_offset;
    const int64_t error = better ? looks[i]->clock_error : kept.clock_error;
    kept = *looks[i];
    kept.clock_offset = offset;
    kept.clock_error = error;
  }
  return {};
}

// Runners of one machine have one clock. They share the offset that is known best.
void share_clocks(std::vector<Training>& training) {
  std::map<std::string, const RunLook*> best;
  for (const Training& each : training) {
    const RunLook*& of = best[each.state->channel->facts().machine];
    if (of == nullptr || each.look.clock_error < of->clock_error) of = &each.look;
  }
  std::map<std::string, std::pair<int64_t, int64_t>> clocks;
  for (const auto& [machine, look] : best)
    clocks[machine] = {look->clock_offset, look->clock_error};
  for (Training& each : training) {
    const auto& clock = clocks[each.state->channel->facts().machine];
    each.look.clock_offset = clock.first;
    each.look.clock_error = clock.second;
  }
}

// Looks several times, which gives the clocks, the place of the run and its speed. Returns the turn
// before which all runners can have begun to record.
Result<uint64_t> measure(std::vector<Training>& training) {
  LEAT_RETURN_IF_ERROR(look_once(training));
  std::vector<RunStanding> before;
  for (const Training& each : training) before.push_back(each.look.standing);
  for (int i = 1; i < kClockLooks; ++i) LEAT_RETURN_IF_ERROR(look_once(training));
  share_clocks(training);
  uint64_t turn = 0;
  double rate = 0;
  for (size_t i = 0; i < training.size(); ++i) {
    const RunStanding& now = training[i].look.standing;
    turn = std::max({turn, now.sight.turn, now.sight.finished});
    const double seconds = 1e-9 * static_cast<double>(now.now_ns - before[i].now_ns);
    const auto turns = static_cast<double>(now.sight.finished - before[i].sight.finished);
    if (seconds > 0) rate = std::max(rate, turns / seconds);
  }
  return turn + 2 + static_cast<uint64_t>(std::ceil(rate * kBeginSeconds));
}

// Calls all partitions at once, and returns the first error; deadline_exceeded if a runner does not
// answer.
template <typename F>
Status call_all(std::vector<Training>& training, std::string_view doing, F function) {
  struct Calls {
    Gathered gathered;
    Status first;
  };
  const auto calls = std::make_shared<Calls>();
  for (const Training& each : training) {
    calls->gathered.add();
    each.state->channel->start(doing, kLookDeadline, function(*each.state),
                               [calls](const Status& status) {
                                 calls->gathered.done([&] {
                                   if (calls->first.ok()) calls->first = status;
                                 });
                               });
  }
  const bool all = calls->gathered.wait(Steady::now() + kLookDeadline);
  if (!all && calls->first.ok()) return deadline_exceeded(cat(doing, ": a runner does not answer"));
  return calls->first;
}

Result<RecordedPartition> take_partition(const Training& training) {
  const StatePtr& state = training.state;
  const auto taken = state->channel->call(
      "taking a recording", kTakeDeadline, [part = state->part](Client& runner) {
        auto request = runner.recordedRequest();
        name_part(part, request);
        return request.send().then([](auto&& response) -> kj::Promise<Result<Blob>> {
          const auto outcome = response.getOutcome();
          if (outcome.isError()) return Result<Blob>(read_status(outcome.getError()));
          const auto blob = outcome.getOk();
          const auto digest = read_digest(blob.getSha256());
          if (!digest.ok()) return Result<Blob>(digest.status());
          return download(blob.getContent(), BlobInfo{blob.getSize(), *digest}, kMostRecorded);
        });
      });
  if (!taken.ok()) return taken.status();
  LEAT_ASSIGN_OR_RETURN(StepRecording recording, read_recording(*taken));
  if (recording.partitions.size() != 1) {
    return internal_error(
        cat("taking a recording: expected one partition, received ", recording.partitions.size()));
  }
  RecordedPartition part = std::move(recording.partitions.front());
  part.node = state->channel->facts().node;
  part.clock_offset = training.look.clock_offset;
  part.clock_error = training.look.clock_error;
  for (RecordedEvent& event : part.events) {
    event.begin += part.clock_offset;
    event.end += part.clock_offset;
  }
  return part;
}

// Records the turns [first, end) of all partitions. `done` tells whether all of them reached `end`
// before the deadline; what they have is there in any case.
Result<StepRecording> record_turns(std::vector<Training>& training, uint64_t first, uint64_t end,
                                   Steady::time_point deadline, Status& done) {
  LEAT_RETURN_IF_ERROR(call_all(training, "beginning a recording", [&](RemoteRunState& state) {
    return [part = state.part, first, end](Client& runner) {
      auto request = runner.recordRequest();
      name_part(part, request);
      request.setFirst(first);
      request.setEnd(end);
      return request.send().then([](auto&& response) { return outcome_of(response); });
    };
  }));
  done = Status();
  for (const Training& each : training) {
    const Status reached = each.state->finished.wait(end, deadline);
    if (done.ok()) done = reached;
  }
  StepRecording recording;
  for (const Training& each : training) {
    auto part = take_partition(each);
    if (!part.ok()) return done.ok() ? part.status() : done;
    recording.partitions.push_back(std::move(*part));
  }
  return recording;
}

}  // namespace

std::vector<RunnerLook> look_at_runs(Hosts hosts, milliseconds deadline) {
  const auto until = Steady::now() + deadline;
  const auto all = std::make_shared<Gathered>();
  std::vector<std::shared_ptr<RunnerLook>> looks;
  for (const auto& host : hosts) {
    looks.push_back(std::make_shared<RunnerLook>());
    ask(*host, deadline, all, looks.back());
  }
  all->wait(until);
  std::vector<RunnerLook> out;
  for (const auto& look : looks) out.push_back(*look);
  return out;
}

Result<StepRecording> record_steps(Hosts hosts, uint64_t steps, Steady::time_point deadline) {
  LEAT_ASSIGN_OR_RETURN(std::vector<Training> training, find_training(hosts));
  // A runner on a busy machine may begin so late that no whole turn is left. Each further try gives
  // it twice as many turns to begin.
  for (uint64_t lead = 0;; lead = std::max<uint64_t>(2 * lead, 4)) {
    LEAT_ASSIGN_OR_RETURN(uint64_t first, measure(training));
    first += lead;
    Status done;
    LEAT_ASSIGN_OR_RETURN(StepRecording recording,
                          record_turns(training, first, first + steps, deadline, done));
    const bool late = recording.whole_first() >= recording.end();
    if (done.ok() && late && Steady::now() < deadline) continue;
    if (recording.first() < recording.end()) return recording;
    if (!done.ok() && done.code() != Code::deadline_exceeded) return done;
    return deadline_exceeded("record: expected a step of the job to end in time, none did");
  }
}

}  // namespace leat
