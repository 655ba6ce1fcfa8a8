#include "daemon/cli/event_program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <iostream>
#include <utility>

#include "daemon/base/terminal.h"
#include "daemon/cli/spawn_program.h"
#include "devices/base/counted.h"
#include "devices/base/text.h"

namespace leat {
namespace {

using std::chrono::milliseconds;
using Steady = std::chrono::steady_clock;

// How often the writer looks whether it is to end.
constexpr milliseconds kWriterPoll{100};

}  // namespace

Result<std::vector<std::string>> split_command(std::string_view text) {
  std::vector<std::string> words;
  bool in_word = false;
  char quote = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote == 0 && (c == ' ' || c == '\t' || c == '\n')) {
      in_word = false;
      continue;
    }
    // A quote begins a word, too, which may be empty.
    if (!std::exchange(in_word, true)) words.emplace_back();
    if (c == quote) {
      quote = 0;
    } else if (quote == 0 && (c == '\'' || c == '"')) {
      quote = c;
    } else if (c == '\\' && quote != '\'' && i + 1 < text.size()) {
      words.back() += text[++i];
    } else {
      words.back() += c;
    }
  }
  if (quote != 0)
    return invalid_argument(
        cat("--on-event: expected a second ", std::string(1, quote), ", received '", text, "'"));
  if (words.empty() || words[0].empty())
    return invalid_argument("--on-event: expected a program, received none");
  return words;
}

Result<std::unique_ptr<EventProgram>> EventProgram::start(const std::string& command,
                                                          Limits limits) {
  std::vector<std::string> words{command};
  // A file of that very name is meant before its words.
  if (command.empty() || ::access(command.c_str(), X_OK) != 0) {
    LEAT_ASSIGN_OR_RETURN(words, split_command(command));
  }
  auto pipe = open_pipe();
  if (!pipe.ok()) return Status(pipe.status().code(), "--on-event: " + pipe.status().message());
  const auto pid = spawn_program(words, {pipe->read.get(), STDERR_FILENO, STDERR_FILENO},
                                 /*own_group=*/true);
  if (!pid.ok())
    return failed_precondition(
        cat("--on-event: expected a program, '", words[0], "': ", pid.status().message()));
  ::fcntl(pipe->write.get(), F_SETFL, O_NONBLOCK);
  return std::unique_ptr<EventProgram>(
      new EventProgram(words[0], limits, *pid, pipe->write.release()));
}

EventProgram::EventProgram(std::string name, Limits limits, pid_t pid, int pipe)
    : name_(std::move(name)), limits_(limits), pid_(pid), pipe_(pipe) {
  writer_ = std::thread([this] { write_lines(); });
}

EventProgram::~EventProgram() { (void)finish(); }

void EventProgram::send(std::string line) {
  const std::lock_guard lock(mutex_);
  if (closing_) return;
  if (pipe_ < 0 || queue_.size() >= limits_.lines) {
    ++dropped_;
    return;
  }
  queue_.push_back(std::move(line));
  changed_.notify_all();
}

// The thread of the writer.
void EventProgram::write_lines() {
  const NoBrokenPipeSignal no_signal;
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return !queue_.empty() || closing_ || abandoned_; });
    if (queue_.empty() || abandoned_) break;
    const std::string line = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    const bool written = write_line(line);
    lock.lock();
    if (written) continue;
    ++dropped_;
    break;
  }
  dropped_ += queue_.size();
  queue_.clear();
  ::close(std::exchange(pipe_, -1));
}

// False if the program reads no more, or if the writer is to end.
bool EventProgram::write_line(const std::string& line) {
  size_t done = 0;
  while (done < line.size()) {
    const ssize_t n = ::write(pipe_, line.data() + done, line.size() - done);
    if (n >= 0) {
      done += static_cast<size_t>(n);
      continue;
    }
    if (errno != EAGAIN && errno != EINTR) return false;
    pollfd room{pipe_, POLLOUT, 0};
    (void)::poll(&room, 1, static_cast<int>(kWriterPoll.count()));
    const std::lock_guard lock(mutex_);
    if (abandoned_) return false;
  }
  return true;
}

const std::string& EventProgram::finish() {
  if (std::exchange(finished_, true)) return report_;
  const auto until = Steady::now() + limits_.end;
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    changed_.notify_all();
  }
  // The writer goes on meanwhile, and closes the pipe behind the last line.
  std::optional<int> end = await_end(pid_, until);
  const bool in_time = end.has_value();
  {
    const std::lock_guard lock(mutex_);
    abandoned_ = true;
    changed_.notify_all();
  }
  writer_.join();
  if (!in_time) {
    ::kill(pid_, SIGTERM);
    end = await_end(pid_, Steady::now() + limits_.kill);
    if (!end) {
      ::kill(pid_, SIGKILL);
      end = await_end(pid_, Steady::now() + limits_.kill);
    }
  }
  std::vector<std::string> texts;
  if (!in_time)
    texts.push_back(cat("it had not ended ", limits_.end.count(), " ms after the last event"));
  if (end && *end != 0)
    texts.push_back(cat(text_of_end(*end), WIFSIGNALED(*end) ? " ended it" : ""));
  if (dropped_ > 0)
    texts.push_back(cat(counted(static_cast<int64_t>(dropped_), "event"), " dropped"));
  if (!texts.empty()) report_ = cat("--on-event '", name_, "': ", join(texts, "; "));
  return report_;
}

void print_end(EventProgram* program) {
  if (program == nullptr) return;
  const std::string& report = program->finish();
  if (!report.empty()) std::cerr << printable(report) << "\n";
}

}  // namespace leat
