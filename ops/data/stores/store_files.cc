#include "ops/data/stores/store_files.h"

#include <algorithm>
#include <charconv>
#include <condition_variable>
#include <cstring>

#include "devices/base/text.h"
#include "ops/data/stores/block_cache.h"
#include "ops/data/stores/s3_list.h"
#include "ops/data/stores/s3_upload.h"
#include "ops/data/stores/store_address.h"
#include "ops/data/stores/store_requests.h"

namespace leat {
namespace {

using HeaderList = std::vector<std::pair<std::string, std::string>>;

// "bytes 0-99/1000", or "bytes */0".
struct ContentRange {
  uint64_t begin = 0, end = 0;  // behind the last byte
  uint64_t size = 0;            // of the file
};

std::optional<ContentRange> parse_range(std::string_view text) {
  ContentRange out;
  const auto number = [&](uint64_t& value) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc()) return false;
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    return true;
  };
  const auto word = [&](std::string_view wanted) {
    if (!text.starts_with(wanted)) return false;
    text.remove_prefix(wanted.size());
    return true;
  };
  if (!word("bytes ")) return std::nullopt;
  if (word("*/")) return number(out.size) && text.empty() ? std::optional(out) : std::nullopt;
  const bool good = number(out.begin) && word("-") && number(out.end) && word("/") &&
                    number(out.size) && text.empty() && out.begin <= out.end && out.end < out.size;
  if (!good) return std::nullopt;
  ++out.end;
  return out;
}

// A file that is open. Threads: any.
class StoreFile final : public ReadableFile {
 public:
  static Result<std::unique_ptr<ReadableFile>> open(std::shared_ptr<StoreParts> parts,
                                                    const std::string& path) {
    LEAT_ASSIGN_OR_RETURN(auto file, find(std::move(parts), path));
    if (!file->missing_) return std::unique_ptr<ReadableFile>(std::move(file));
    const Status none = error_of_status(*file->missing_, file->address_.is_s3());
    return Status(none.code(), cat("'", path, "': ", none.message()));
  }
  static Result<bool> exists(std::shared_ptr<StoreParts> parts, const std::string& path) {
    LEAT_ASSIGN_OR_RETURN(const auto file, find(std::move(parts), path));
    return !file->missing_;
  }

  const std::string& path() const override { return path_; }
  uint64_t size() const override { return size_; }

  Status read(uint64_t offset, std::span<std::byte> out) const override {
    if (offset > size_ || out.size() > size_ - offset) {
      return failed_precondition(cat("'", path_, "': expected ", out.size(), " bytes at byte ",
                                     offset, ", it has ", size_));
    }
    while (!out.empty()) {
      const uint64_t index = offset / block_bytes();
      LEAT_ASSIGN_OR_RETURN(const BlockCache::Block block, block_at(index, offset + out.size()));
      const auto from = static_cast<size_t>(offset - index * block_bytes());
      const size_t amount = std::min(out.size(), block->size() - from);
      std::memcpy(out.data(), block->data() + from, amount);
      out = out.subspan(amount);
      offset += amount;
    }
    return {};
  }

  // Brings the blocks into the cache, and returns when they are there.
  void advise(uint64_t offset, uint64_t size, ReadAdvice advice) const override {
    if (advice != ReadAdvice::will_need || offset >= size_) return;
    const uint64_t end = offset + std::min(size, size_ - offset);
    for (uint64_t index = offset / block_bytes(); index * block_bytes() < end; ++index) {
      if (!block_at(index, end).ok()) return;
    }
  }

 private:
  StoreFile(std::shared_ptr<StoreParts> parts, std::string path, StoreAddress address)
      : parts_(std::move(parts)),
        path_(std::move(path)),
        address_(std::move(address)),
        number_(parts_->cache.new_file()) {}

  // A file that may be missing.
  static Result<std::unique_ptr<StoreFile>> find(std::shared_ptr<StoreParts> parts,
                                                 const std::string& path) {
    LEAT_ASSIGN_OR_RETURN(StoreAddress address, StoreAddress::make(path, parts->options.variable));
    auto file =
        std::unique_ptr<StoreFile>(new StoreFile(std::move(parts), path, std::move(address)));
    LEAT_RETURN_IF_ERROR(file->pin());
    return file;
  }

  uint64_t block_bytes() const { return parts_->options.block_bytes; }
  StoreTimes times() const { return {parts_->options.request, parts_->options.patience}; }

  // Asks for the first block: its answer has the size and the ETag, or the file is missing.
  Status pin() {
    const auto request = [&] {
      return address_.get({{"range", cat("bytes=0-", block_bytes() - 1)}});
    };
    return ask_store(
        *parts_, path_, times(), request, block_bytes(), [&](UrlAnswer answer) -> Status {
          const auto range = parse_range(header_of(answer, "content-range"));
          etag_ = header_of(answer, "etag");
          // An empty file has no range that could be read.
          if (answer.status == 416 && range && range->size == 0) return {};
          if (answer.status == 200 && header_of(answer, "content-length") == "0") return {};
          if (is_missing(answer.status)) {
            missing_ = answer.status;
            return {};
          }
          if (answer.status != 206) return error_of_status(answer.status, address_.is_s3());
          LEAT_RETURN_IF_ERROR(check_whole(answer, block_bytes()));
          if (!range || range->begin != 0)
            return invalid_argument(cat("expected a range that begins at byte 0, received '",
                                        header_of(answer, "content-range"), "'"));
          const uint64_t expected = std::min(range->size, block_bytes());
          if (range->end != expected || answer.body.size() != expected)
            return unavailable(cat("expected ", expected, " bytes, received ", answer.body.size()));
          size_ = range->size;
          parts_->cache.put(number_, 0, std::make_shared<const Bytes>(std::move(answer.body)));
          return {};
        });
  }

  // A request for some blocks that is under way.
  struct Fetch {
    uint64_t begin = 0, end = 0;            // the blocks, by their index
    std::vector<BlockCache::Block> blocks;  // once it is done and ok
    std::optional<Status> status;           // nothing while it runs
    bool has(uint64_t index) const { return begin <= index && index < end; }
  };

  // A block, which is read with those behind it up to `wanted` or, for a reader that goes forward,
  // beyond. A thread that wants a block of a request under way waits for this one, and gets its
  // error.
  Result<BlockCache::Block> block_at(uint64_t index, uint64_t wanted) const {
    if (BlockCache::Block found = parts_->cache.find(number_, index)) return found;
    std::unique_lock lock(mutex_);
    // A request may have ended between the two looks.
    if (BlockCache::Block found = parts_->cache.find(number_, index)) return found;
    const auto same = std::find_if(fetches_.begin(), fetches_.end(),
                                   [&](const auto& each) { return each->has(index); });
    if (same != fetches_.end()) {
      const std::shared_ptr<Fetch> fetch = *same;
      fetched_.wait(lock, [&] { return fetch->status.has_value(); });
      LEAT_RETURN_IF_ERROR(*fetch->status);
      return fetch->blocks[static_cast<size_t>(index - fetch->begin)];
    }
    const auto fetch = std::make_shared<Fetch>(next_fetch(index, wanted));
    fetches_.push_back(fetch);
    lock.unlock();
    Status status = read_blocks(*fetch);
    lock.lock();
    fetch->status = status;
    std::erase(fetches_, fetch);
    lock.unlock();
    fetched_.notify_all();
    LEAT_RETURN_IF_ERROR(status);
    return fetch->blocks[0];
  }

  // The blocks to read from `index` on. REQUIRES: mutex_ is locked.
  Fetch next_fetch(uint64_t index, uint64_t wanted) const {
    const uint64_t most = std::max<uint64_t>(1, parts_->options.most_at_once / block_bytes());
    ahead_ = index == next_ ? std::min(most, 2 * ahead_) : 1;
    const uint64_t needed = (wanted - 1) / block_bytes() - index + 1;
    uint64_t end = index + std::min(most, std::max(needed, ahead_));
    end = std::min(end, (size_ - 1) / block_bytes() + 1);
    for (const auto& each : fetches_) {
      if (each->begin > index) end = std::min(end, each->begin);
    }
    next_ = end;
    return {index, end, {}, {}};
  }

  Status read_blocks(Fetch& fetch) const {
    const uint64_t begin = fetch.begin * block_bytes();
    const uint64_t end = std::min(size_, fetch.end * block_bytes());
    Bytes bytes;
    LEAT_RETURN_IF_ERROR(read_range(begin, end, bytes));
    for (uint64_t at = begin; at < end; at += block_bytes()) {
      const auto from = bytes.begin() + static_cast<std::ptrdiff_t>(at - begin);
      const auto size = static_cast<std::ptrdiff_t>(std::min(block_bytes(), end - at));
      fetch.blocks.push_back(std::make_shared<const Bytes>(from, from + size));
      parts_->cache.put(number_, at / block_bytes(), fetch.blocks.back());
    }
    return {};
  }

  Status read_range(uint64_t begin, uint64_t end, Bytes& out) const {
    const auto request = [&] {
      HeaderList headers{{"range", cat("bytes=", begin, "-", end - 1)}};
      // A weak ETag compares as different from itself here.
      if (!etag_.empty() && !etag_.starts_with("W/")) headers.emplace_back("if-match", etag_);
      return address_.get(headers);
    };
    return ask_store(
        *parts_, path_, times(), request, end - begin, [&](UrlAnswer answer) -> Status {
          if (answer.status != 206) return error_of_status(answer.status, address_.is_s3());
          LEAT_RETURN_IF_ERROR(check_whole(answer, end - begin));
          const std::string text = header_of(answer, "content-range");
          const auto range = parse_range(text);
          const std::string etag = header_of(answer, "etag");
          if (etag != etag_ || (range && range->size != size_)) {
            return failed_precondition(cat("it has changed while it is read: expected ", size_,
                                           " bytes and ETag ", etag_, ", received ", text, " and ",
                                           etag));
          }
          if (!range || range->begin != begin || range->end != end) {
            return invalid_argument(cat("expected the bytes ", begin, "-", end - 1,
                                        ", received the range '", text, "'"));
          }
          if (answer.body.size() != end - begin) {
            return unavailable(cat("expected ", end - begin, " bytes at byte ", begin,
                                   ", received ", answer.body.size()));
          }
          out = std::move(answer.body);
          return {};
        });
  }

  const std::shared_ptr<StoreParts> parts_;
  const std::string path_;
  const StoreAddress address_;
  const uint64_t number_;  // in the cache
  uint64_t size_ = 0;
  std::string etag_;
  std::optional<long> missing_;  // the status that says that there is no such file
  mutable std::mutex mutex_;
  mutable std::condition_variable fetched_;
  mutable std::vector<std::shared_ptr<Fetch>> fetches_;  // under way
  mutable uint64_t next_ = 1, ahead_ = 1;  // the block behind the last ones, and how many to read
};

Status no_writing(const std::string& path) {
  return failed_precondition(
      cat("'", path, "': expected a file of a disk: stores are for reading"));
}

Status both_on_disk(const std::string& a, const std::string& b) {
  if (is_store_path(a)) return no_writing(a);
  return is_store_path(b) ? no_writing(b) : Status();
}

class StoreFiles final : public ForwardingFiles {
 public:
  StoreFiles(Files& files, StoreOptions options)
      : ForwardingFiles(files), parts_(std::make_shared<StoreParts>(std::move(options))) {}

  Result<std::unique_ptr<ReadableFile>> open(const std::string& path) override {
    return is_store_path(path) ? StoreFile::open(parts_, path) : files_.open(path);
  }
  Result<bool> exists(const std::string& path) override {
    if (!is_store_path(path)) return files_.exists(path);
    LEAT_ASSIGN_OR_RETURN(const bool is_file, StoreFile::exists(parts_, path));
    LEAT_ASSIGN_OR_RETURN(const StoreAddress address, address_of(path));
    if (is_file || !address.is_s3()) return is_file;
    LEAT_ASSIGN_OR_RETURN(const auto names, list_s3(path, address, Extent::first_page));
    return !names.empty();
  }
  Result<std::vector<std::string>> list(const std::string& path) override {
    if (!is_store_path(path)) return files_.list(path);
    LEAT_ASSIGN_OR_RETURN(const StoreAddress address, address_of(path));
    if (!address.is_s3()) {
      return unimplemented(cat("'", path, "': expected names of files without '*' and '?': ",
                               "servers of HTTP give no list of their files"));
    }
    return list_s3(path, address, Extent::all);
  }

  Result<std::unique_ptr<WritableFile>> create(const std::string& path) override {
    if (!is_store_path(path)) return files_.create(path);
    LEAT_RETURN_IF_ERROR(check_writable(path));
    return open_s3_upload(parts_, path);
  }
  Result<std::unique_ptr<WritableFile>> append_to(const std::string& path, uint64_t size) override {
    if (is_store_path(path)) return no_writing(path);
    return files_.append_to(path, size);
  }
  Status rename(const std::string& from, const std::string& to) override {
    LEAT_RETURN_IF_ERROR(both_on_disk(from, to));
    return files_.rename(from, to);
  }
  Status link(const std::string& from, const std::string& to) override {
    LEAT_RETURN_IF_ERROR(both_on_disk(from, to));
    return files_.link(from, to);
  }
  Status exchange(const std::string& a, const std::string& b) override {
    LEAT_RETURN_IF_ERROR(both_on_disk(a, b));
    return files_.exchange(a, b);
  }
  Status remove(const std::string& path) override {
    if (!is_store_path(path)) return files_.remove(path);
    LEAT_RETURN_IF_ERROR(check_writable(path));
    return remove_s3(*parts_, path);
  }
  Status remove_all(const std::string& path) override {
    return is_store_path(path) ? no_writing(path) : files_.remove_all(path);
  }
  Status make_directories(const std::string& path) override {
    return is_store_path(path) ? check_writable(path) : files_.make_directories(path);
  }
  Status sync_directory(const std::string& path) override {
    return is_store_path(path) ? check_writable(path) : files_.sync_directory(path);
  }

 private:
  enum class Extent : uint8_t { all, first_page };

  Result<StoreAddress> address_of(const std::string& path) const {
    return StoreAddress::make(path, parts_->options.variable);
  }
  Status check_writable(const std::string& path) const {
    LEAT_ASSIGN_OR_RETURN(const StoreAddress address, address_of(path));
    return parts_->options.writes && address.is_s3() ? Status() : no_writing(path);
  }

  Result<std::vector<std::string>> list_s3(const std::string& path, const StoreAddress& address,
                                           Extent extent) {
    constexpr uint64_t kPage = uint64_t{16} << 20;
    constexpr size_t kMostNames = size_t{1} << 22;
    std::vector<std::string> names;
    std::string next;
    do {
      LEAT_RETURN_IF_ERROR(ask_store(
          *parts_, path, {parts_->options.request, parts_->options.patience},
          [&] { return address.list(next); }, kPage,
          [&](UrlAnswer answer) -> Status {
            if (answer.status != 200) return error_of_status(answer.status, true);
            LEAT_RETURN_IF_ERROR(check_whole(answer, kPage));
            LEAT_ASSIGN_OR_RETURN(const S3List page, parse_s3_list(answer.body, address.prefix()));
            names.insert(names.end(), page.names.begin(), page.names.end());
            if (!page.next.empty() && page.next == next)
              return invalid_argument("expected another page of the list, received the same one");
            next = page.next;
            return {};
          }));
      if (names.size() > kMostNames)
        return resource_exhausted(cat("'", path, "': expected at most ", kMostNames, " names"));
    } while (!next.empty() && extent == Extent::all);
    std::sort(names.begin(), names.end());
    return names;
  }

  const std::shared_ptr<StoreParts> parts_;
};

}  // namespace

std::unique_ptr<Files> make_store_files(Files& files, StoreOptions options) {
  return std::make_unique<StoreFiles>(files, std::move(options));
}

Files& store_files() {
  static StoreFiles files(real_files(), StoreOptions());
  return files;
}

}  // namespace leat
