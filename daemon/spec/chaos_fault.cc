#include "daemon/spec/chaos_fault.h"

#include <array>
#include <charconv>
#include <optional>

#include "daemon/base/units.h"
#include "devices/base/philox.h"
#include "devices/base/text.h"

namespace leat {
namespace {

using std::chrono::milliseconds;

constexpr std::array<std::string_view, 8> kActions = {"kill", "stop",    "term", "exit",
                                                      "hang", "corrupt", "slow", "flip"};
constexpr std::array<std::string_view, 5> kTargets = {"worker", "runner", "master", "weight",
                                                      "gradient"};
// The number of faults of a seed, if its entry does not say it, and the most that it may say.
constexpr uint64_t kDefaultCount = 20;
constexpr uint64_t kMostCount = 1000;
constexpr std::string_view kForms =
    "expected ACTION=TARGET@step=N or @time=TIME, as kill=worker:1@step=700, or seed=N,every=TIME";

// An error of one entry, which quotes the entry and the part that is wrong.
Status wrong(std::string_view spec, std::string_view expected, std::string_view received) {
  return invalid_argument(
      cat("--chaos '", spec, "': expected ", expected, ", received '", received, "'"));
}

// Reads a number without a sign or a leading zero, so that each number has one notation.
std::optional<uint64_t> number_of(std::string_view text) {
  uint64_t number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) return std::nullopt;
  if (text.size() > 1 && text.front() == '0') return std::nullopt;
  return number;
}

// Returns the text before the mark, and removes it and the mark from `text`; all of it if there is
// no mark.
std::string_view take_until(std::string_view& text, char mark) {
  const size_t at = text.find(mark);
  const std::string_view before = text.substr(0, at);
  text.remove_prefix(at == std::string_view::npos ? text.size() : at + 1);
  return before;
}

template <typename Enum, size_t N>
std::optional<Enum> named(const std::array<std::string_view, N>& names, std::string_view name) {
  for (size_t i = 0; i < N; ++i) {
    if (names[i] == name) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

// Reads "step=700" or "time=15s".
Status parse_when(std::string_view spec, std::string_view text, ChaosFault& fault) {
  std::string_view value = text;
  const std::string_view key = take_until(value, '=');
  if (key == "step") {
    const auto step = number_of(value);
    if (!step || *step == 0) return wrong(spec, "step to be a number from 1 on", value);
    fault.step = *step;
    return {};
  }
  if (key != "time") return wrong(spec, "step=N or time=TIME behind the '@'", text);
  const auto time = parse_duration(value);
  if (!time || time->count() == 0) return wrong(spec, "time as 90s or 1500ms", value);
  fault.time = *time;
  return {};
}

// Reads "worker:1", "runner:0", "weight:0", "gradient:0" or "master". Tasks end at 4095, because a
// job has at most 4096 workers.
Status parse_target(std::string_view spec, std::string_view text, ChaosFault& fault) {
  std::string_view task = text;
  const std::string_view name = take_until(task, ':');
  const auto target = named<ChaosTarget>(kTargets, name);
  const bool is_master = target == ChaosTarget::master;
  const auto number = number_of(task);
  if (!target || is_master != task.empty() || (!is_master && (!number || *number > 4095))) {
    return wrong(spec, "worker:N, runner:N, weight:N, gradient:N or master, N a task from 0 on",
                 text);
  }
  fault.target = *target;
  fault.task = is_master ? 0 : static_cast<uint32_t>(*number);
  return {};
}

// True if the action has a meaning for that target.
bool can_happen_to(ChaosAction action, ChaosTarget target) {
  const bool is_value = target == ChaosTarget::weight || target == ChaosTarget::gradient;
  if (is_value || action == ChaosAction::flip) return is_value && action == ChaosAction::flip;
  switch (action) {
    case ChaosAction::exit:
    case ChaosAction::corrupt:
      return target == ChaosTarget::runner;
    case ChaosAction::hang:
      return target != ChaosTarget::master;
    case ChaosAction::slow:
      return target != ChaosTarget::worker;
    default:
      return true;
  }
}

// True for the actions that may have an end, which `for=` sets.
bool lasts(ChaosAction action) {
  return action == ChaosAction::stop || action == ChaosAction::slow;
}

// An entry "seed=...": random faults, one in each interval.
struct Seed {
  uint64_t seed = 0;
  uint64_t steps = 0;    // between two faults; 0: use `time`
  milliseconds time{0};  // between two faults
  uint64_t count = kDefaultCount;
};

// Reads "seed=7,every=15s,count=5".
Result<Seed> parse_seed(std::string_view spec) {
  Seed seed;
  std::string_view rest = spec;
  bool first = true, has_every = false, has_count = false;
  // The seed comes first. The other parts may come in any order, each once.
  while (first || !rest.empty()) {
    const std::string_view part = take_until(rest, ',');
    std::string_view value = part;
    const std::string_view key = take_until(value, '=');
    const auto number = number_of(value);
    if (std::exchange(first, false)) {
      if (!number) return wrong(spec, "seed to be a number", value);
      seed.seed = *number;
    } else if (key == "every" && !std::exchange(has_every, true)) {
      const auto time = parse_duration(value);
      if ((number && *number > 0) || (time && time->count() > 0)) {
        seed.steps = number.value_or(0);
        seed.time = number ? milliseconds(0) : *time;
      } else {
        return wrong(spec, "every to be a time as 15s, or a number of steps", value);
      }
    } else if (key == "count" && !std::exchange(has_count, true)) {
      if (!number || *number == 0 || *number > kMostCount) {
        return wrong(spec, cat("count to be from 1 to ", kMostCount), value);
      }
      seed.count = *number;
    } else {
      return wrong(spec, "seed=N,every=TIME or STEPS, and maybe count=N, each once", part);
    }
  }
  if (!has_every) return wrong(spec, "every=TIME or every=STEPS behind the seed", spec);
  return seed;
}

// Returns the i-th fault of a seed: a random target and action, at a random moment of the second
// half of its interval.
ChaosFault draw(const Seed& seed, uint64_t i, uint32_t num_workers) {
  // Four random numbers that depend on the seed and on i alone, so that a schedule can be computed
  // again.
  const PhiloxCounter block = RandomStream(seed.seed, 0, 0).block(i);
  struct Kind {
    ChaosAction action;
    ChaosTarget target;
  };
  constexpr Kind kKinds[] = {
      {ChaosAction::kill, ChaosTarget::worker}, {ChaosAction::kill, ChaosTarget::runner},
      {ChaosAction::stop, ChaosTarget::worker}, {ChaosAction::term, ChaosTarget::worker},
      {ChaosAction::exit, ChaosTarget::runner}, {ChaosAction::kill, ChaosTarget::master},
      {ChaosAction::stop, ChaosTarget::master}};
  const Kind kind = kKinds[block[0] % std::size(kKinds)];
  ChaosFault fault;
  fault.action = kind.action;
  fault.target = kind.target;
  if (kind.target != ChaosTarget::master && num_workers > 0) fault.task = block[1] % num_workers;
  if (kind.action == ChaosAction::stop) fault.lasts = milliseconds(200 + block[2] % 5000);
  // The second half of each interval, so that two faults have at least half an interval between
  // them.
  if (seed.steps > 0) {
    fault.step = (i + 1) * seed.steps - block[3] % ((seed.steps + 1) / 2);
  } else {
    const auto every = static_cast<uint64_t>(seed.time.count());
    fault.time = milliseconds((i + 1) * every - block[3] % ((every + 1) / 2));
  }
  return fault;
}

}  // namespace

std::string to_string(const ChaosFault& fault) {
  std::string text = cat(kActions[static_cast<size_t>(fault.action)], "=",
                         kTargets[static_cast<size_t>(fault.target)]);
  if (fault.target != ChaosTarget::master) text += cat(":", fault.task);
  text += fault.step > 0 ? cat("@step=", fault.step) : cat("@time=", print_duration(fault.time));
  if (fault.lasts.count() > 0) text += cat(",for=", print_duration(fault.lasts));
  return text;
}

Result<ChaosFault> parse_chaos_fault(std::string_view spec) {
  ChaosFault fault;
  std::string_view rest = spec;
  const std::string_view action_name = take_until(rest, '=');
  // This message shows all forms, because nothing of the entry is known yet.
  const auto action = named<ChaosAction>(kActions, action_name);
  if (!action) {
    return invalid_argument(cat("--chaos '", spec, "': ", kForms, "; '", action_name,
                                "' is none of ", join(kActions, ", "), ", seed"));
  }
  fault.action = *action;
  const std::string_view target = take_until(rest, '@');
  LEAT_RETURN_IF_ERROR(parse_target(spec, target, fault));
  LEAT_RETURN_IF_ERROR(parse_when(spec, take_until(rest, ','), fault));
  if (!can_happen_to(fault.action, fault.target)) {
    const bool flips = fault.action == ChaosAction::flip;
    return wrong(spec, flips ? "flip=weight:N or flip=gradient:N" : cat(action_name, "=runner:N"),
                 target);
  }
  if (rest.empty()) return fault;
  std::string_view value = rest;
  if (take_until(value, '=') != "for" || !lasts(fault.action)) {
    return wrong(spec, "nothing more, but ,for=TIME of stop and slow", rest);
  }
  const auto time = parse_duration(value);
  if (!time || time->count() == 0) return wrong(spec, "for to be a time as 5s", value);
  fault.lasts = *time;
  return fault;
}

Status check_chaos(std::string_view spec, uint32_t num_workers) {
  if (spec.starts_with("seed=")) return parse_seed(spec).status();
  LEAT_ASSIGN_OR_RETURN(const ChaosFault fault, parse_chaos_fault(spec));
  // Without the number of workers, a task cannot be checked: the master does it at the submit.
  if (num_workers > 0 && fault.target != ChaosTarget::master && fault.task >= num_workers) {
    return wrong(spec, cat("a task from 0 to ", num_workers - 1), cat(fault.task));
  }
  return {};
}

Result<std::vector<ChaosFault>> chaos_schedule(std::span<const std::string> specs,
                                               uint32_t num_workers) {
  std::vector<ChaosFault> faults;
  for (const std::string& spec : specs) {
    if (!spec.starts_with("seed=")) {
      LEAT_ASSIGN_OR_RETURN(const ChaosFault fault, parse_chaos_fault(spec));
      faults.push_back(fault);
      continue;
    }
    LEAT_ASSIGN_OR_RETURN(const Seed seed, parse_seed(spec));
    // The master's journal names a fault by its index in this list.
    for (uint64_t i = 0; i < seed.count; ++i) faults.push_back(draw(seed, i, num_workers));
  }
  return faults;
}

}  // namespace leat
