// A disk in memory that can lose its power at any moment, and shows all that may be left.
//
// What is promised is what POSIX promises, and no more. The bytes of a file are on the disk once it
// was synced; of what was written or cut off later any sectors may be there and any not, and one
// of them may be torn. A change of names (a file made, renamed, removed) is on the disk once its
// directory was synced; of the later ones any may be there and any not, in whatever order.
//
// Threads: one.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "devices/base/files.h"

namespace leat {

class CrashFiles final : public Files {
 public:
  CrashFiles();
  CrashFiles(CrashFiles&&) = default;
  // The same disk once more, with all that is not synced. What is open is of the first one.
  CrashFiles(const CrashFiles&) = default;

  // What was done so far: the power may fail after each of so many operations.
  size_t operations() const { return log_.size(); }
  // The disk after its power failed when `operations` were done. Of what may be there or not, the
  // seed decides. Nothing of it is open, and everything on it is on the disk.
  CrashFiles after_crash(size_t operations, uint64_t seed) const;
  // Whether that has a sector of which only a part was written, as disks do not leave one (they
  // write a sector or not); else all of it that was written came in whole sectors.
  static bool tears_a_sector(uint64_t seed) { return mix(seed ^ 1) % 3 == 0; }
  // SplitMix64: of one number another that looks drawn.
  static uint64_t mix(uint64_t number);

  // Flips a bit of a file. REQUIRES: the file is there and has that byte.
  void flip(const std::string& path, uint64_t byte, int bit);
  // Files, with their sizes.
  std::map<std::string, uint64_t> sizes() const;

  // Files that are written in place: a number stands for one, whatever its name is by now.
  std::optional<size_t> open_in_place(const std::string& path, bool create);
  std::span<const std::byte> bytes_in_place(size_t file) const { return nodes_[file].bytes; }
  void write_in_place(size_t file, uint64_t offset, std::span<const std::byte> bytes);
  void truncate(size_t file, uint64_t size);
  void sync_in_place(size_t file);

  Result<std::unique_ptr<ReadableFile>> open(const std::string& path) override;
  Result<std::unique_ptr<WritableFile>> create(const std::string& path) override;
  Result<std::unique_ptr<WritableFile>> append_to(const std::string& path, uint64_t size) override;
  Status rename(const std::string& from, const std::string& to) override;
  Status link(const std::string& from, const std::string& to) override;
  Status exchange(const std::string& a, const std::string& b) override;
  Status remove(const std::string& path) override;
  Status remove_all(const std::string& path) override;
  Status sync_directory(const std::string& path) override;
  Status make_directories(const std::string& path) override;
  Result<std::vector<std::string>> list(const std::string& path) override;
  Result<bool> exists(const std::string& path) override;

 private:
  class Reader;
  class Writer;
  using Node = size_t;  // its place in nodes_
  static constexpr Node kNone = ~size_t{0}, kRoot = 0;

  struct File {
    bool directory = false;
    Bytes bytes;
    std::map<std::string, Node> names;
  };
  struct Name {
    Node directory;
    std::string name;
    Node now;  // kNone: nothing
  };
  // One of: names that change at once, bytes that come to a file, its cut, a sync.
  enum class Deed { names, write, cut, sync };
  struct Operation {
    Deed deed;
    std::vector<Name> names = {};
    Node file = kNone;
    uint64_t offset = 0;  // of the bytes; of a cut the size afterwards
    Bytes bytes = {};
  };
  struct Luck;
  struct Place {
    Node directory = kNone;
    std::string name;
    Node now = kNone;
  };

  Place find(const std::string& path) const;
  Node add(File file, const Place& at);
  void change(std::vector<Name> names);
  bool is_synced(const Operation& change, size_t from, size_t to) const;
  static void apply(const Operation& operation, Bytes& bytes);
  static void apply_in_part(const Operation& operation, Luck& luck, Bytes& bytes);
  void keep_bytes(CrashFiles& left, size_t operations, uint64_t seed) const;
  void list_sizes(Node at, const std::string& path, std::map<std::string, uint64_t>& out) const;

  std::vector<File> nodes_;
  std::vector<File> base_;  // on the disk when the log began
  std::vector<Operation> log_;
};

}  // namespace leat
