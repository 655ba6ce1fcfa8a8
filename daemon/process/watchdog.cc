#include "daemon/process/watchdog.h"

#include "devices/base/text.h"

namespace leat {
namespace {

// Several questions in each silence, so that one late answer is not taken for a silent loop.
constexpr int kAsksPerSilence = 4;

}  // namespace

std::string tenths_of_seconds(Clock::Steady::duration time) {
  const auto tenths = std::chrono::duration_cast<std::chrono::milliseconds>(time).count() / 100;
  return cat(tenths / 10, ".", tenths % 10, " s");
}

Watchdog::Watchdog(LifetimeCalls& calls, std::chrono::milliseconds silence, Logger log)
    : calls_(calls), silence_(silence), log_(std::move(log)) {}

bool Watchdog::look(std::chrono::steady_clock::time_point now) {
  // The answers to these questions may come later: the judgement below is about the beats so far.
  due_ = now + silence_ / kAsksPerSilence;
  calls_.for_each([](LifetimeCall& call) {
    if (call.ask) call.ask(call.heart);
  });
  // All loops are judged, also after one that is silent, so that the log names each of them.
  bool alive = true;
  calls_.for_each([&](LifetimeCall& call) {
    if (!call.watched.empty()) alive = judge(call) && alive;
  });
  return alive;
}

bool Watchdog::judge(LifetimeCall& call) const {
  const auto age = call.heart.age();
  const bool silent = age > silence_;
  // Only a change is logged, because this is called several times in each silence.
  if (silent && !call.silent) {
    log_.error("loop ", call.watched, " has shown no life for ", tenths_of_seconds(age),
               "; the watchdog hears nothing until it does");
  }
  if (!silent && call.silent) log_.warning("loop ", call.watched, " is alive again");
  call.silent = silent;
  return !silent;
}

}  // namespace leat
