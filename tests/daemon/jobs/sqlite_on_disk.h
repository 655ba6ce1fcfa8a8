// SQLite on a disk in memory: while an object of this class lives, databases that are opened are on
// the disk that is mounted, whose power can fail between any two writes.
//
// It does to the disk what SQLite's own layer for Unix does (os_unix.c): a log or a rollback
// journal that it made has its directory synced with its first sync; sectors of 4 KiB, of which a
// write damages nothing that it does not write (SQLITE_IOCAP_POWERSAFE_OVERWRITE). There is no
// shared memory: a database with a write-ahead log must be opened with locking_mode=EXCLUSIVE.
//
// Threads: one. REQUIRES: every database is closed before another disk is mounted, and at the end.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "tests/daemon/checkpoint/crash_files.h"

namespace leat {

class SqliteOnDisk {
 public:
  explicit SqliteOnDisk(CrashFiles& disk);
  ~SqliteOnDisk();
  SqliteOnDisk(const SqliteOnDisk&) = delete;
  SqliteOnDisk& operator=(const SqliteOnDisk&) = delete;

  // The seed is of SQLite's random numbers: the salts of its logs.
  void mount(CrashFiles& disk, uint64_t seed);

  // Asked before every change and sync: 0, or the code of SQLite that it fails with.
  std::function<int()> fault;
  // What is wrong with the software, as a mutation of it would have it.
  struct Omits {
    bool log_syncs = false;        // of the write-ahead log
    bool database_syncs = false;   // of the database and its rollback journal
    bool directory_syncs = false;  // of the directory, once a log was made
    std::string synchronous = {};  // what PRAGMA synchronous is set to, whatever is asked for
  } omits;

 private:
  struct Layer;
  std::unique_ptr<Layer> layer_;
};

}  // namespace leat
