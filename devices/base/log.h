// What the process tells people, one line an event: time, level, who, what.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "devices/base/status.h"
#include "devices/base/text.h"

namespace leat {

enum class LogLevel : uint8_t { debug, info, warning, error, off };

std::string_view log_level_name(LogLevel level);
// invalid_argument, with the names that there are.
Result<LogLevel> log_level_from_name(std::string_view name);

// Where lines go. Threads: any.
class LogSink {
 public:
  virtual ~LogSink() = default;
  virtual void write(LogLevel level, std::string_view who, std::string_view text) = 0;
};

// Lines on stderr: "2025-01-31 12:00:00.123 warning worker-2/rpc: text".
std::shared_ptr<LogSink> make_stderr_sink();

// A name, a level and a sink that copies share. A default one drops everything, so that a class
// that logs needs nothing in a test. Control characters in a text are escaped: whatever a remote
// party names itself, it is one line. Threads: any; it is a value.
class Logger {
 public:
  Logger() = default;
  Logger(std::string name, LogLevel level, std::shared_ptr<LogSink> sink)
      : name_(std::move(name)), level_(level), sink_(std::move(sink)) {}

  // "worker-2" becomes "worker-2/rpc".
  Logger named(std::string_view part) const;
  bool enabled(LogLevel level) const { return sink_ != nullptr && level >= level_; }
  void log(LogLevel level, std::string_view text) const;

  // The arguments streamed one after another, only if the level is on.
  template <typename... Args>
  void debug(const Args&... args) const {
    streamed(LogLevel::debug, args...);
  }
  template <typename... Args>
  void info(const Args&... args) const {
    streamed(LogLevel::info, args...);
  }
  template <typename... Args>
  void warning(const Args&... args) const {
    streamed(LogLevel::warning, args...);
  }
  template <typename... Args>
  void error(const Args&... args) const {
    streamed(LogLevel::error, args...);
  }

 private:
  template <typename... Args>
  void streamed(LogLevel level, const Args&... args) const {
    if (enabled(level)) log(level, cat(args...));
  }

  std::string name_;
  LogLevel level_ = LogLevel::off;
  std::shared_ptr<LogSink> sink_;
};

}  // namespace leat
