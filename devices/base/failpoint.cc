#include "devices/base/failpoint.h"

#include <unistd.h>

#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "devices/base/text.h"

namespace leat {

struct Failpoint {
  FailpointAction action;
  std::atomic<uint64_t> passes{0};
};

std::atomic<int> failpoints_set{0};

namespace {

// The failpoints that are set, by name.
struct Table {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<Failpoint>, std::less<>> failpoints;
};

Table& table() {
  static Table table;
  return table;
}

// Sets a failpoint, in place of another one with this name. The count in failpoints_set makes
// LEAT_FAILPOINT look here.
std::shared_ptr<Failpoint> set(const std::string& name, FailpointAction action) {
  auto failpoint = std::make_shared<Failpoint>();
  failpoint->action = std::move(action);
  std::lock_guard lock(table().mutex);
  table().failpoints[name] = failpoint;
  failpoints_set.store(static_cast<int>(table().failpoints.size()), std::memory_order_relaxed);
  return failpoint;
}

// Removes a failpoint, unless another one has taken its name.
void unset(const std::string& name, const std::shared_ptr<Failpoint>& failpoint) {
  std::lock_guard lock(table().mutex);
  const auto found = table().failpoints.find(name);
  if (found != table().failpoints.end() && found->second == failpoint) {
    table().failpoints.erase(found);
  }
  failpoints_set.store(static_cast<int>(table().failpoints.size()), std::memory_order_relaxed);
}

FailpointAction fail_with(Status status, uint64_t only) {
  return [status, only](uint64_t pass) { return only == 0 || pass == only ? status : Status(); };
}

// Kills this process as a crash does: no destructor runs and no buffer is flushed.
FailpointAction kill_at(uint64_t only) {
  return [only](uint64_t pass) {
    if (only != 0 && pass != only) return Status();
    std::raise(SIGKILL);
    // The first process of a namespace, such as a runner, cannot kill itself.
    ::_exit(128 + SIGKILL);
  };
}

// Takes this long at each pass, or at pass number `only` alone.
FailpointAction delay_by(std::chrono::milliseconds time, uint64_t only) {
  return [time, only](uint64_t pass) {
    if (only == 0 || pass == only) std::this_thread::sleep_for(time);
    return Status();
  };
}

// "20ms" of the action "delay20ms".
std::optional<std::chrono::milliseconds> delay_from(std::string_view action) {
  if (!action.starts_with("delay") || !action.ends_with("ms")) return std::nullopt;
  const std::string_view number = action.substr(5, action.size() - 7);
  uint32_t time = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), time);
  if (error != std::errc() || end != number.data() + number.size()) return std::nullopt;
  return std::chrono::milliseconds(time);
}

std::optional<Code> code_from_name(std::string_view name) {
  for (int i = 1; i <= static_cast<int>(Code::internal); ++i) {
    if (code_name(static_cast<Code>(i)) == name) return static_cast<Code>(i);
  }
  return std::nullopt;
}

// One "name=action" of the environment variable.
struct Setting {
  std::string name;
  FailpointAction action;
};

Result<Setting> parse_setting(std::string_view text) {
  const size_t equals = text.find('=');
  const std::string name(text.substr(0, equals));
  if (equals == std::string_view::npos || name.empty()) {
    return invalid_argument(cat("failpoint '", text, "': expected name=action"));
  }
  std::string_view action = text.substr(equals + 1);
  uint64_t only = 0;
  if (const size_t at = action.find('@'); at != std::string_view::npos) {
    const std::string_view number = action.substr(at + 1);
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), only);
    if (error != std::errc() || end != number.data() + number.size() || only == 0) {
      return invalid_argument(
          cat("failpoint '", text, "': expected a pass from 1 after '@', it is '", number, "'"));
    }
    action = action.substr(0, at);
  }
  if (action == "kill") return Setting{name, kill_at(only)};
  if (const auto delay = delay_from(action)) return Setting{name, delay_by(*delay, only)};
  const auto code = code_from_name(action);
  if (!code) {
    return invalid_argument(cat("failpoint '", text, "': expected 'kill', 'delay20ms' or a code ",
                                "such as 'unavailable', the action is '", action, "'"));
  }
  return Setting{name, fail_with(Status(*code, cat("failpoint '", name, "' is set")), only)};
}

}  // namespace

ScopedFailpoint::ScopedFailpoint(std::string name, FailpointAction action)
    : name_(std::move(name)), failpoint_(set(name_, std::move(action))) {}

ScopedFailpoint::ScopedFailpoint(std::string name, Status status, uint64_t only)
    : ScopedFailpoint(std::move(name), fail_with(std::move(status), only)) {}

ScopedFailpoint::~ScopedFailpoint() { unset(name_, failpoint_); }

uint64_t ScopedFailpoint::passes() const { return failpoint_->passes.load(); }

void set_failpoint(std::string name, FailpointAction action) { set(name, std::move(action)); }

// Reads all settings before it sets one, so that an error sets none.
Status set_failpoints(std::string_view text) {
  std::vector<Setting> settings;
  while (!text.empty()) {
    const size_t end = text.find(';');
    LEAT_ASSIGN_OR_RETURN(Setting setting, parse_setting(text.substr(0, end)));
    settings.push_back(std::move(setting));
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  }
  for (Setting& setting : settings) set(setting.name, std::move(setting.action));
  return {};
}

Status set_failpoints_of_environment() {
  const char* text = std::getenv("LEAT_FAILPOINTS");
  if (text == nullptr) return {};
  return set_failpoints(text).while_doing("reading LEAT_FAILPOINTS");
}

Status pass_failpoint(std::string_view name) {
  // The action runs without the lock: it may block, or pass failpoints itself.
  std::shared_ptr<Failpoint> failpoint;
  {
    std::lock_guard lock(table().mutex);
    const auto found = table().failpoints.find(name);
    if (found == table().failpoints.end()) return {};
    failpoint = found->second;
  }
  return failpoint->action(failpoint->passes.fetch_add(1) + 1);
}

}  // namespace leat
