#include "daemon/process/log_output.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "daemon/base/json_line.h"
#include "devices/base/text.h"

namespace leat {
namespace {

// JOURNAL_STREAM, which systemd sets, names the device and inode of the journal's stream. Compare
// it with stderr, which may have been redirected since.
bool stderr_is_journal() {
  const char* stream = std::getenv("JOURNAL_STREAM");
  struct stat info {};
  if (stream == nullptr || ::fstat(STDERR_FILENO, &info) != 0) return false;
  return cat(info.st_dev, ":", info.st_ino) == stream;
}

// Priorities of syslog.
int priority(LogLevel level) {
  switch (level) {
    case LogLevel::debug:
      return 7;
    case LogLevel::info:
      return 6;
    case LogLevel::warning:
      return 4;
    case LogLevel::error:
    case LogLevel::off:
      break;
  }
  return 3;
}

// "2025-01-31 12:00:00.123" in the local time, or "2025-01-31T12:00:00.123Z".
std::string stamp(Clock::Wall now, bool utc) {
  const auto since = now.time_since_epoch();
  const auto ms = std::chrono::floor<std::chrono::milliseconds>(since).count();
  const std::time_t seconds = ms / 1000;
  std::tm parts{};
  if (utc) {
    ::gmtime_r(&seconds, &parts);
  } else {
    ::localtime_r(&seconds, &parts);
  }
  char day[32], text[48];
  std::strftime(day, sizeof day, utc ? "%Y-%m-%dT%H:%M:%S" : "%Y-%m-%d %H:%M:%S", &parts);
  std::snprintf(text, sizeof text, "%s.%03d%s", day, static_cast<int>(ms % 1000), utc ? "Z" : "");
  return text;
}

// Opens a file with mode 0640, and creates it if necessary.
Result<Descriptor> open_for_append(const std::string& path) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640));
  if (file) return file;
  return failed_precondition(cat("log.file '", path, "': ", std::strerror(errno)));
}

}  // namespace

Result<std::shared_ptr<LogOutput>> LogOutput::open(const LogConfig& config, const Clock& clock) {
  Style style = Style::text;
  if (config.format == LogFormat::json) {
    style = Style::json;
  } else if (config.file.empty() && stderr_is_journal()) {
    // The journal adds time and level itself, but only to lines that come over stderr.
    style = Style::journal;
  }
  std::shared_ptr<LogOutput> output(new LogOutput(config.file, style, clock));
  LEAT_RETURN_IF_ERROR(output->reopen());
  return output;
}

Status LogOutput::reopen() {
  if (path_.empty()) return {};
  LEAT_ASSIGN_OR_RETURN(Descriptor opened, open_for_append(path_));
  // Only now the old file is closed: if the new one cannot be opened, lines still go to the old
  // one.
  const std::lock_guard lock(mutex_);
  file_ = std::move(opened);
  return {};
}

std::string LogOutput::line(LogLevel level, std::string_view who, std::string_view text) const {
  switch (style_) {
    case Style::text:
      return cat(stamp(clock_.now(), false), " ", log_level_name(level), " ", who, ": ", text,
                 "\n");
    case Style::journal:
      return cat("<", priority(level), ">", who, ": ", text, "\n");
    case Style::json:
      break;
  }
  JsonLine json;
  json.add("time", stamp(clock_.now(), true)).add("level", log_level_name(level));
  return json.add("who", who).add("text", text).text();
}

void LogOutput::write(LogLevel level, std::string_view who, std::string_view text) {
  // Made before the lock, so that other threads do not wait for it.
  const std::string whole = line(level, who, text);
  const std::lock_guard lock(mutex_);
  std::string_view left = whole;
  while (!left.empty()) {
    const ssize_t written = ::write(file_ ? file_.get() : STDERR_FILENO, left.data(), left.size());
    if (written < 0 && errno == EINTR) continue;
    // The rest of the line is lost, because the daemon must not stop for its log.
    if (written <= 0) return;
    left.remove_prefix(static_cast<size_t>(written));
  }
}

}  // namespace leat
