#include "daemon/remote/remote_run.h"

#include <algorithm>
#include <chrono>

#include "daemon/remote/wire_runner_channel.h"
#include "daemon/wire/run_messages.h"
#include "devices/base/text.h"
#include "scheduler/graph/device_name.h"
#include "transport/rpc/chunks.h"

namespace leat {
namespace {

using Client = wire::Runner::Client;
using StatePtr = std::shared_ptr<RemoteRunState>;

constexpr auto kPrepareDeadline = std::chrono::seconds(60);
constexpr auto kConnectDeadline = std::chrono::seconds(30);
constexpr auto kFeedDeadline = std::chrono::seconds(60);
constexpr auto kReleaseDeadline = std::chrono::seconds(10);
// Short, because the caller asks when something already hangs.
constexpr auto kDescribeDeadline = std::chrono::seconds(2);
// Additional time for the loop to report that a deadline has passed.
constexpr auto kLoopDelay = std::chrono::seconds(2);
constexpr size_t kSmallFeedsBytes = 256u << 10;

std::chrono::steady_clock::time_point after(std::chrono::nanoseconds deadline) {
  return std::chrono::steady_clock::now() + deadline + kLoopDelay;
}

capnp::Data::Reader bytes_of(std::span<const uint8_t> bytes) {
  return {bytes.data(), bytes.size()};
}

// A blob with its size and hash.
struct Sending {
  std::shared_ptr<const Blob> blob;
  BlobInfo info;
  explicit Sending(std::shared_ptr<const Blob> bytes)
      : blob(std::move(bytes)), info(describe(*blob)) {}
};

// Fails the run with the error of a call.
void fail(RemoteRunState& state, const Status& status) {
  if (state.channel->on_loop()) {
    state.group->failed(status, &state);
  } else {
    state.fail(status);  // the loop has stopped
  }
}

// Returns a callback that signals `done`, a timeline of the run, or fails the run.
auto answer_to(StatePtr state, Timeline RemoteRunState::*done) {
  return [state = std::move(state), done](const Status& status) {
    if (status.ok()) {
      ((*state).*done).signal(1);
    } else {
      fail(*state, status);
    }
  };
}

auto answer_to(StatePtr state) {
  return [state = std::move(state)](const Status& status) {
    if (!status.ok()) fail(*state, status);
  };
}

// Asks for the largest limit that is wanted, one call at a time. Threads: the loop's.
void send_limit(const StatePtr& state) {
  if (state->limit.in_flight || state->limit.held || state->limit.wanted <= state->limit.asked ||
      state->group->over())
    return;
  state->limit.in_flight = true;
  state->limit.asked = state->limit.wanted;
  const auto extend = [part = state->part, limit = state->limit.asked](Client& runner) {
    auto request = runner.extendRequest();
    name_part(part, request);
    request.setLimit(limit);
    return request.send().then([](auto&& response) { return outcome_of(response); });
  };
  state->channel->start("extending", kCallDeadline, extend, [state](const Status& status) {
    if (!status.ok()) return fail(*state, status);
    state->limit.in_flight = false;
    send_limit(state);
  });
}

struct Description {
  std::string waits_for, profile;
};

// Asks the runner what the run waits for, and for its profile.
Result<Description> describe_run(RemoteRunState& state, std::chrono::nanoseconds deadline) {
  const auto describe = [part = state.part](Client& runner) {
    auto request = runner.describeRequest();
    name_part(part, request);
    return request.send().then([](auto&& response) -> Result<Description> {
      auto outcome = response.getOutcome();
      if (outcome.isError()) return read_status(outcome.getError());
      auto ok = outcome.getOk();
      return Description{ok.getWaitsFor().cStr(), ok.getProfile().cStr()};
    });
  };
  return state.channel->call("describing the run", deadline, describe);
}

}  // namespace

RemoteRun::RemoteRun(StatePtr state, std::shared_ptr<AssemblyRuns> assembly,
                     std::shared_ptr<const Bytes> plan, std::string data_root)
    : state_(std::move(state)), assembly_(std::move(assembly)), data_root_(std::move(data_root)) {
  // The run is in the tables before its first call goes out, since that call uses them.
  (void)state_->channel->loop().post([state = state_] {
    state->channel->add(state);
    state->group->add(state);
  });
  auto prepare = [state = state_, sending = Sending(std::move(plan))](Client& runner) {
    auto request = runner.prepareRequest();
    name_part(state->part, request);
    request.setPlanSize(sending.info.size);
    request.setPlanSha256(bytes_of(sending.info.sha256));
    return send_blob(std::move(request), sending.blob);
  };
  state_->channel->start_setup(state_->part, cat("preparing '", state_->plan->name, "'"),
                               kPrepareDeadline, std::move(prepare),
                               answer_to(state_, &RemoteRunState::prepared));
}

RemoteRun::~RemoteRun() {
  // A caller that has released the run before has no need to abort it.
  if (!released_) abort(cancelled("the run was released"));
  stop();
}

Status RemoteRun::prepared() { return state_->prepared.wait(1, after(kPrepareDeadline)); }

Endpoint RemoteRun::endpoint() const {
  const RunnerFacts& facts = state_->channel->facts();
  Endpoint endpoint;
  endpoint.task = facts.task;
  endpoint.node = facts.node;
  endpoint.incarnation = facts.incarnation;
  endpoint.data_address = facts.data_address;
  endpoint.machine = facts.machine;
  endpoint.unix_address = facts.unix_address;
  const std::string& device = state_->plan->partitions[state_->part.partition].device;
  for (const RunnerDevice& accelerator : facts.accelerators) {
    if (device == cat(task_of(facts.device_name), "/", accelerator.name))
      endpoint.wires = accelerator.wires;
  }
  return endpoint;
}

void RemoteRun::connect(std::span<const Endpoint> peers, const RunOptions& options) {
  // Runners compare the hash with that of their peers, so that no two run different plans.
  const auto digest = assembly_->digest(state_->plan);
  if (!digest.ok()) return abort(digest.status());
  state_->first_step = options.first_step;
  state_->set_title({options.name, options.trains});
  RunSetup setup{options,   assembly_->cluster,   assembly_->assembly,
                 *digest,   assembly_->transport, {peers.begin(), peers.end()},
                 data_root_};
  auto connect = [part = state_->part, setup = std::move(setup)](Client& runner) {
    auto request = runner.connectRequest();
    name_part(part, request);
    write_setup(setup, request.initSetup());
    return request.send().then([](auto&& response) { return outcome_of(response); });
  };
  state_->channel->start_setup(state_->part, cat("connecting '", options.name, "'"),
                               kConnectDeadline, std::move(connect),
                               answer_to(state_, &RemoteRunState::connected));
}

Status RemoteRun::connected() { return state_->connected.wait(1, after(kConnectDeadline)); }

Status RemoteRun::feed(uint32_t i, const Tensor& value) {
  const Partition& partition = state_->plan->partitions[state_->part.partition];
  if (i >= partition.feeds.size() || partition.feeds[i] == kNone) return {};  // not used here
  const PlanBorder& expected = state_->plan->feeds[i];
  if (value.dtype() != expected.dtype || !(value.shape() == expected.shape)) {
    return invalid_argument(cat("feed '", expected.name, "': expected ", expected.dtype,
                                expected.shape, ", received ", value.dtype(), value.shape()));
  }
  // The last value of a feed counts.
  std::erase_if(feeds_, [&](const SmallFeed& feed) { return feed.index == i; });
  size_t bytes = value.bytes();
  for (const SmallFeed& feed : feeds_) bytes += feed.value.bytes();
  const auto* begin = static_cast<const std::byte*>(value.raw());
  // Small feeds cost no call of their own; they go with the next extend().
  if (bytes <= kSmallFeedsBytes) {
    Tensor copy(value.dtype(), value.shape());
    if (value.bytes() > 0) std::copy_n(begin, value.bytes(), static_cast<std::byte*>(copy.raw()));
    feeds_.push_back({i, std::move(copy)});
    return {};
  }
  // The copy lives until the upload has ended, whatever the caller does with its tensor.
  const Sending sending(std::make_shared<const Blob>(begin, begin + value.bytes()));
  return state_->channel->call(cat("feeding '", expected.name, "'"), kFeedDeadline,
                               [part = state_->part, i, sending](Client& runner) {
                                 auto request = runner.feedRequest();
                                 name_part(part, request);
                                 request.setIndex(i);
                                 request.setSize(sending.info.size);
                                 request.setSha256(bytes_of(sending.info.sha256));
                                 return send_blob(std::move(request), sending.blob);
                               });
}

// A limit without feeds joins the call in flight or the next one; feeds need a call of their own.
void RemoteRun::extend(uint64_t limit) {
  const uint64_t first = state_->first_step;
  // The bound is raised before the call goes out: reports of these turns may come before its
  // answer.
  if (limit > first) state_->allowed = std::max<uint64_t>(state_->allowed, limit - first);
  if (feeds_.empty()) {
    (void)state_->channel->loop().post([state = state_, limit] {
      state->limit.wanted = std::max(state->limit.wanted, limit);
      send_limit(state);
    });
    return;
  }
  auto extend = [state = state_, limit, feeds = std::exchange(feeds_, {})](Client& runner) {
    // This runs on the loop. A limit that send_limit() has in hand is not asked for again.
    state->limit.asked = std::max(state->limit.asked, limit);
    auto request = runner.extendRequest();
    name_part(state->part, request);
    request.setLimit(limit);
    auto list = request.initFeeds(static_cast<unsigned>(feeds.size()));
    for (unsigned f = 0; f < list.size(); ++f) {
      list[f].setIndex(feeds[f].index);
      const auto* bytes = static_cast<const uint8_t*>(feeds[f].value.raw());
      list[f].setValue(bytes_of({bytes, feeds[f].value.bytes()}));
    }
    return request.send().then([](auto&& response) { return outcome_of(response); });
  };
  state_->channel->start("extending", kCallDeadline, std::move(extend), answer_to(state_));
}

Result<uint64_t> RemoteRun::hold() {
  // From here on no further limit goes out, which would let the run go on behind the hold.
  (void)state_->channel->loop().post([state = state_] { state->limit.held = true; });
  return state_->channel->call(
      "holding the run", kCallDeadline, [part = state_->part](Client& runner) {
        auto request = runner.holdRequest();
        name_part(part, request);
        return request.send().then([](auto&& response) -> Result<uint64_t> {
          const auto outcome = response.getOutcome();
          if (outcome.isError()) return read_status(outcome.getError());
          return outcome.getOk().getLimit();
        });
      });
}

void RemoteRun::fence(uint64_t limit) {
  (void)state_->channel->loop().post([state = state_] { state->limit.held = true; });
  const auto fence = [part = state_->part, limit](Client& runner) {
    auto request = runner.fenceRequest();
    name_part(part, request);
    request.setLimit(limit);
    return request.send().then([](auto&& response) { return outcome_of(response); });
  };
  state_->channel->start("holding the run", kCallDeadline, fence, answer_to(state_));
}

bool RemoteRun::snapshot_in_passing(uint64_t step, const std::vector<std::string>& names) {
  const auto order = [part = state_->part, step, names](Client& runner) {
    auto request = runner.takeSnapshotRequest();
    write_optional(part.run, request.initRun());
    request.setPartition(part.partition);
    request.setStep(step);
    auto list = request.initNames(static_cast<unsigned>(names.size()));
    for (unsigned i = 0; i < list.size(); ++i) list.set(i, names[i]);
    return request.send().then([](auto&& response) { return outcome_of(response); });
  };
  // If the runner refuses, the checkpoint fails, but the run does not.
  state_->channel->start("ordering a snapshot", kCallDeadline, order, [](const Status&) {});
  return true;
}

void RemoteRun::renumber(uint64_t step) {
  const auto renumber = [part = state_->part, step](Client& runner) {
    auto request = runner.renumberRequest();
    name_part(part, request);
    request.setStep(step);
    return request.send().then([](auto&& response) { return outcome_of(response); });
  };
  state_->channel->start("renumbering", kCallDeadline, renumber, answer_to(state_));
}

const void* RemoteRun::fetched(uint32_t i, uint64_t step) {
  return state_->rows.at(i, step - state_->first_step);
}

void RemoteRun::abort(const Status& cause) {
  // The runner must get the abort before the release, which a thread may send when fail() wakes it.
  state_->send_abort(cause);
  state_->fail(cause);
  (void)state_->channel->loop().post(
      [state = state_, cause] { state->group->failed(cause, Failure::cause, nullptr); });
}

void RemoteRun::release() {
  if (std::exchange(released_, true)) return;
  const auto release = [part = state_->part](Client& runner) {
    auto request = runner.releaseRequest();
    name_part(part, request);
    return request.send().then([](auto&& response) { return outcome_of(response); });
  };
  // Ignore the answer: the run on the runner ends in any case when the runner does.
  state_->channel->start("releasing", kReleaseDeadline, release, [state = state_](const Status&) {
    // Reports that come later find no run, and are ignored.
    if (state->channel->on_loop()) state->channel->remove(state->part);
    state->released.signal(1);
  });
}

void RemoteRun::stop() {
  release();
  (void)state_->released.wait(1, after(kReleaseDeadline));
}

std::string RemoteRun::waits_for() {
  const std::string& node = state_->channel->facts().node;
  const auto description = describe_run(*state_, kDescribeDeadline);
  if (!description.ok()) return cat(node, " does not answer (", description.status(), ")");
  return description->waits_for.empty() ? "" : cat(node, ": ", description->waits_for);
}

std::string RemoteRun::profile() {
  const auto description = describe_run(*state_, kCallDeadline);
  return description.ok() ? description->profile : cat(description.status(), "\n");
}

}  // namespace leat
