// Appends lines to a file for a thread that must not wait for the disk.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "devices/base/files.h"
#include "devices/base/status.h"

namespace leat {

// Lines are buffered, then handed to the operating system, then synced. While the disk is full, up
// to 64 MiB of lines are kept for later.
//
// Threads: one, and another one may call sync() meanwhile.
class LogWriter {
 public:
  // `file`: open at its end. `folder`: of the file. `files` outlives the writer.
  LogWriter(Files& files, std::string folder, std::unique_ptr<WritableFile> file)
      : files_(files), folder_(std::move(folder)), file_(std::move(file)) {}

  // Buffers a line. The file gets it with flush() or sync(). Returns the bytes in the buffer.
  size_t add(std::string_view line);
  // Hands the buffered lines to the operating system. Leaves them in the buffer if the disk is
  // full, or if sync() is handing lines over right now.
  Status flush();
  // The same, but waits for a sync() that is handing lines over.
  Status write_through();
  // Returns when all lines are on the disk; resource_exhausted while it has no room for them. A
  // sync of the file that fails is not tried again: all later calls return unavailable.
  Status sync();

  // The lines that the file may lack, oldest first.
  std::string unwritten();
  // Lines wait for room on the disk.
  bool is_behind() const { return behind_; }

 private:
  Status hand_over();
  Status write();

  Files& files_;
  const std::string folder_;
  const std::unique_ptr<WritableFile> file_;
  std::mutex buffering_;
  std::string buffer_;   // new lines
  std::mutex writing_;   // locked before buffering_
  std::string pending_;  // older lines
  std::atomic<bool> behind_ = false;
  Status broken_;
  std::mutex syncing_;  // locked before the other two
  bool named_ = false;  // the file's name survives a loss of power
};

}  // namespace leat
