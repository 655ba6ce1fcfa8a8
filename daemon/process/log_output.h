// The destination of a daemon's log, as its config sets it.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "daemon/process/daemon_config.h"
#include "devices/base/clock.h"
#include "devices/base/log.h"
#include "transport/io/descriptor.h"

namespace leat {

// Writes lines to a file or to stderr, each immediately and as a whole:
//
//   text                   2025-01-31 12:00:00.123 warning worker-2/rpc: text
//   text, to the journal   <4>worker-2/rpc: text    (systemd's stderr: the journal adds the time)
//   json                   {"time": "2025-01-31T12:00:00.123Z", "level": "warning", "who": ...,
//   "text": ...}
//
// A line that cannot be written is lost, because a full disk must not stop the daemon. Threads:
// any.
class LogOutput final : public LogSink {
 public:
  // Returns failed_precondition with the file's name if it cannot open the file. The clock must
  // outlive the output.
  static Result<std::shared_ptr<LogOutput>> open(const LogConfig& config, const Clock& clock);

  // Threads: any; blocks while another thread writes. Logger has escaped control characters in
  // `text`, so that it is one line.
  void write(LogLevel level, std::string_view who, std::string_view text) override;
  // Opens the file by its name again, after another program renamed the old file. If that fails,
  // the old file stays open.
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
