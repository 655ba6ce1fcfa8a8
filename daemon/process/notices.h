// The messages by which a daemon reports its state to systemd and to the process that started it.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <string_view>

#include "devices/base/log.h"

namespace leat {

// The addresses of a daemon that is ready; an empty one means that it has no such port.
struct ReadyAddresses {
  std::string listen;
  std::string http;
  std::string data;
};

// Lifetime owns it. ready() may wait for the reader of `ready_fd`, so it notifies systemd first.
// Sends the messages and remembers the last ones. Threads: any.
class Notices {
 public:
  // `send` takes a message in the form of sd_notify(): "READY=1\nSTATUS=...". ready() writes one
  // line to `ready_fd` and closes it; -1: there is none.
  Notices(std::function<void(const std::string&)> send, int ready_fd, Logger log);
  // Closes `ready_fd` if ready() was not called.
  ~Notices();
  Notices(const Notices&) = delete;
  Notices& operator=(const Notices&) = delete;

  // Sends the message as it is.
  void send(const std::string& message) const { send_(message); }
  // Reports that the daemon works. Also writes the addresses to `ready_fd`, as one line of JSON. A
  // reader that has closed its end is logged and no error. Newlines in `status` become spaces.
  void ready(std::string_view status, const ReadyAddresses& addresses);
  // Reports a new status line.
  void status(std::string_view text);
  // Reports what the stop waits for.
  void stopping(std::string_view waits_for);
  // Reports that the stop took too long and is forced.
  void gave_up();

  // True once ready() was called.
  bool is_ready() const;
  // Returns the last text that stopping() received. "nothing that it named" if it was never called.
  std::string waits_for() const;
  // Returns the status and the text of stopping(), one line for each that is set. "" before the
  // first status. The dump of SIGUSR1 contains it.
  std::string describe() const;

 private:
  const std::function<void(const std::string&)> send_;
  const Logger log_;
  mutable std::mutex mutex_;
  int ready_fd_;
  std::string status_, waits_for_;
  bool ready_ = false;
};

}  // namespace leat
