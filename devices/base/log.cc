#include "devices/base/log.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <array>
#include <vector>

#include "devices/base/utf8.h"

namespace leat {
namespace {

// In the order of LogLevel.
constexpr std::array<std::string_view, 5> kNames = {"debug", "info", "warning", "error", "off"};

spdlog::level::level_enum spdlog_level(LogLevel level) {
  switch (level) {
    case LogLevel::debug:
      return spdlog::level::debug;
    case LogLevel::info:
      return spdlog::level::info;
    case LogLevel::warning:
      return spdlog::level::warn;
    case LogLevel::error:
      return spdlog::level::err;
    case LogLevel::off:
      break;
  }
  return spdlog::level::off;
}

// spdlog's sink, which has a lock of its own, so that lines of several threads do not mix.
class StderrSink final : public LogSink {
 public:
  StderrSink() : logger_("leat", std::make_shared<spdlog::sinks::stderr_sink_mt>()) {
    logger_.set_pattern("%Y-%m-%d %H:%M:%S.%e %l %v");
    // Logger has dropped the lines below its level already.
    logger_.set_level(spdlog::level::debug);
    logger_.flush_on(spdlog::level::debug);
    // spdlog catches its own exceptions. A line that cannot be written must not stop the work.
    logger_.set_error_handler([](const std::string&) {});
  }

  void write(LogLevel level, std::string_view who, std::string_view text) override {
    logger_.log(spdlog_level(level), "{}: {}", who, text);
  }

 private:
  spdlog::logger logger_;
};

// Tabs stay as they are.
bool is_control(char c) { return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f; }

// Escapes control characters, a newline as \n and the others as \xNN, so that the text is one line.
std::string escaped(std::string_view text) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  out.reserve(text.size());
  for (char c : text) {
    if (!is_control(c)) {
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else {
      out += "\\x";
      out += kDigits[static_cast<unsigned char>(c) >> 4];
      out += kDigits[c & 15];
    }
  }
  return out;
}

}  // namespace

std::string_view log_level_name(LogLevel level) { return kNames[static_cast<size_t>(level)]; }

Result<LogLevel> log_level_from_name(std::string_view name) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<LogLevel>(i);
  }
  return invalid_argument(
      cat("log level: expected one of ", join(kNames, ", "), ", it is '", name, "'"));
}

std::shared_ptr<LogSink> make_stderr_sink() { return std::make_shared<StderrSink>(); }

// The copy shares level and sink.
Logger Logger::named(std::string_view part) const {
  Logger logger = *this;
  logger.name_ = name_.empty() ? std::string(part) : cat(name_, "/", part);
  return logger;
}

void Logger::log(LogLevel level, std::string_view text) const {
  if (enabled(level)) sink_->write(level, name_, escaped(valid_utf8(std::string(text))));
}

}  // namespace leat
