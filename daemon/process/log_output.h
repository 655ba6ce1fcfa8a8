// Where a daemon's log goes, as its config says.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "daemon/process/daemon_config.h"
#include "devices/base/clock.h"
#include "devices/base/log.h"
#include "transport/io/descriptor.h"

namespace leat {

// Lines in a file or on stderr, each written at once and whole:
//
//   text                   2025-01-31 12:00:00.123 warning worker-2/rpc: text
//   text, to the journal   <4>worker-2/rpc: text    (systemd's stderr: it has the time itself)
//   json                   {"time": "2025-01-31T12:00:00.123Z", "level": "warning", "who": ...,
//   "text": ...}
//
// A line that cannot be written is lost: a full disk must not stop the work. Threads: any.
class LogOutput final : public LogSink {
 public:
  // failed_precondition that names the file if it cannot be opened. The clock outlives it.
  static Result<std::shared_ptr<LogOutput>> open(const LogConfig& config, const Clock& clock);

  void write(LogLevel level, std::string_view who, std::string_view text) override;
  // Opens the file's name again, after it was moved away. On failure the old one stays.
  Status reopen();

 private:
  enum class Style : uint8_t { text, journal, json };
  LogOutput(std::string file, Style style, const Clock& clock)
      : path_(std::move(file)), style_(style), clock_(clock) {}
  std::string line(LogLevel level, std::string_view who, std::string_view text) const;

  const std::string path_;  // empty: stderr
  const Style style_;
  const Clock& clock_;
  std::mutex mutex_;
  Descriptor file_;
};

}  // namespace leat
