#include "daemon/master/job_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <ctime>

#include "daemon/base/json_line.h"
#include "devices/base/files.h"
#include "devices/base/text.h"

namespace leat {
namespace {

constexpr uint64_t kStride = 64;  // lines between two offsets that are kept
constexpr uint64_t kPageBytes = 256u << 10;
constexpr size_t kLongestLine = 16u << 10;
// The file is indexed in blocks of this size.
constexpr uint64_t kBlock = 1u << 20;
// This is the length of "2025-01-31T12:00:00.123Z".
constexpr size_t kTimeLength = 24;
constexpr std::string_view kDropped = " master dropped earlier lines: ";

Status failed(const std::string& path, std::string_view what) {
  const int error = errno;
  const std::string text = cat("'", path, "': ", what, " failed: ", std::strerror(error));
  return error == ENOSPC || error == EDQUOT || error == EMFILE || error == ENFILE
             ? resource_exhausted(text)
             : unavailable(text);
}

// Returns the time at the beginning of a line, in milliseconds of Unix time, or 0 if it is not one.
int64_t unix_ms(std::string_view text) {
  std::tm date{};
  int ms = 0;
  const std::string copy(text);
  if (std::sscanf(copy.c_str(), "%d-%d-%dT%d:%d:%d.%dZ", &date.tm_year, &date.tm_mon, &date.tm_mday,
                  &date.tm_hour, &date.tm_min, &date.tm_sec, &ms) != 7) {
    return 0;
  }
  date.tm_year -= 1900;
  date.tm_mon -= 1;
  return int64_t{::timegm(&date)} * 1000 + ms;
}

// Reverses print(). A line without a time and a name becomes a text only.
LogLine parse(std::string_view line) {
  LogLine out;
  const size_t name = kTimeLength + 1;
  const size_t end = line.size() > name ? line.find(' ', name) : std::string_view::npos;
  if (end == std::string_view::npos) {
    out.text = line;  // torn by a crash
    return out;
  }
  out.at_ms = unix_ms(line.substr(0, kTimeLength));
  out.worker = line.substr(name, end - name);
  out.text = line.substr(end + 1);
  return out;
}

// Appends a line in the form of the file. Each line of its text becomes one, cut at kLongestLine,
// and an empty text an empty line.
void print(const LogLine& line, std::string& out) {
  const std::string begin = cat(iso_time(line.at_ms), " ", line.worker, " ");
  std::string_view text = line.text;
  do {
    const size_t end = std::min(text.find('\n'), text.size());
    out.append(begin).append(text.substr(0, std::min(end, kLongestLine))).append("\n");
    text.remove_prefix(std::min(end + 1, text.size()));
  } while (!text.empty());
}

}  // namespace

JobLog::~JobLog() {
  if (fd_ >= 0) ::close(fd_);
}

void JobLog::close() {
  const std::lock_guard lock(mutex_);
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

Status JobLog::append(std::span<const LogLine> lines) {
  std::string bytes;
  for (const LogLine& line : lines) print(line, bytes);
  const std::lock_guard lock(mutex_);
  LEAT_RETURN_IF_ERROR(open(true));
  // The log may grow beyond the limit by one call's lines, or while it has too few lines to drop.
  if (size_ + bytes.size() > max_bytes_) LEAT_RETURN_IF_ERROR(drop_older_half());
  // Otherwise the first new line would become a part of the torn one.
  if (torn_) bytes.insert(0, "\n");
  LEAT_RETURN_IF_ERROR(write(bytes));
  torn_ = false;
  return {};
}

Result<uint64_t> JobLog::end() {
  const std::lock_guard lock(mutex_);
  LEAT_RETURN_IF_ERROR(open(false));
  return first_ + lines_;
}

Result<LogPage> JobLog::page(uint64_t from, size_t most) {
  const std::lock_guard lock(mutex_);
  LEAT_RETURN_IF_ERROR(open(false));
  LogPage page;
  page.end = first_ + lines_;
  page.first = std::clamp(from, first_, page.end);
  if (page.first == page.end) return page;
  // Reading begins at the last kept offset that is not after the page's first line.
  const uint64_t skip = (page.first - first_) % kStride;
  const uint64_t begin = offsets_[(page.first - first_) / kStride];
  // More than the lines to be passed over and a page of the longest lines.
  const uint64_t size = std::min(size_ - begin, kPageBytes + skip * (kLongestLine + 256));
  LEAT_ASSIGN_OR_RETURN(const std::string bytes, read(begin, size));
  std::string_view rest = bytes;
  uint64_t taken = 0;
  for (uint64_t i = 0; page.lines.size() < most && taken < kPageBytes; ++i) {
    const size_t newline = rest.find('\n');
    // The last piece may end within a line, which is then for the next page.
    if (newline == std::string_view::npos) break;
    if (i >= skip) {
      page.lines.push_back(parse(rest.substr(0, newline)));
      taken += newline + 1;
    }
    rest.remove_prefix(newline + 1);
  }
  return page;
}

// REQUIRES, as below: the mutex is held.
Status JobLog::open(bool make) {
  if (fd_ >= 0) return {};
  if (make) LEAT_RETURN_IF_ERROR(real_files().make_directories(directory_of(path_)));
  fd_ = ::open(path_.c_str(), O_RDWR | O_APPEND | O_CLOEXEC | (make ? O_CREAT : 0), 0640);
  // A read-only file system still lets people read the log.
  if (fd_ < 0 && !make && errno == EROFS) fd_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd_ < 0) {
    if (!make && errno == ENOENT) return {};  // nothing was written yet
    return failed(path_, "open");
  }
  if (indexed_) return {};
  const Status status = index();
  // Later calls must not use a part of the index: they try again.
  if (!status.ok()) ::close(std::exchange(fd_, -1));
  return status;
}

Status JobLog::index() {
  struct stat about {};
  if (::fstat(fd_, &about) != 0) return failed(path_, "stat");
  first_ = lines_ = size_ = 0;
  offsets_.clear();
  // An empty file counts as one whose last line is whole.
  std::string last = "\n";
  for (const auto size = static_cast<uint64_t>(about.st_size); size_ < size;) {
    LEAT_ASSIGN_OR_RETURN(last, read(size_, std::min(size - size_, kBlock)));
    if (const size_t end = last.find('\n'); size_ == 0 && end != std::string::npos) {
      const std::string_view line = std::string_view(last).substr(0, end);
      const size_t at = line.find(kDropped);
      // The marker of dropped lines says how many there were. It stands for the last of them.
      if (at == kTimeLength) {
        const std::string_view number = line.substr(at + kDropped.size());
        (void)std::from_chars(number.data(), number.data() + number.size(), first_);
        if (first_ > 0) --first_;
      }
    }
    index_bytes(last);
  }
  indexed_ = true;
  // A line of which the disk had no room for the end: it stands for itself when there is some.
  torn_ = last.back() != '\n';
  if (torn_ && ::write(fd_, "\n", 1) == 1) {
    index_bytes("\n");
    torn_ = false;
  }
  return {};
}

void JobLog::index_bytes(std::string_view bytes) {
  if (size_ == 0 && !bytes.empty()) offsets_.push_back(0);
  for (size_t at = bytes.find('\n'); at != std::string_view::npos; at = bytes.find('\n', at + 1)) {
    // The offset of the next line, or the end of the file if there is none yet.
    if (++lines_ % kStride == 0) offsets_.push_back(size_ + at + 1);
  }
  size_ += bytes.size();
}

Status JobLog::write(std::string_view bytes) {
  for (std::string_view left = bytes; !left.empty();) {
    const ssize_t written = ::write(fd_, left.data(), left.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      const Status status = failed(path_, "write");
      indexed_ = false;  // some of it may be there
      ::close(std::exchange(fd_, -1));
      return status;
    }
    left.remove_prefix(static_cast<size_t>(written));
  }
  index_bytes(bytes);
  return {};
}

Status JobLog::drop_older_half() {
  if (offsets_.size() < 4) return {};
  const size_t half = offsets_.size() / 2;
  // The half is cut at a kept offset, so the number of its first line is known.
  LEAT_ASSIGN_OR_RETURN(const std::string kept, read(offsets_[half], size_ - offsets_[half]));
  const uint64_t next = first_ + half * kStride;
  // The marker gets the time of the first line that stays.
  const std::string marker =
      cat(kept.substr(0, std::min(kTimeLength, kept.size())), kDropped, next, "\n");
  const std::span<const std::byte> pieces[] = {std::as_bytes(std::span(marker)),
                                               std::as_bytes(std::span(kept))};
  LEAT_RETURN_IF_ERROR(write_file_atomically(real_files(), path_, pieces));
  ::close(std::exchange(fd_, -1));
  indexed_ = false;
  return open(true);
}

Result<std::string> JobLog::read(uint64_t offset, uint64_t size) const {
  std::string bytes(size, '\0');
  for (uint64_t done = 0; done < size;) {
    const ssize_t got =
        ::pread(fd_, bytes.data() + done, size - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failed(path_, "read");
    if (got == 0) return unavailable(cat("'", path_, "': it has become shorter"));
    done += static_cast<uint64_t>(got);
  }
  return bytes;
}

}  // namespace leat
