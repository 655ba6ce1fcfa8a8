#include "devices/base/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "devices/base/failpoint.h"
#include "devices/base/text.h"

namespace leat {
namespace {

// The system's text for an error. strerror_r has two signatures, and this works with both.
std::string words_of(int error) {
  char text[128] = "unknown error";
  struct Words {
    static const char* of(const char* words, const char*) { return words; }
    static const char* of(int, const char* buffer) { return buffer; }
  };
  return Words::of(strerror_r(error, text, sizeof text), text);
}

// The code of a system's error: no room, a path that can never work, the state of the disk, or, for
// everything else, a fault of the disk.
Code code_of(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      return Code::resource_exhausted;
    case EINVAL:
    case ENAMETOOLONG:
    case ELOOP:
      return Code::invalid_argument;
    case ENOENT:
    case ENOTDIR:
    case EISDIR:
    case EEXIST:
    case ENOTEMPTY:
    case EACCES:
    case EPERM:
    case EROFS:
    case EBUSY:
    case EXDEV:
    case ETXTBSY:
      return Code::failed_precondition;
    default:
      return Code::unavailable;
  }
}

// "'path': cannot open it: No such file or directory"
Status system_error(const std::string& path, std::string_view what, int error) {
  return Status(code_of(error), cat("'", path, "': cannot ", what, ": ", words_of(error)));
}

// Makes a call of the system again while a signal interrupts it.
template <typename Call>
auto retry_interrupted(Call&& call) {
  decltype(call()) result;
  do result = call();
  while (result < 0 && errno == EINTR);
  return result;
}

// Linux moves at most 2 GiB in a call.
constexpr size_t kCallBytes = size_t{1} << 30;

// Closes its descriptor, unless it is released. (transport/io has a class of the same name, which
// this folder cannot see.)
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

// A file of the operating system, read with pread().
class RealReadableFile final : public ReadableFile {
 public:
  RealReadableFile(std::string path, int fd, uint64_t size)
      : path_(std::move(path)), fd_(fd), size_(size) {}

  const std::string& path() const override { return path_; }
  uint64_t size() const override { return size_; }

  Status read(uint64_t offset, std::span<std::byte> out) const override {
    LEAT_RETURN_IF_ERROR(LEAT_FAILPOINT("files/read"));
    while (!out.empty()) {
      const ssize_t got = retry_interrupted([&] {
        return ::pread(fd_.get(), out.data(), std::min(out.size(), kCallBytes),
                       static_cast<off_t>(offset));
      });
      if (got < 0) return system_error(path_, cat("read at byte ", offset), errno);
      if (got == 0) {
        return failed_precondition(cat("'", path_, "': expected ", out.size(),
                                       " more bytes at byte ", offset,
                                       ", but the file ends there"));
      }
      out = out.subspan(static_cast<size_t>(got));
      offset += static_cast<uint64_t>(got);
    }
    return {};
  }

  // Linux reads no more for one call than its device takes at once, so that there is a call for
  // each piece. It leaves pages alone of which only a part is done with.
  void advise(uint64_t offset, uint64_t size, ReadAdvice advice) const override {
    constexpr uint64_t kPiece = uint64_t{128} << 10;
    const uint64_t end = offset + std::min(size, size_ - std::min(size_, offset));
    const bool needs = advice == ReadAdvice::will_need;
    while (offset < end) {
      const uint64_t piece = needs ? std::min(kPiece, end - offset) : end - offset;
      (void)::posix_fadvise(fd_.get(), static_cast<off_t>(offset), static_cast<off_t>(piece),
                            needs ? POSIX_FADV_WILLNEED : POSIX_FADV_DONTNEED);
      offset += piece;
    }
  }

 private:
  std::string path_;
  Descriptor fd_;
  uint64_t size_;
};

// A file of the operating system, written at its end.
class RealWritableFile final : public WritableFile {
 public:
  RealWritableFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

  // After an error the file is cut to the length that it had before.
  Status append(std::span<const std::byte> bytes) override {
    LEAT_RETURN_IF_ERROR(LEAT_FAILPOINT("files/append"));
    off_t written = 0;
    while (!bytes.empty()) {
      const ssize_t put = retry_interrupted(
          [&] { return ::write(fd_.get(), bytes.data(), std::min(bytes.size(), kCallBytes)); });
      if (put < 0) return take_back(written, errno);
      written += put;
      bytes = bytes.subspan(static_cast<size_t>(put));
    }
    return {};
  }

  Status sync() override {
    LEAT_RETURN_IF_ERROR(LEAT_FAILPOINT("files/sync"));
    if (::fsync(fd_.get()) != 0) return system_error(path_, "sync", errno);
    return {};
  }

  // A close that was interrupted is not tried again: Linux has closed the descriptor by then.
  Status close() override {
    if (::close(fd_.release()) != 0 && errno != EINTR) return system_error(path_, "close", errno);
    return {};
  }

 private:
  // Cuts off the bytes of an append that failed half-way, and returns its error. If that fails too,
  // the file keeps a part of them.
  Status take_back(off_t written, int error) {
    const off_t end = ::lseek(fd_.get(), -written, SEEK_CUR);
    if (written > 0 && end >= 0) (void)!::ftruncate(fd_.get(), end);
    return system_error(path_, "write", error);
  }

  std::string path_;
  Descriptor fd_;
};

class RealFiles final : public Files {
 public:
  // O_NONBLOCK, because to open a pipe that no process writes would wait for ever.
  Result<std::unique_ptr<ReadableFile>> open(const std::string& path) override {
    Descriptor fd(retry_interrupted(
        [&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK); }));
    if (fd.get() < 0) return system_error(path, "open it", errno);
    struct stat info;
    if (::fstat(fd.get(), &info) != 0) return system_error(path, "stat it", errno);
    if (!S_ISREG(info.st_mode)) {
      return failed_precondition(cat("'", path, "': expected a regular file, it is ",
                                     S_ISDIR(info.st_mode) ? "a directory" : "a special file"));
    }
    return std::unique_ptr<ReadableFile>(std::make_unique<RealReadableFile>(
        path, fd.release(), static_cast<uint64_t>(info.st_size)));
  }

  Result<std::unique_ptr<WritableFile>> create(const std::string& path) override {
    LEAT_RETURN_IF_ERROR(LEAT_FAILPOINT("files/create"));
    const int fd = retry_interrupted(
        [&] { return ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666); });
    if (fd < 0) return system_error(path, "create it", errno);
    return std::unique_ptr<WritableFile>(std::make_unique<RealWritableFile>(path, fd));
  }

  // The size is compared, because bytes behind the expected end would become part of the file.
  Result<std::unique_ptr<WritableFile>> append_to(const std::string& path, uint64_t size) override {
    Descriptor fd(retry_interrupted(
        [&] { return ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK); }));
    if (fd.get() < 0) return system_error(path, "open it", errno);
    const off_t end = ::lseek(fd.get(), 0, SEEK_END);
    if (end < 0) return system_error(path, "find its end", errno);
    if (static_cast<uint64_t>(end) != size) {
      return failed_precondition(cat("'", path, "': expected ", size, " bytes, it has ", end));
    }
    return std::unique_ptr<WritableFile>(std::make_unique<RealWritableFile>(path, fd.release()));
  }

  Status rename(const std::string& from, const std::string& to) override {
    LEAT_RETURN_IF_ERROR(LEAT_FAILPOINT("files/rename"));
    if (::rename(from.c_str(), to.c_str()) == 0) return {};
    return system_error(from, cat("rename it to '", to, "'"), errno);
  }

  // AT_SYMLINK_FOLLOW: a link to the file itself, not to a symbolic link.
  Status link(const std::string& from, const std::string& to) override {
    LEAT_RETURN_IF_ERROR(LEAT_FAILPOINT("files/link"));
    if (::linkat(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), AT_SYMLINK_FOLLOW) == 0) return {};
    return system_error(to, cat("make it a name of '", from, "', too"), errno);
  }

  Status remove(const std::string& path) override {
    if (::remove(path.c_str()) == 0) return {};
    return system_error(path, "remove it", errno);
  }

  Status exchange(const std::string& a, const std::string& b) override {
    LEAT_RETURN_IF_ERROR(LEAT_FAILPOINT("files/rename"));
    if (::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0) return {};
    return system_error(a, cat("exchange it with '", b, "'"), errno);
  }

  Status remove_all(const std::string& path) override {
    std::error_code error;
    std::filesystem::remove_all(path, error);
    if (!error) return {};
    return system_error(path, "remove it and all that is in it", error.value());
  }

  // A folder is synced as a file is: through a descriptor.
  Status sync_directory(const std::string& path) override {
    LEAT_RETURN_IF_ERROR(LEAT_FAILPOINT("files/sync_directory"));
    Descriptor fd(retry_interrupted(
        [&] { return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
    if (fd.get() < 0) return system_error(path, "open the directory", errno);
    if (::fsync(fd.get()) != 0) return system_error(path, "sync the directory", errno);
    return {};
  }

  // Makes every prefix that ends before a slash, then the whole path, and syncs the parent of each
  // new folder.
  Status make_directories(const std::string& path) override {
    for (size_t at = 0; at != std::string::npos;) {
      at = path.find('/', at + 1);
      const std::string prefix = path.substr(0, at);
      if (::mkdir(prefix.c_str(), 0777) == 0) {
        LEAT_RETURN_IF_ERROR(sync_directory(directory_of(prefix)));
      } else if (errno != EEXIST) {
        return system_error(prefix, "make the directory", errno);
      }
    }
    struct stat info;
    if (::stat(path.c_str(), &info) != 0) return system_error(path, "make the directory", errno);
    if (!S_ISDIR(info.st_mode)) return system_error(path, "make the directory", ENOTDIR);
    return {};
  }

  Result<std::vector<std::string>> list(const std::string& path) override {
    const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(path.c_str()), ::closedir);
    if (!directory) return system_error(path, "list it", errno);
    std::vector<std::string> names;
    for (;;) {
      errno = 0;
      const dirent* entry = ::readdir(directory.get());
      if (entry == nullptr) break;
      const std::string_view name = entry->d_name;
      if (name != "." && name != "..") names.emplace_back(name);
    }
    if (errno != 0) return system_error(path, "list it", errno);
    std::sort(names.begin(), names.end());
    return names;
  }

  Result<bool> exists(const std::string& path) override {
    struct stat info;
    if (::stat(path.c_str(), &info) == 0) return true;
    if (errno == ENOENT || errno == ENOTDIR) return false;
    return system_error(path, "stat it", errno);
  }
};

// The file that write_file_atomically() writes before it renames it.
struct Temporary {
  std::string path;
  std::unique_ptr<WritableFile> file;
};

// The name has the process's number and a count. A name that is taken, for instance by another
// machine on a shared disk, is passed over.
Result<Temporary> create_temporary(Files& files, const std::string& path) {
  static std::atomic<uint64_t> count{0};
  for (int attempt = 0;; ++attempt) {
    std::string name = cat(path, ".", ::getpid(), "-", count.fetch_add(1), ".tmp");
    auto file = files.create(name);
    if (file.ok()) return Temporary{std::move(name), *std::move(file)};
    const auto taken = files.exists(name);
    if (attempt == 100 || !taken.ok() || !*taken) return file.status();
  }
}

}  // namespace

// File systems that can do neither of these two keep the base class's answer.
void ReadableFile::advise(uint64_t, uint64_t, ReadAdvice) const {}

Result<std::unique_ptr<WritableFile>> Files::append_to(const std::string& path, uint64_t) {
  return unimplemented(cat("'", path, "': cannot write at its end"));
}

Status Files::link(const std::string& from, const std::string& to) {
  return unimplemented(cat("'", to, "': cannot make it a name of '", from, "', too"));
}

Files& real_files() {
  static RealFiles files;
  return files;
}

std::string directory_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

Result<Bytes> read_file(Files& files, const std::string& path, uint64_t limit) {
  LEAT_ASSIGN_OR_RETURN(auto file, files.open(path));
  if (file->size() > limit) {
    return resource_exhausted(
        cat("'", path, "': expected at most ", limit, " bytes, it has ", file->size()));
  }
  Bytes bytes(static_cast<size_t>(file->size()));
  LEAT_RETURN_IF_ERROR(file->read(0, bytes));
  return bytes;
}

Status read_in_pieces(const ReadableFile& file, const TakeBytes& take) {
  constexpr uint64_t kPiece = 1 << 20;
  Bytes piece(static_cast<size_t>(std::min(kPiece, file.size())));
  for (uint64_t offset = 0; offset < file.size(); offset += piece.size()) {
    piece.resize(static_cast<size_t>(std::min(kPiece, file.size() - offset)));
    LEAT_RETURN_IF_ERROR(file.read(offset, piece));
    LEAT_RETURN_IF_ERROR(take(piece));
  }
  return {};
}

Status write_file_atomically(Files& files, const std::string& path,
                             const std::function<Status(const TakeBytes&)>& fill) {
  const auto named = [&](const Status& status) {
    return status.while_doing(cat("writing '", path, "'"));
  };
  LEAT_ASSIGN_OR_RETURN(Temporary temporary, create_temporary(files, path));
  WritableFile& file = *temporary.file;
  // An error of `fill` may have nothing to do with this file, so it is not named.
  Status status = fill([&](std::span<const std::byte> piece) { return named(file.append(piece)); });
  if (status.ok()) status = named(file.sync());
  if (status.ok()) status = named(file.close());
  if (status.ok()) status = named(files.rename(temporary.path, path));
  if (!status.ok()) {
    temporary.file.reset();
    // The first failure is the one to report, whether or not the removal fails, too.
    (void)files.remove(temporary.path);
    return status;
  }
  return named(files.sync_directory(directory_of(path)));
}

Status write_file_atomically(Files& files, const std::string& path,
                             std::span<const std::span<const std::byte>> pieces) {
  return write_file_atomically(files, path, [&](const TakeBytes& take) -> Status {
    for (std::span<const std::byte> piece : pieces) LEAT_RETURN_IF_ERROR(take(piece));
    return {};
  });
}

Status write_file_atomically(Files& files, const std::string& path,
                             std::span<const std::byte> bytes) {
  return write_file_atomically(files, path, std::span<const std::span<const std::byte>>(&bytes, 1));
}

}  // namespace leat
