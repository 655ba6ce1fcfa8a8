// A program of the user that gets the events of a job, one JSON object on each line of its stdin:
// the callbacks of `leat train`, `leat submit` and `leat show`. It runs on the machine of the
// command, and no daemon knows of it.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "devices/base/status.h"

namespace leat {

// Splits a command into a program and its arguments at spaces. Quotes of both kinds keep spaces
// together, and a backslash takes the next character as it is, but not within single quotes. There
// is no shell: nothing else has a meaning. invalid_argument for an open quote, and for no word.
Result<std::vector<std::string>> split_command(std::string_view text);

// Owns the process. The caller never waits for the program: lines go through a queue, and are
// dropped and counted when it is full or the program reads no more. finish() waits, but not longer
// than its deadline. The program has a process group of its own, so that Ctrl-C ends it only by the
// end of its stdin. Its stdout is the command's stderr, since stdout is for data.
//
// Threads: one, and one of its own that writes.
class EventProgram {
 public:
  struct Limits {
    size_t lines = 1000;                   // in the queue
    std::chrono::milliseconds end{5000};   // from finish() to the end of the program
    std::chrono::milliseconds kill{1000};  // after that, from SIGTERM to SIGKILL
  };

  // Starts the program: `command` is the path of a file, or words as split_command() takes them.
  // invalid_argument if they are none; failed_precondition if there is no such program.
  static Result<std::unique_ptr<EventProgram>> start(const std::string& command, Limits limits);
  static Result<std::unique_ptr<EventProgram>> start(const std::string& command) {
    return start(command, Limits());
  }
  // As finish().
  ~EventProgram();
  EventProgram(const EventProgram&) = delete;
  EventProgram& operator=(const EventProgram&) = delete;

  // Queues a line, which ends with '\n'. Never blocks.
  void send(std::string line);
  // Closes the program's stdin once it has read what is queued, and waits for its end. A program
  // that has not ended in time is ended by signals. Returns the report for people: "" if the
  // program ended with exit code 0 and no line was dropped. Later calls return the same.
  const std::string& finish();

 private:
  EventProgram(std::string name, Limits limits, pid_t pid, int pipe);
  void write_lines();
  bool write_line(const std::string& line);

  const std::string name_;
  const Limits limits_;
  const pid_t pid_;
  std::string report_;
  bool finished_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> queue_;
  uint64_t dropped_ = 0;
  bool closing_ = false;    // no line follows those of the queue
  bool abandoned_ = false;  // the writer is to end at once
  int pipe_;                // -1: closed
  std::thread writer_;      // last: it uses the rest
};

// Ends the program, if there is one, and prints its report to stderr if there is one. The program
// has no part in the exit code of the command.
void print_end(EventProgram* program);

}  // namespace leat
