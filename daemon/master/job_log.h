// A job's log as a file: what its runners wrote on stderr, and what the master did with it.
//
//   2025-01-31T12:00:00.123Z worker-1 text
//
// Lines are numbered from 0, and keep their numbers. When the file is full, the log drops its older
// half and puts one line in its place that says so, under the number of the last dropped line. The
// log is for people: it is not synced.
#pragma once

#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "daemon/status/status_source.h"
#include "devices/base/status.h"

namespace leat {

// Threads: any; a call waits for the calls of others, which read or write a file.
class JobLog {
 public:
  JobLog(std::string path, uint64_t max_bytes) : path_(std::move(path)), max_bytes_(max_bytes) {}
  ~JobLog();
  JobLog(const JobLog&) = delete;
  JobLog& operator=(const JobLog&) = delete;

  // Makes the file and its folder, if need be. A text of several lines becomes several lines.
  Status append(std::span<const LogLine> lines);
  // At most `most` lines and about 256 KiB, from the first that is kept and not before `from`. A
  // log to which nothing was written is empty.
  Result<LogPage> page(uint64_t from, size_t most);
  // One past the newest line.
  Result<uint64_t> end();
  // Closes the file; the next call that needs it opens it again.
  void close();

 private:
  Status open(bool make);
  Status index();  // all of the file
  void index_bytes(std::string_view bytes);
  Status write(std::string_view bytes);
  Status drop_older_half();
  Result<std::string> read(uint64_t offset, uint64_t size) const;

  const std::string path_;
  const uint64_t max_bytes_;
  std::mutex mutex_;
  int fd_ = -1;
  bool indexed_ = false;
  bool torn_ = false;   // the last line has no end
  uint64_t first_ = 0;  // the number of the first line in the file
  uint64_t lines_ = 0;
  uint64_t size_ = 0;
  std::vector<uint64_t> offsets_;  // of each 64th line
};

}  // namespace leat
