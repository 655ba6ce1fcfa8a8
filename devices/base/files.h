// The file system, as much of it as the runtime needs, as an interface: a test can put a full disk,
// a lost fsync or a crash between any two steps.
//
// Errors name the path and quote the system. Their codes:
//   resource_exhausted   a full disk, a quota, or no more descriptors
//   invalid_argument     a path that can never work
//   failed_precondition  a path that is missing, forbidden or in the way
//   unavailable          an I/O error
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

// The contents of a file in memory.
using Bytes = std::vector<std::byte>;

// Takes the bytes of a file piece by piece, in order. Their writer stops at the first error.
using TakeBytes = std::function<Status(std::span<const std::byte>)>;

// A reader's plan for bytes of a file.
enum class ReadAdvice : uint8_t {
  will_need,  // it reads the bytes soon
  done_with,  // it does not read them for a long time
};

// A regular file that is open for reading. Its destructor closes it. Reads move no position.
// Threads: any.
class ReadableFile {
 public:
  virtual ~ReadableFile() = default;
  virtual const std::string& path() const = 0;
  // In bytes, as it was when the file was opened.
  virtual uint64_t size() const = 0;
  // Fills all of `out` with the bytes from `offset` on. Fails if the file ends before.
  virtual Status read(uint64_t offset, std::span<std::byte> out) const = 0;
  // Advice, which changes no result. With `will_need` the file begins to bring the bytes to where
  // read() finds them, and may block until they are there. With `done_with` the system need not
  // keep them in memory. Bytes behind the end are none. The base class ignores it.
  virtual void advise(uint64_t offset, uint64_t size, ReadAdvice advice) const;
};

// A file that is open for writing at its end. Its destructor closes it, and then nothing is
// promised about bytes for which sync() and close() did not return ok.
// Threads: one at a time, but append() may run while another thread is in sync().
class WritableFile {
 public:
  virtual ~WritableFile() = default;
  // Writes all of `bytes`. After an error the file has none of them, if the system let it be cut
  // again; on a disk that was full the caller may then try the same bytes later.
  virtual Status append(std::span<const std::byte> bytes) = 0;
  // Returns when the bytes that were appended before the call are on the disk. After a failure the
  // state of the file is unknown, and the caller writes a new one.
  virtual Status sync() = 0;
  // Closes the file before the destructor does, to learn of an error. Not called twice.
  virtual Status close() = 0;
};

// The operations on paths. The real one has no state, and every other one says what it owns.
// Threads: any.
class Files {
 public:
  virtual ~Files() = default;
  // Opens a regular file and refuses everything else: a pipe would block, a device has no size.
  virtual Result<std::unique_ptr<ReadableFile>> open(const std::string& path) = 0;
  // Makes a new, empty file. Fails if the path exists.
  virtual Result<std::unique_ptr<WritableFile>> create(const std::string& path) = 0;
  // Opens the file at `path`, which has `size` bytes, to write behind them. Any error may mean that
  // the disk cannot do this, and the caller writes a new file then. The base class answers
  // unimplemented.
  virtual Result<std::unique_ptr<WritableFile>> append_to(const std::string& path, uint64_t size);
  // Gives the file a new name, at once. A file at `to` is replaced.
  virtual Status rename(const std::string& from, const std::string& to) = 0;
  // Makes `to`, which must not exist, a second name of the file. If `from` is a symbolic link, the
  // file is the last of its chain. Any error may mean that the two paths cannot share a file, for
  // instance on two disks, and the caller makes a copy then. The base class answers unimplemented.
  virtual Status link(const std::string& from, const std::string& to);
  // Removes a file or an empty folder. Fails if there is none.
  virtual Status remove(const std::string& path) = 0;
  // Exchanges two existing paths at once, so that no moment has only one of them.
  virtual Status exchange(const std::string& a, const std::string& b) = 0;
  // Removes a file, or a folder with everything in it. Ok if there is none.
  virtual Status remove_all(const std::string& path) = 0;
  // Makes the names in the folder survive a loss of power: files created, renamed and removed
  // before.
  virtual Status sync_directory(const std::string& path) = 0;
  // Makes a folder and its parents. Ok if it exists. New folders survive a loss of power.
  virtual Status make_directories(const std::string& path) = 0;
  // The names in the folder, sorted, without "." and "..".
  virtual Result<std::vector<std::string>> list(const std::string& path) = 0;
  // Whether anything has this path. A path that cannot be looked up is an error, not "no".
  virtual Result<bool> exists(const std::string& path) = 0;
};

// The file system of the operating system. It has no state, so that one object serves all.
Files& real_files();

// Reads the whole file. A file larger than `limit` bytes is resource_exhausted, before any memory
// is allocated for it.
Result<Bytes> read_file(Files& files, const std::string& path, uint64_t limit);

// Reads the whole file from its beginning and gives it to `take` in pieces of at most 1 MiB. Ends
// with the first error of either.
Status read_in_pieces(const ReadableFile& file, const TakeBytes& take);

// Replaces the contents of `path` so that every reader sees either the old bytes or all new ones,
// also after a crash. The pieces are written one after the other to a temporary file beside it; the
// file is synced and renamed over `path`, and the folder is synced. With `fill` the pieces are
// those that it passes on, and its own errors are returned as they are. failed_precondition if the
// folder does not exist.
//
// After a failure the temporary file is removed and `path` is as it was, except after a failure of
// the last sync, when `path` has the new bytes. A killed process may leave `path`.*.tmp behind.
Status write_file_atomically(Files& files, const std::string& path,
                             std::span<const std::span<const std::byte>> pieces);
Status write_file_atomically(Files& files, const std::string& path,
                             std::span<const std::byte> bytes);
Status write_file_atomically(Files& files, const std::string& path,
                             const std::function<Status(const TakeBytes&)>& fill);

// "a/b" of "a/b/c"; "." of "c"; "/" of "/c".
std::string directory_of(const std::string& path);

}  // namespace leat
