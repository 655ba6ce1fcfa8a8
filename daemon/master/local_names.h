// The names by which the master knows users of its machine: the first one that each number had.
// Jobs and request ids belong to a name, so a user has to keep it when its account comes, goes or
// changes its name.
#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "devices/base/files.h"
#include "devices/base/log.h"
#include "devices/base/status.h"

namespace leat {

// A file of lines such as "1004 ann". Threads: any.
class LocalNames {
 public:
  // Reads the file, if there is one. invalid_argument, with its line, if it has another form.
  // `files` outlives it.
  static Result<std::unique_ptr<LocalNames>> open(Files& files, std::string path, Logger log);

  // The name of the user. If it has none yet it gets `account`, its name in the accounts of the
  // machine, or one with its number if another user has that. Writes a new name into the file;
  // while the disk fails, the name is in memory alone, and the next call tries again. Unless it
  // `is_certain` what the accounts have, a user gets no name for good: they may tell another one
  // soon. Blocks on the disk.
  std::string name_of(uid_t user, const std::string& account, bool is_certain = true);

 private:
  LocalNames(Files& files, std::string path, Logger log)
      : files_(files), path_(std::move(path)), log_(std::move(log)) {}
  Status read(const std::string& text);
  // REQUIRES: mutex_.
  void write();

  Files& files_;
  const std::string path_;
  const Logger log_;
  std::mutex mutex_;
  std::map<uid_t, std::string> names_;
  std::set<std::string> taken_;
  bool written_ = true;
};

}  // namespace leat
