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

// MetricsLog owns it. A line goes through three places: a buffer in memory, which survives nothing;
// the operating system, which survives the end of this process; the disk, which survives a loss of
// power.
// Lines are buffered, then handed to the operating system, then synced. While the disk is full, up
// to 64 MiB of lines are kept for later.
//
// Threads: one, and another one may call sync() meanwhile.
class LogWriter {
 public:
  // `file`: open at its end. `folder`: of the file. `files` outlives the writer.
  LogWriter(Files& files, std::string folder, std::unique_ptr<WritableFile> file)
      : files_(files), folder_(std::move(folder)), file_(std::move(file)) {}

  // Buffers a line. The file gets it with flush() or sync(). Returns the bytes in the buffer. Never
  // waits for the disk. `line` ends with '\n'.
  size_t add(std::string_view line);
  // Hands the buffered lines to the operating system. Leaves them in the buffer if the disk is
  // full, or if sync() is handing lines over right now. Ok while lines wait for room;
  // resource_exhausted when more than 64 MiB do. Other errors are those of the file. Does not wait
  // for a sync().
  Status flush();
  // The same, but waits for a sync() that is handing lines over.
  Status write_through();
  // Returns when all lines are on the disk; resource_exhausted while it has no room for them. A
  // sync of the file that fails is not tried again: all later calls return unavailable.
  Status sync();

  // The lines that the file may lack, oldest first. Waits for a write in progress.
  std::string unwritten();
  // Lines wait for room on the disk. The last write found no room.
  bool is_behind() const { return behind_; }

 private:
  // As write(), but ok while the lines can wait for room. REQUIRES: writing_ is held.
  Status hand_over();
  // Appends all lines to the file. REQUIRES: writing_ is held.
  Status write();

  Files& files_;
  const std::string folder_;
  const std::unique_ptr<WritableFile> file_;
  std::mutex buffering_;
  std::string buffer_;   // new lines
  std::mutex writing_;   // locked before buffering_
  std::string pending_;  // older lines
  std::atomic<bool> behind_ = false;
  // The error of a sync that failed; the file is not used any more.
  Status broken_;
  std::mutex syncing_;  // locked before the other two
  bool named_ = false;  // the file's name survives a loss of power
};

}  // namespace leat
