// The disk with the folders of the jobs: a CrashFiles that can be full or fail. A mutation omits a
// step that makes checkpoints safe.
//
// Threads: one.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "daemon/checkpoint/manifest.h"
#include "tests/daemon/checkpoint/crash_files.h"
#include "tests/daemon/sim/cluster.h"

namespace leat::sim {

// The state of all disks.
struct DiskHealth {
  bool full = false;     // no new byte fits
  bool failing = false;  // syncs fail
  Ms slow = 0;           // the extra time of a write
};

// Forwards to `files`. The arguments outlive this object. A test may replace the disk in `files`
// between two writes.
class SimDisk final : public Files {
 public:
  SimDisk(std::unique_ptr<CrashFiles>& files, const DiskHealth& health, Mutation mutation)
      : files_(files), health_(health), mutation_(mutation) {}

  Result<std::unique_ptr<ReadableFile>> open(const std::string& path) override {
    return disk().open(path);
  }
  Result<std::unique_ptr<WritableFile>> create(const std::string& path) override {
    LEAT_RETURN_IF_ERROR(has_room());
    LEAT_ASSIGN_OR_RETURN(auto file, disk().create(path));
    const bool manifest = path.ends_with(kManifestName);
    const bool syncs =
        mutation_ != (manifest ? Mutation::manifest_unsynced : Mutation::part_unsynced);
    return std::unique_ptr<WritableFile>(std::make_unique<File>(*this, std::move(file), syncs));
  }
  Status rename(const std::string& from, const std::string& to) override {
    if (mutation_ != Mutation::not_renamed) return disk().rename(from, to);
    LEAT_RETURN_IF_ERROR(disk().make_directories(to));
    LEAT_ASSIGN_OR_RETURN(const auto names, disk().list(from));
    for (const std::string& name : names)
      LEAT_RETURN_IF_ERROR(disk().rename(from + "/" + name, to + "/" + name));
    return disk().remove(from);
  }
  Status remove(const std::string& path) override { return disk().remove(path); }
  Status exchange(const std::string& a, const std::string& b) override {
    return disk().exchange(a, b);
  }
  Status remove_all(const std::string& path) override { return disk().remove_all(path); }
  Status sync_directory(const std::string& path) override {
    LEAT_RETURN_IF_ERROR(syncs());
    const bool above = path.ends_with("/checkpoints");
    return above && mutation_ == Mutation::folder_unsynced ? Status() : disk().sync_directory(path);
  }
  Status make_directories(const std::string& path) override {
    LEAT_RETURN_IF_ERROR(has_room());
    return disk().make_directories(path);
  }
  Result<std::vector<std::string>> list(const std::string& path) override {
    return disk().list(path);
  }
  Result<bool> exists(const std::string& path) override { return disk().exists(path); }

 private:
  class File final : public WritableFile {
   public:
    File(SimDisk& disk, std::unique_ptr<WritableFile> file, bool syncs)
        : disk_(disk), file_(std::move(file)), syncs_(syncs) {}
    Status append(std::span<const std::byte> bytes) override {
      LEAT_RETURN_IF_ERROR(disk_.has_room());
      return file_->append(bytes);
    }
    Status sync() override {
      LEAT_RETURN_IF_ERROR(disk_.syncs());
      return syncs_ ? file_->sync() : Status();
    }
    Status close() override { return file_->close(); }

   private:
    SimDisk& disk_;
    std::unique_ptr<WritableFile> file_;
    const bool syncs_;
  };

  CrashFiles& disk() { return *files_; }
  Status has_room() const {
    return health_.full ? resource_exhausted("no space left on device") : Status();
  }
  Status syncs() const { return health_.failing ? unavailable("input/output error") : Status(); }

  std::unique_ptr<CrashFiles>& files_;
  const DiskHealth& health_;
  const Mutation mutation_;
};

}  // namespace leat::sim
