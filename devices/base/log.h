// Log lines for people, one per event: time, level, origin, text.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "devices/base/status.h"
#include "devices/base/text.h"

namespace leat {

// From the least to the most important. A logger passes lines of its own level and above; `off`
// passes none.
enum class LogLevel : uint8_t { debug, info, warning, error, off };

// "debug", "info", "warning", "error", "off".
std::string_view log_level_name(LogLevel level);
// The level of this name. Any other name is invalid_argument, and the message lists the names.
Result<LogLevel> log_level_from_name(std::string_view name);

// The place that lines go to. Loggers share it.
// Threads: any; write() may be called from several at once.
class LogSink {
 public:
  virtual ~LogSink() = default;
  // Takes one line. `who` is the name of the logger. A line that cannot be written is lost: write()
  // does not fail.
  virtual void write(LogLevel level, std::string_view who, std::string_view text) = 0;
};

// Writes lines to stderr: "2025-01-31 12:00:00.123 warning worker-2/rpc: text".
std::shared_ptr<LogSink> make_stderr_sink();

// A name, a level and a shared sink. A default logger drops every line, so that a class that logs
// needs none in a test. Control characters in the text are escaped, so that a name chosen by a
// remote party cannot end the line or forge another.
// Threads: any; it is a value.
class Logger {
 public:
  Logger() = default;
  Logger(std::string name, LogLevel level, std::shared_ptr<LogSink> sink)
      : name_(std::move(name)), level_(level), sink_(std::move(sink)) {}

  // The logger of a part: "worker-2" and "rpc" make "worker-2/rpc".
  Logger named(std::string_view part) const;
  // True if a line of this level would reach the sink.
  bool enabled(LogLevel level) const { return sink_ != nullptr && level >= level_; }
  // Writes one line, if the level is enabled.
  void log(LogLevel level, std::string_view text) const;

  // Each of these four streams its arguments one after the other, and only if the level is enabled.
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
