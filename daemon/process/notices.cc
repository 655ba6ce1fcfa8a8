#include "daemon/process/notices.h"

#include <unistd.h>

#include <cerrno>
#include <utility>

#include "daemon/base/json_line.h"
#include "devices/base/text.h"
#include "transport/io/descriptor.h"

namespace leat {
namespace {

// Makes one line of any text: a newline would begin another assignment for systemd.
std::string status_line(std::string_view text) {
  std::string line = "STATUS=";
  for (const char c : text) line += c == '\n' ? ' ' : c;
  return line;
}

// The line for --ready-fd, without the ports that the daemon does not have.
std::string ready_line(const ReadyAddresses& addresses) {
  JsonLine line;
  if (!addresses.listen.empty()) line.add("listen", addresses.listen);
  if (!addresses.http.empty()) line.add("http", addresses.http);
  if (!addresses.data.empty()) line.add("data", addresses.data);
  return line.add("pid", int64_t{::getpid()}).text();
}

// The caller logs the failure: a reader that has closed its end is no reason to end the daemon.
Status write_line(int fd, std::string_view line) {
  while (!line.empty()) {
    const ssize_t written = ::write(fd, line.data(), line.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return system_error(cat("the descriptor ", fd, " of --ready-fd"), errno);
    line.remove_prefix(static_cast<size_t>(written));
  }
  return {};
}

}  // namespace

Notices::Notices(std::function<void(const std::string&)> send, int ready_fd, Logger log)
    : send_(std::move(send)), log_(std::move(log)), ready_fd_(ready_fd) {}

Notices::~Notices() {
  if (ready_fd_ >= 0) ::close(ready_fd_);
}

void Notices::ready(std::string_view status, const ReadyAddresses& addresses) {
  int fd = -1;
  {
    const std::lock_guard lock(mutex_);
    ready_ = true;
    status_ = status;
    // Taken under the lock, so that exactly one owner closes it.
    fd = std::exchange(ready_fd_, -1);
  }
  // systemd hears it first, because the reader of the descriptor may take a long time to read.
  send_("READY=1\n" + status_line(status));
  if (fd < 0) return;
  const Status written = write_line(fd, ready_line(addresses));
  if (!written.ok()) log_.warning(written.message());
  ::close(fd);
}

void Notices::status(std::string_view text) {
  {
    const std::lock_guard lock(mutex_);
    status_ = text;
  }
  send_(status_line(text));
}

void Notices::stopping(std::string_view waits_for) {
  {
    const std::lock_guard lock(mutex_);
    waits_for_ = waits_for;
  }
  send_(status_line(cat("stopping, waits for: ", waits_for)));
}

void Notices::gave_up() { send_(status_line(cat("gave up to stop; waited for: ", waits_for()))); }

std::string Notices::waits_for() const {
  const std::lock_guard lock(mutex_);
  return waits_for_.empty() ? "nothing that it named" : waits_for_;
}

bool Notices::is_ready() const {
  const std::lock_guard lock(mutex_);
  return ready_;
}

std::string Notices::describe() const {
  const std::lock_guard lock(mutex_);
  // For the log at SIGUSR1.
  std::string text;
  if (!status_.empty()) text += cat("status: ", status_, "\n");
  if (!waits_for_.empty()) text += cat("stopping, waits for: ", waits_for_, "\n");
  return text;
}

}  // namespace leat
