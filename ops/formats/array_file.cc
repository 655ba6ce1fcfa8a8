#include "ops/formats/array_file.h"

#include <algorithm>

#include "devices/base/text.h"
#include "ops/formats/elements.h"

namespace leat {
Result<ArrayFile> ArrayFile::open(Files& files, const std::string& path, const ArrayFormat& format,
                                  uint64_t limit) {
  LEAT_ASSIGN_OR_RETURN(auto stream, open_stream(files, path));
  ArrayFile file(path, std::move(stream));
  LEAT_RETURN_IF_ERROR(file.read_header(format));
  LEAT_RETURN_IF_ERROR(file.check_room(limit));
  return file;
}

Status ArrayFile::read_header(const ArrayFormat& format) {
  big_endian_ = format.big_endian;
  // One read takes the longest header that the format allows, so that the parser needs no second
  // one. It usually takes elements as well, which stay in start_ for read().
  start_.resize(std::min(format.longest_header, stream_->most_bytes()));
  LEAT_ASSIGN_OR_RETURN(const size_t read, stream_->read(start_));
  const bool ends = read < start_.size();
  start_.resize(read);
  auto header = format.parse_header(start_, path_);
  if (!header.ok() && ends) {  // the reason may be damaged compression
    std::byte more;
    LEAT_RETURN_IF_ERROR(stream_->read({&more, 1}).status());
  }
  LEAT_ASSIGN_OR_RETURN(header_, std::move(header));
  start_at_ = header_.offset;
  return {};
}

// Compares the declared size with the file before anything of that size is allocated. The file's
// size is exact if it is not compressed, else only an upper bound is known.
Status ArrayFile::check_room(uint64_t limit) const {
  if (stream_->size()) LEAT_RETURN_IF_ERROR(check_size(header_, *stream_->size(), path_));
  const auto bytes = bytes_of(header_.dtype, header_.shape);
  const uint64_t room = stream_->most_bytes() - std::min(stream_->most_bytes(), header_.offset);
  if (!bytes || static_cast<uint64_t>(*bytes) > room) {
    return invalid_argument(cat("'", path_, "': expected ", bytes ? cat(*bytes) : "over 2^63",
                                " bytes for ", header_.dtype, header_.shape, " from byte ",
                                header_.offset, " to the end, so small a gzip file holds at most ",
                                room));
  }
  if (header_.offset + static_cast<uint64_t>(*bytes) <= limit) return {};
  // The file is sound, but larger than the caller wants to hold.
  return resource_exhausted(cat("'", path_, "': expected at most ", limit, " bytes, ",
                                header_.dtype, header_.shape, " has ", *bytes, " from byte ",
                                header_.offset));
}

Status ArrayFile::read(std::span<std::byte> out) {
  // The bytes that came with the header are returned first, then those of the stream.
  const size_t at_hand = std::min(out.size(), start_.size() - start_at_);
  if (at_hand > 0) std::memcpy(out.data(), start_.data() + start_at_, at_hand);
  start_at_ += at_hand;
  size_t there = at_hand;
  while (there < out.size()) {
    LEAT_ASSIGN_OR_RETURN(const size_t read, stream_->read(out.subspan(there)));
    there += read;
    // A compressed file may end too early. The message is that of a plain file of the wrong size.
    if (read == 0) return check_size(header_, header_.offset + elements_ + there, path_);
  }
  // From here on the elements count as returned. The booleans are checked for every piece, since
  // the whole array may never be in memory.
  const uint64_t offset = header_.offset + elements_;
  elements_ += there;
  if (big_endian_) swap_bytes(out, header_.dtype);
  return check_booleans(header_.dtype, out, cat("'", path_, "'"), offset);
}

// One byte more is an error. Reading it also makes the stream check the end of a gzip file.
Status ArrayFile::expect_end() {
  std::byte more;
  size_t read = start_.size() - start_at_;
  if (read == 0) {
    LEAT_ASSIGN_OR_RETURN(read, stream_->read({&more, 1}));
  }
  if (read == 0) return {};
  return invalid_argument(cat("'", path_, "': expected ", elements_, " bytes for ", header_.dtype,
                              header_.shape, " from byte ", header_.offset,
                              " to the end, received more"));
}

// The order of the elements is changed last, because only the whole array can be transposed.
Result<Tensor> ArrayFile::read_all() {
  auto tensor = Tensor::create(header_.dtype, header_.shape);
  if (!tensor.ok()) return tensor.status().while_doing(cat("reading '", path_, "'"));
  LEAT_RETURN_IF_ERROR(read(writable_bytes(*tensor)));
  LEAT_RETURN_IF_ERROR(expect_end());
  return in_c_order(header_, std::move(*tensor));
}

}  // namespace leat
