// FileStream: the one file that knows zlib.
#include <zlib.h>

#include <algorithm>

#include "devices/base/file_stream.h"
#include "devices/base/files.h"
#include "devices/base/text.h"

namespace leat {
namespace {

// The size of one read of compressed data.
constexpr size_t kInputPiece = size_t{256} << 10;
// zlib counts with 32 bits.
constexpr size_t kZlibCallBytes = size_t{1} << 30;
// A match of 258 bytes takes at least two bits; zlib's documentation says 1032 to 1.
constexpr uint64_t kMostInflation = 1032;

// zlib's state. `ready` is false if there was no memory for it.
struct Inflater {
  z_stream stream{};
  // The window has 2^15 bytes, the largest there is; 16 more asks for gzip's frame.
  bool ready = inflateInit2(&stream, 15 + 16) == Z_OK;
  ~Inflater() {
    if (ready) inflateEnd(&stream);
  }
};

// A file that is not compressed: its bytes as they are.
class PlainStream final : public FileStream {
 public:
  explicit PlainStream(std::unique_ptr<ReadableFile> file) : file_(std::move(file)) {}

  Result<size_t> read(std::span<std::byte> out) override {
    const size_t bytes = std::min<uint64_t>(out.size(), file_->size() - at_);
    if (bytes > 0) LEAT_RETURN_IF_ERROR(file_->read(at_, out.first(bytes)));
    at_ += bytes;
    return bytes;
  }
  std::optional<uint64_t> size() const override { return file_->size(); }
  uint64_t most_bytes() const override { return file_->size(); }

 private:
  const std::unique_ptr<ReadableFile> file_;
  uint64_t at_ = 0;
};

// A gzip file: zlib inflates into the reader's buffer.
class GzipStream final : public FileStream {
 public:
  explicit GzipStream(std::unique_ptr<ReadableFile> file) : file_(std::move(file)) {}

  // Bytes before the damage are returned first. Every call after them returns the damage.
  Result<size_t> read(std::span<std::byte> out) override {
    size_t filled = 0;
    while (filled < out.size() && !ended_ && damage_.ok()) damage_ = step(out, filled);
    if (filled == 0 && !damage_.ok()) return damage_;
    return filled;
  }
  std::optional<uint64_t> size() const override { return std::nullopt; }
  uint64_t most_bytes() const override {
    return file_->size() > UINT64_MAX / kMostInflation ? UINT64_MAX
                                                       : file_->size() * kMostInflation;
  }

 private:
  // One call of zlib, from the input that is here to the rest of `out`.
  Status step(std::span<std::byte> out, size_t& filled) {
    if (!inflater_.ready)
      return resource_exhausted(cat("'", file_->path(), "': no memory to decompress"));
    if (input_.empty()) LEAT_RETURN_IF_ERROR(refill());
    z_stream& stream = inflater_.stream;
    const size_t room = std::min(out.size() - filled, kZlibCallBytes);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(input_.data()));
    stream.avail_in = static_cast<uInt>(input_.size());
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + filled);
    stream.avail_out = static_cast<uInt>(room);
    const int result = inflate(&stream, Z_NO_FLUSH);
    input_ = input_.last(stream.avail_in);
    const size_t made = room - stream.avail_out;
    filled += made;
    return judge(result, made);
  }

  // The meaning of zlib's result. `made` counts the bytes that the call wrote.
  Status judge(int result, size_t made) {
    const bool all_read = input_.empty() && next_ == file_->size();
    switch (result) {
      case Z_STREAM_END:
        ended_ = all_read;
        // Another member follows.
        if (!ended_) inflateReset(&inflater_.stream);
        return {};
      case Z_OK:
        return {};
      // zlib could do nothing: the output is full, or the input is empty.
      case Z_BUF_ERROR:
        if (!all_read || made > 0) return {};
        return invalid_argument(cat("'", file_->path(), "': expected more compressed data at byte ",
                                    next_, ", but the file ends there"));
      case Z_MEM_ERROR:
        return resource_exhausted(cat("'", file_->path(), "': no memory to decompress"));
      default:
        return invalid_argument(cat("'", file_->path(),
                                    "': expected gzip data, received damaged bytes (",
                                    inflater_.stream.msg ? inflater_.stream.msg : "unknown",
                                    ") at byte ", next_ - input_.size()));
    }
  }

  // Reads the next piece of the file.
  Status refill() {
    buffer_.resize(std::min<uint64_t>(kInputPiece, file_->size() - next_));
    if (!buffer_.empty()) LEAT_RETURN_IF_ERROR(file_->read(next_, buffer_));
    next_ += buffer_.size();
    input_ = buffer_;
    return {};
  }

  const std::unique_ptr<ReadableFile> file_;
  Inflater inflater_;
  Bytes buffer_;
  // The part of buffer_ that zlib has not read.
  std::span<const std::byte> input_;
  // The offset in the file behind the bytes of buffer_.
  uint64_t next_ = 0;
  bool ended_ = false;
  Status damage_;
};

// Every gzip file begins with these two bytes.
bool is_gzip(std::span<const std::byte> bytes) {
  return bytes.size() >= 2 && bytes[0] == std::byte{0x1f} && bytes[1] == std::byte{0x8b};
}

}  // namespace

Result<std::unique_ptr<FileStream>> open_stream(Files& files, const std::string& path) {
  LEAT_ASSIGN_OR_RETURN(auto file, files.open(path));
  Bytes magic(static_cast<size_t>(std::min<uint64_t>(2, file->size())));
  if (!magic.empty()) LEAT_RETURN_IF_ERROR(file->read(0, magic));
  if (is_gzip(magic)) return std::unique_ptr<FileStream>(new GzipStream(std::move(file)));
  return std::unique_ptr<FileStream>(new PlainStream(std::move(file)));
}

}  // namespace leat
