// A disk in memory whose power can fail at any moment, and which shows every state that may be
// left.
//
// It promises what POSIX promises, and no more. The bytes of a file are on the disk once the file
// was synced. Of later writes and truncations, any sectors may be there or not, and one of them may
// be torn. A change of names (a file made, renamed, removed) is on the disk once its directory was
// synced. Of later changes, any may be there or not, in any order.
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

// The files of the disk, with a log of all operations on them.
class CrashFiles final : public Files {
 public:
  CrashFiles();
  CrashFiles(CrashFiles&&) = default;
  // Copies the disk with its unsynced state. Open files belong to the original.
  CrashFiles(const CrashFiles&) = default;

  // The number of operations so far. The power may fail after each of them.
  size_t operations() const { return log_.size(); }
  // Returns the disk as it is after its power failed when `operations` were done. The seed decides
  // which unsynced changes are there. No file of the result is open, and all of it is synced.
  CrashFiles after_crash(size_t operations, uint64_t seed) const;
  // Whether after_crash() with this seed leaves a partly written sector. Real disks do not: they
  // write a sector or leave it. With other seeds every sector is whole.
  static bool tears_a_sector(uint64_t seed) { return mix(seed ^ 1) % 3 == 0; }
  // SplitMix64: maps a number to one that looks random.
  static uint64_t mix(uint64_t number);

  // Flips a bit of a file. REQUIRES: the file exists and has that byte.
  void flip(const std::string& path, uint64_t byte, int bit);
  // Returns the files with their sizes.
  std::map<std::string, uint64_t> sizes() const;

  // Functions for files that are written in place. A number stands for a file, whatever its name is
  // now.
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
  using Node = size_t;  // an index into nodes_
  static constexpr Node kNone = ~size_t{0}, kRoot = 0;

  struct File {
    bool directory = false;
    Bytes bytes;
    std::map<std::string, Node> names;
  };
  struct Name {
    Node directory;
    std::string name;
    Node now;  // kNone: no node
  };
  // The kinds of operations: names that change together, bytes that are written, a truncation, a
  // sync.
  enum class Deed { names, write, cut, sync };
  struct Operation {
    Deed deed;
    std::vector<Name> names = {};
    Node file = kNone;
    uint64_t offset = 0;  // the place of the bytes; for a cut, the new size
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
  std::vector<File> base_;  // the disk when the log began
  std::vector<Operation> log_;
};

}  // namespace leat
