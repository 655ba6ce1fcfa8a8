#include "daemon/runner/reporter.h"

#include <atomic>
#include <chrono>
#include <vector>

#include "daemon/wire/run_messages.h"
#include "transport/rpc/call.h"
#include "transport/rpc/client.h"

namespace leat {
namespace {

using SteadyClock = std::chrono::steady_clock;
using namespace std::chrono_literals;

// The pause between reports of a run that steps freely: a report costs both ends as much as tens of
// steps.
constexpr auto kPause = 20ms;
// The most bytes of rows in one message.
constexpr size_t kMostBytes = 512 << 10;

// Sends the reports of all runs in one call.
kj::Promise<Status> send_reports(wire::Registry::Client registry,
                                 const std::vector<RunReport>& reports) {
  auto request = registry.reportRequest();
  auto out = request.initReports(static_cast<unsigned>(reports.size()));
  for (unsigned i = 0; i < out.size(); ++i) write_report(reports[i], out[i]);
  return request.send().then([](auto&& response) { return status_of(response.getOutcome()); });
}

}  // namespace

// Threads: the loop's; told(): any.
struct Reporter::Core : std::enable_shared_from_this<Core> {
  Core(RpcLoop& loop, std::chrono::milliseconds patience) : loop(loop), patience(patience) {}

  // There are news. The first caller posts; until the loop has looked, others need not.
  void told(bool urgent) {
    if (urgent) urgently.store(true);
    if ((urgent ? posted_urgent : posted).exchange(true)) return;
    (void)loop.post([self = shared_from_this()] { self->look(); });
  }

  // Sends a report, or sees to it that this is called again when one may be sent.
  void look() {
    if (!runner || in_flight || ended) return;  // what is in flight looks again when it is over
    const auto now = SteadyClock::now();
    if (!urgently.load() && now < last + kPause) return later(last + kPause - now);
    send();
  }

  // Looks again after the pause, unless a timer for it runs already. The report goes out then.
  void later(SteadyClock::duration delay) {
    if (waiting) return;
    waiting = true;
    in_time(delay, [this] {
      waiting = false;
      urgently.store(true);
      look();
    });
  }

  template <typename F>
  void in_time(SteadyClock::duration delay, F function) {
    LoopContext& context = loop.context();
    context.tasks.add(context.timer.afterDelay(to_kj(delay))
                          .then([self = shared_from_this(), function]() mutable { function(); }));
  }

  void send() {
    // The flags are reset before the reports are collected: news that come meanwhile post again,
    // and none is lost.
    posted.store(false);
    posted_urgent.store(false);
    urgently.store(false);
    std::vector<RunReport> reports = collect();
    if (reports.empty()) return;
    in_flight = true;
    last = SteadyClock::now();
    master->start<wire::Registry>(
        "Registry.report", patience,
        [reports = std::move(reports)](wire::Registry::Client registry) {
          return send_reports(kj::mv(registry), reports);
        },
        [self = shared_from_this(), life = life](Status status) {
          // An answer of the connection before stop() says nothing about the new one.
          if (self->life == life) self->sent(status);
        });
  }

  std::vector<RunReport> collect() {
    std::vector<RunReport> reports;
    size_t bytes = 0;
    for (const auto& run : runner->runs().runs()) {
      RunReport report;
      // A run for which this message has no room is in the next one.
      const auto live = run->live_or_null();
      if (live && bytes < kMostBytes && live->take_report(report, kMostBytes - bytes)) {
        bytes += report.bytes;
        reports.push_back(std::move(report));
      }
    }
    full = bytes >= kMostBytes;
    return reports;
  }

  void sent(const Status& status) {
    in_flight = false;
    if (status.ok()) return send_more();
    // After an error nothing is sent until stop() and start(). The rows that were in that report
    // are lost with it.
    if (std::exchange(ended, true)) return;
    failed(status.while_doing("reporting to the master"));
  }

  // There may be more news than this report had room for, without another call of told(). A full
  // report means a large fetch, and the master may wait for the rest.
  void send_more() {
    posted.store(true);
    if (full) urgently.store(true);
    look();
  }

  RpcLoop& loop;
  const std::chrono::milliseconds patience;
  JobRunner* runner = nullptr;
  RpcClient* master = nullptr;
  std::function<void(const Status&)> failed;
  std::atomic<bool> posted{false}, posted_urgent{false}, urgently{false};
  bool in_flight = false, waiting = false, ended = false, full = false;
  SteadyClock::time_point last{};
  uint64_t life = 0;  // counts stops
};

Reporter::Reporter(RpcLoop& loop, std::chrono::milliseconds patience)
    : core_(std::make_shared<Core>(loop, patience)) {}
Reporter::~Reporter() = default;

TurnLog::News Reporter::news() {
  return [core = core_](bool urgent) { core->told(urgent); };
}

void Reporter::start(JobRunner& runner, RpcClient& master,
                     std::function<void(const Status&)> failed) {
  (void)core_->loop.run([&] {
    core_->runner = &runner;
    core_->master = &master;
    core_->failed = std::move(failed);
    // A new master knows nothing of this runner yet, so the first report goes at once.
    core_->urgently.store(true);
    core_->look();
  });
}

void Reporter::stop() {
  (void)core_->loop.run([&] {
    ++core_->life;
    core_->runner = nullptr;
    core_->master = nullptr;
    core_->in_flight = core_->ended = false;
  });
}

}  // namespace leat
