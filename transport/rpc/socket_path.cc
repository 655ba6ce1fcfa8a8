#include "transport/rpc/socket_path.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "devices/base/text.h"

namespace leat {
namespace {

// A new socket gets its mode under this name beside the other one, before anybody can connect.
constexpr std::string_view kNew = ".new";

Status failed(const std::string& path, int error) {
  return unavailable(cat("cannot listen on unix:", path, ": ", std::strerror(error)));
}

// REQUIRES: the path is short enough.
sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size());
  return address;
}

int new_socket() { return ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0); }

bool bind_to(int descriptor, const std::string& path) {
  const sockaddr_un address = address_of(path);
  return ::bind(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

// Sets the mode of a socket that this process has just made, and of nothing that another user may
// have put in its place.
bool set_mode(const std::string& path, mode_t mode) {
  const int file = ::open(path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC);
  if (file < 0) return false;
  struct stat there {};
  bool done = ::fstat(file, &there) == 0 && S_ISSOCK(there.st_mode) && there.st_uid == ::geteuid();
  if (!done) errno = EEXIST;
  done = done && ::chmod(cat("/proc/self/fd/", file).c_str(), mode) == 0;
  const int error = errno;
  ::close(file);
  errno = error;
  return done;
}

// Ok if there is nothing at `path`, or a socket where no process listens any more.
Status check_free(const std::string& path) {
  struct stat there {};
  if (::lstat(path.c_str(), &there) != 0) return errno == ENOENT ? Status() : failed(path, errno);
  if (!S_ISSOCK(there.st_mode)) {
    return failed_precondition(
        cat("unix:", path, ": expected nothing, or a socket; there is another kind of file"));
  }
  const int probe = new_socket();
  if (probe < 0) return failed(path, errno);
  const sockaddr_un address = address_of(path);
  const bool answers =
      ::connect(probe, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  const int error = errno;
  ::close(probe);
  // A listener whose queue is full is one that lives, too.
  if (answers || error == EAGAIN) {
    return failed_precondition(
        cat("unix:", path, ": expected a path of its own, another process listens there"));
  }
  return error == ECONNREFUSED ? Status() : failed(path, error);
}

}  // namespace

std::string closed_folder_of(const std::string& path) {
  for (size_t slash = path.find('/', 1); slash != std::string::npos;
       slash = path.find('/', slash + 1)) {
    const std::string folder = path.substr(0, slash);
    struct stat there {};
    if (::stat(folder.c_str(), &there) == 0 && (there.st_mode & S_IXOTH) == 0) return folder;
  }
  return "";
}

const size_t SocketPath::kLongest = sizeof(sockaddr_un::sun_path) - 1 - kNew.size();

Result<SocketPath> SocketPath::listen(const std::string& path) {
  if (path.empty() || path.front() != '/' || path.size() > kLongest) {
    return invalid_argument(cat("unix:", path, ": expected an absolute path of at most ", kLongest,
                                " bytes, received ", path.size()));
  }
  LEAT_RETURN_IF_ERROR(check_free(path));
  const std::string fresh = path + std::string(kNew);
  const int descriptor = new_socket();
  if (descriptor < 0) return failed(path, errno);
  SocketPath socket(path, descriptor);  // closes the descriptor if anything below fails
  (void)::unlink(fresh.c_str());        // left behind by a process that was killed here
  struct stat made {};
  const mode_t mode = closed_folder_of(path).empty() ? 0666 : 0600;
  // The rename replaces a socket that was left behind. Until then there is no name to connect to.
  if (!bind_to(descriptor, fresh) || !set_mode(fresh, mode) ||
      ::listen(descriptor, SOMAXCONN) != 0 || ::lstat(fresh.c_str(), &made) != 0 ||
      ::rename(fresh.c_str(), path.c_str()) != 0) {
    const int error = errno;
    (void)::unlink(fresh.c_str());
    return failed(path, error);
  }
  socket.device_ = made.st_dev;
  socket.inode_ = made.st_ino;
  return socket;
}

SocketPath::SocketPath(SocketPath&& other) noexcept
    : path_(std::exchange(other.path_, "")),
      descriptor_(std::exchange(other.descriptor_, -1)),
      device_(other.device_),
      inode_(std::exchange(other.inode_, 0)) {}

SocketPath::~SocketPath() {
  if (descriptor_ >= 0) ::close(descriptor_);
  struct stat there {};
  const bool own = inode_ != 0 && ::lstat(path_.c_str(), &there) == 0 && there.st_dev == device_ &&
                   there.st_ino == inode_;
  if (own) (void)::unlink(path_.c_str());
}

int SocketPath::take_descriptor() { return std::exchange(descriptor_, -1); }

}  // namespace leat
