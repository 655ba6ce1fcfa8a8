// The file system, as much of it as the runtime needs, behind an interface, so that a test can put
// a full disk, a lost fsync or a crash between any two steps.
//
// Errors name the path and give the system's words. Codes: resource_exhausted for a full disk, a
// quota or no more descriptors; invalid_argument for a path that can never work;
// failed_precondition for what is missing, forbidden, or in the way; unavailable for I/O errors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "devices/base/status.h"

namespace leat {

using Bytes = std::vector<std::byte>;

// A regular file open for reading. Closed when destroyed.
// Threads: any; reads do not move a position.
class ReadableFile {
 public:
  virtual ~ReadableFile() = default;
  virtual const std::string& path() const = 0;
  // Bytes, as it was when opened.
  virtual uint64_t size() const = 0;
  // Fills `out` from `offset`. Fails if the file ends before.
  virtual Status read(uint64_t offset, std::span<std::byte> out) const = 0;
};

// A file open for writing at its end. Closed when destroyed, with nothing promised unless
// sync() and close() said ok. Threads: one at a time, but that one may append() while another one
// is in sync().
class WritableFile {
 public:
  virtual ~WritableFile() = default;
  // All of `bytes`, or an error and none of them, as far as the file can be cut again: on a disk
  // that was full the same may be tried later.
  virtual Status append(std::span<const std::byte> bytes) = 0;
  // Returns when the bytes that were there when it was called are on the disk. After a failure
  // nothing is known: write a new file.
  virtual Status sync() = 0;
  virtual Status close() = 0;
};

// Threads: any.
class Files {
 public:
  virtual ~Files() = default;
  // Refuses what is not a regular file: a pipe would block, a device has no size.
  virtual Result<std::unique_ptr<ReadableFile>> open(const std::string& path) = 0;
  // Fails if the path exists.
  virtual Result<std::unique_ptr<WritableFile>> create(const std::string& path) = 0;
  // The file at `path`, which has `size` bytes. Any error may mean that the disk cannot do that,
  // and a new file would do.
  virtual Result<std::unique_ptr<WritableFile>> append_to(const std::string& path, uint64_t size);
  // Replaces `to` at once, if it exists.
  virtual Status rename(const std::string& from, const std::string& to) = 0;
  // `to`, which must not be there, is a second name of the file then, the last of a chain if `from`
  // is a symbolic link. Any error may mean that the two cannot share a file, and a copy would do:
  // another disk, or one that knows no such thing.
  virtual Status link(const std::string& from, const std::string& to);
  virtual Status remove(const std::string& path) = 0;
  // What is at either path is at the other one then, at once. Both exist.
  virtual Status exchange(const std::string& a, const std::string& b) = 0;
  // A folder with all that is in it, or a file. Ok if there is none.
  virtual Status remove_all(const std::string& path) = 0;
  // Makes names in the directory (creations, renames, removals) survive a loss of power.
  virtual Status sync_directory(const std::string& path) = 0;
  // With its parents; ok if it is there already. What it makes survives a loss of power.
  virtual Status make_directories(const std::string& path) = 0;
  // The names in the directory, sorted, without "." and "..".
  virtual Result<std::vector<std::string>> list(const std::string& path) = 0;
  virtual Result<bool> exists(const std::string& path) = 0;
};

// The operating system's. It has no state: one object serves everybody.
Files& real_files();

// The whole file. resource_exhausted if it is larger than `limit` bytes; nothing is allocated then.
Result<Bytes> read_file(Files& files, const std::string& path, uint64_t limit);

// All of the file from its beginning, a piece of at most 1 MiB at a time, until `take` fails.
Status read_in_pieces(const ReadableFile& file,
                      const std::function<Status(std::span<const std::byte>)>& take);

// Whoever opens `path` sees the old bytes or all of the new ones, also after a crash: the pieces
// go, one after the other, into a temporary file beside it, which is synced, renamed over it, and
// the directory synced. On failure the temporary file is removed and `path` is as it was (but for a
// failure of the last sync, after which it has the new bytes). A killed process may leave
// `path`.*.tmp.
Status write_file_atomically(Files& files, const std::string& path,
                             std::span<const std::span<const std::byte>> pieces);
Status write_file_atomically(Files& files, const std::string& path,
                             std::span<const std::byte> bytes);

// "a/b" of "a/b/c"; "." of "c"; "/" of "/c".
std::string directory_of(const std::string& path);

// True for the two first bytes of a gzip file.
bool is_gzip(std::span<const std::byte> bytes);

// The decompressed bytes of a gzip file of one or more members, CRC and length checked.
// resource_exhausted past `limit` bytes of output. `subject` begins the messages: the file's name.
Result<Bytes> gunzip(std::span<const std::byte> bytes, uint64_t limit, std::string_view subject);

// The whole file, decompressed if it is a gzip file; `limit` is on what comes out.
Result<Bytes> read_maybe_gzip(Files& files, const std::string& path, uint64_t limit);

// How a file begins: its header, without reading all of it.
struct FileStart {
  Bytes bytes;                   // decompressed if it is a gzip file
  std::optional<uint64_t> size;  // of the whole file, if that is known: it is not compressed
};
// The first `size` bytes, or all if there are fewer.
Result<FileStart> read_start(Files& files, const std::string& path, uint64_t size);

}  // namespace leat
