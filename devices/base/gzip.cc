// gunzip() of files.h, in a file of its own: the one place that knows zlib.
#include <zlib.h>

#include <algorithm>

#include "devices/base/files.h"
#include "devices/base/text.h"

namespace leat {
namespace {

constexpr size_t kFirstOutput = size_t{64} << 10;
constexpr size_t kZlibCallBytes = size_t{1} << 30;  // zlib counts with 32 bits

struct Inflater {
  z_stream stream{};
  bool ready = inflateInit2(&stream, 15 + 16) == Z_OK;  // 15: the largest window; 16: gzip's frame
  ~Inflater() {
    if (ready) inflateEnd(&stream);
  }
};

Status too_large(std::string_view subject, uint64_t limit) {
  return resource_exhausted(cat("'", subject, "': expected at most ", limit,
                                " bytes after decompression, there are more"));
}

// Room for more output: twice as much as was really inflated, never what a length field says. One
// byte past the limit tells a file of exactly `limit` bytes from one that goes on.
void grow(Bytes& out, uint64_t limit) {
  const uint64_t size = std::max<uint64_t>(kFirstOutput, uint64_t{out.size()} * 2);
  out.resize(static_cast<size_t>(size <= limit ? size : limit + 1));
}

// How much is wanted: all, where more than the limit is an error, or what comes up to the limit.
enum class Extent { whole, start };

Result<Bytes> inflate_bytes(std::span<const std::byte> bytes, uint64_t limit,
                            std::string_view subject, Extent extent) {
  Inflater inflater;
  if (!inflater.ready) return resource_exhausted(cat("'", subject, "': no memory to decompress"));
  z_stream& stream = inflater.stream;
  Bytes out;
  size_t in_at = 0, out_at = 0;
  while (extent == Extent::whole || out_at < limit) {
    if (out_at > limit) return too_large(subject, limit);
    if (out_at == out.size()) grow(out, limit);
    const size_t in_size = std::min(bytes.size() - in_at, kZlibCallBytes);
    const size_t out_size = std::min(out.size() - out_at, kZlibCallBytes);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(bytes.data() + in_at));
    stream.avail_in = static_cast<uInt>(in_size);
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + out_at);
    stream.avail_out = static_cast<uInt>(out_size);
    const int result = inflate(&stream, Z_NO_FLUSH);
    in_at += in_size - stream.avail_in;
    out_at += out_size - stream.avail_out;
    if (result == Z_STREAM_END) {
      if (in_at == bytes.size()) break;
      inflateReset(&stream);  // the next member
    } else if (result == Z_BUF_ERROR && in_at == bytes.size() && out_at < out.size()) {
      if (extent == Extent::start) break;
      return invalid_argument(cat("'", subject, "': expected more compressed data at byte ", in_at,
                                  ", but the file ends there"));
    } else if (result == Z_MEM_ERROR) {
      return resource_exhausted(cat("'", subject, "': no memory to decompress"));
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
      return invalid_argument(cat("'", subject, "': expected gzip data, received damaged bytes (",
                                  stream.msg ? stream.msg : "unknown", ") at byte ", in_at));
    }
  }
  if (extent == Extent::whole && out_at > limit) return too_large(subject, limit);
  out.resize(std::min<uint64_t>(out_at, limit));
  return out;
}

}  // namespace

bool is_gzip(std::span<const std::byte> bytes) {
  return bytes.size() >= 2 && bytes[0] == std::byte{0x1f} && bytes[1] == std::byte{0x8b};
}

Result<Bytes> gunzip(std::span<const std::byte> bytes, uint64_t limit, std::string_view subject) {
  return inflate_bytes(bytes, limit, subject, Extent::whole);
}

Result<Bytes> read_maybe_gzip(Files& files, const std::string& path, uint64_t limit) {
  LEAT_ASSIGN_OR_RETURN(Bytes bytes, read_file(files, path, limit));
  if (!is_gzip(bytes)) return bytes;
  return gunzip(bytes, limit, path);
}

Result<FileStart> read_start(Files& files, const std::string& path, uint64_t size) {
  LEAT_ASSIGN_OR_RETURN(const auto file, files.open(path));
  // What does not compress grows a little.
  Bytes raw(static_cast<size_t>(std::min<uint64_t>(file->size(), size + kFirstOutput)));
  LEAT_RETURN_IF_ERROR(file->read(0, raw));
  if (is_gzip(raw)) {
    LEAT_ASSIGN_OR_RETURN(Bytes bytes, inflate_bytes(raw, size, path, Extent::start));
    return FileStart{std::move(bytes), std::nullopt};
  }
  raw.resize(std::min<uint64_t>(raw.size(), size));
  return FileStart{std::move(raw), file->size()};
}

}  // namespace leat
