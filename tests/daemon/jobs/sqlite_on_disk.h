// SQLite on a disk in memory. While an object of this class lives, SQLite opens databases on the
// mounted disk, whose power can fail between any two writes.
//
// It treats the disk as SQLite's own layer for Unix does (os_unix.c): the first sync of a log or of
// a rollback journal that it made also syncs the directory. Sectors have 4 KiB, and a write damages
// nothing outside its range (SQLITE_IOCAP_POWERSAFE_OVERWRITE). There is no shared memory, so a
// database with a write-ahead log must be opened with locking_mode=EXCLUSIVE.
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

  // Mounts a disk. The seed is for SQLite's random numbers: the salts of its logs.
  void mount(CrashFiles& disk, uint64_t seed);

  // Called before every change and sync. Returns 0, or the SQLite code with which it must fail.
  std::function<int()> fault;
  // Steps that a mutation of the software omits.
  struct Omits {
    bool log_syncs = false;        // of the write-ahead log
    bool database_syncs = false;   // of the database and its rollback journal
    bool directory_syncs = false;  // of the directory, once a log was made
    std::string synchronous = {};  // PRAGMA synchronous, whatever is asked for
  } omits;

 private:
  struct Layer;
  std::unique_ptr<Layer> layer_;
};

}  // namespace leat
