// The messages by which a daemon tells systemd, and the process that started it, how it is.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <string_view>

#include "devices/base/log.h"

namespace leat {

// Where a daemon that is ready can be reached; empty: it has no such port.
struct ReadyAddresses {
  std::string listen;
  std::string http;
  std::string data;
};

// Threads: any.
class Notices {
 public:
  // `send` takes a message as sd_notify() does: "READY=1\nSTATUS=...". `ready_fd` is closed when
  // its line is written; -1: there is none.
  Notices(std::function<void(const std::string&)> send, int ready_fd, Logger log);
  ~Notices();
  Notices(const Notices&) = delete;
  Notices& operator=(const Notices&) = delete;

  // Sends the message as it is.
  void send(const std::string& message) const { send_(message); }
  // The daemon works. Also writes the addresses to `ready_fd`, as one line of JSON.
  void ready(std::string_view status, const ReadyAddresses& addresses);
  void status(std::string_view text);
  // The stop waits for this.
  void stopping(std::string_view waits_for);
  // The stop has taken too long, and is forced.
  void gave_up();

  bool is_ready() const;
  // The last text that stopping() was given.
  std::string waits_for() const;
  // The status, and what a stop waits for: one line each.
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
