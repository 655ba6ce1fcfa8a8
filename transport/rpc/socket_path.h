// A listening Unix socket with a name in a folder, for processes of this machine.
#pragma once

#include <sys/types.h>

#include <string>

#include "devices/base/status.h"

namespace leat {

// The first of the folders of an absolute path that not every user may enter; "" if there is none.
std::string closed_folder_of(const std::string& path);

// The name of a listening socket. The file goes with this object, unless another process has put
// its own there meanwhile. Movable. Threads: one at a time.
class SocketPath {
 public:
  // Listens at `path`, where every user may connect (mode 0666), or only this user and root if
  // others may not enter its folders (0600). A socket that a process left behind is replaced.
  // failed_precondition if a process listens there, or if there is another kind of file;
  // invalid_argument for a path that a socket cannot have.
  static Result<SocketPath> listen(const std::string& path);
  SocketPath(SocketPath&& other) noexcept;
  SocketPath& operator=(SocketPath&&) = delete;
  ~SocketPath();

  // Gives the descriptor, non-blocking and closed on exec, to the caller. Call it once.
  int take_descriptor();
  const std::string& path() const { return path_; }

  // The longest path that a socket can have, in bytes.
  static const size_t kLongest;

 private:
  SocketPath(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}

  std::string path_;
  int descriptor_ = -1;
  dev_t device_ = 0;  // of the file, by which this object knows it again
  ino_t inode_ = 0;
};

}  // namespace leat
