// Files of stores behind the network: of any server that speaks HTTP, and of S3 or a store with its
// protocol. They are read by their positions like files of a disk.
//
//   https://host/data/train-000.tar      http:// likewise
//   s3://bucket/data/train-000.tar       with the variables of the environment that other tools of
//                                        S3 have, so that no job file has a secret:
//     AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN   none: requests are not signed
//     AWS_REGION, AWS_DEFAULT_REGION                                us-east-1
//     AWS_ENDPOINT_URL                                              Amazon's
//
// A file is pinned when it is opened: its size and its ETag. One that changes later is an error of
// the next read, which names it. Reads come in blocks, which a cache of bounded memory keeps; a
// reader that goes forward gets more of them at once, and one that knows what it will read has them
// brought before (ReadableFile::advise). A request that fails in a way that may pass
// is made again, after pauses that grow, until a deadline.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "devices/base/files.h"
#include "devices/base/forwarding_files.h"

namespace leat {

// True for a path that begins with http://, https:// or s3://.
bool is_store_path(std::string_view path);
// Checks the address of a store: a host or a bucket, and neither a user, which would put a password
// into job files, nor a query. invalid_argument.
Status check_store_path(const std::string& path);
// Checks a place for files: a path of a disk, or the address of a store that takes files, as S3
// alone does. invalid_argument.
Status check_writable_place(const std::string& path);

// The default of StoreOptions::patience.
inline constexpr std::chrono::milliseconds kStorePatience{30'000};

struct StoreOptions {
  uint64_t block_bytes = uint64_t{256} << 10;
  uint64_t cache_bytes = uint64_t{64} << 20;
  uint64_t most_at_once = uint64_t{8} << 20;  // bytes of one request
  std::chrono::milliseconds request{10'000};  // for one request
  std::chrono::milliseconds patience =
      kStorePatience;                    // for a read or an opening, with its repetitions
  std::chrono::milliseconds pause{100};  // before the first repetition; each is twice as long
  // Whether files may be written and removed. The stores of data are only read.
  bool writes = false;
  // Files that are written go in parts of so many bytes, which stay in memory until they are sent.
  uint64_t part_bytes = uint64_t{8} << 20;             // S3 takes none of less than 5 MiB
  std::chrono::milliseconds upload{60'000};            // for one request with a part
  std::chrono::milliseconds upload_patience{180'000};  // for a part, with its repetitions
  // Once it is true, requests end within about a second, as cancelled. Threads: any.
  std::function<bool()> stopped;  // empty: they do not
  // The value of a variable of the environment; nullopt: it is not set.
  std::function<std::optional<std::string>(const std::string&)> variable;  // empty: this process's
};

// A file system that opens such paths, and passes all other paths on to `files`, which outlives it.
// list() of S3 has the names below a prefix, and exists() is true for a prefix, too; servers of
// HTTP have no lists: unimplemented. All operations that write are failed_precondition, but for
// these of S3 with StoreOptions::writes:
//
//   create()            a file that readers see, whole, once close() is ok; it replaces one of that
//                       name. sync() is unimplemented
//   remove()            ok if there is none
//   make_directories(), sync_directory()   do nothing: S3 has no folders, and keeps what it took
//
// Codes of open() and read(): failed_precondition for a file that is missing, forbidden or has
// changed, and for a server that reads no ranges; unavailable if the store does not answer well in
// time; invalid_argument for an answer that contradicts the request.
// Threads: any.
std::unique_ptr<Files> make_store_files(Files& files, StoreOptions options);

// The same over the real files, with the default options and for reading: one for the process, so
// that all data sets share the connections and the memory of the cache.
Files& store_files();

}  // namespace leat
