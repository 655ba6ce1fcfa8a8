#include "ops/formats/tar.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>

#include "devices/base/text.h"

namespace leat {
namespace {

constexpr uint64_t kBlock = 512;
constexpr uint64_t kRecords = 1 << 20;  // bytes of one header's pax records
constexpr uint64_t kMostBytes = uint64_t{1} << 62;

using TarBlock = std::array<std::byte, kBlock>;

std::string_view tar_field(const TarBlock& block, size_t at, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(block.data()) + at, size);
  return text.substr(0, text.find('\0'));
}

// A number in octal digits, or, if the first bit is set, in the rest of the field's bits.
std::optional<uint64_t> tar_number(const TarBlock& block, size_t at, size_t size) {
  uint64_t value = 0;
  if (static_cast<uint8_t>(block[at]) == 0x80) {
    for (size_t i = at + 1; i < at + size; ++i) {
      if (value >> 55) return std::nullopt;
      value = value << 8 | static_cast<uint8_t>(block[i]);
    }
    return value;
  }
  // 0xff begins a negative number, which is no octal digit either.
  std::string_view digits = tar_field(block, at, size);
  digits.remove_prefix(std::min(digits.find_first_not_of(' '), digits.size()));
  while (digits.ends_with(' ')) digits.remove_suffix(1);
  if (digits.empty()) return 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 8);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

bool has_tar_checksum(const TarBlock& block) {
  int64_t plain = 8 * ' ', with_signs = plain;  // some writers added signed bytes
  for (size_t i = 0; i < kBlock; ++i) {
    if (i >= 148 && i < 156) continue;
    plain += static_cast<uint8_t>(block[i]);
    with_signs += static_cast<int8_t>(block[i]);
  }
  const auto noted = tar_number(block, 148, 8);
  return noted &&
         (static_cast<int64_t>(*noted) == plain || static_cast<int64_t>(*noted) == with_signs);
}

// The reader of one archive. Extensions hold for the next member.
class TarReader {
 public:
  TarReader(const ReadableFile& archive, const std::function<Status(TarMember)>& take)
      : archive_(archive), take_(take) {}

  Status read() {
    const uint64_t end = archive_.size();
    // A file that ends without a header of zeros is whole, as other readers see it.
    while (at_ < end) {
      if (end - at_ < kBlock) return wrong("a header of 512 bytes", cat(end - at_, " bytes"));
      LEAT_RETURN_IF_ERROR(archive_.read(at_, block_));
      if (at_ == 0) LEAT_RETURN_IF_ERROR(check_kind_of_file());
      if (std::all_of(block_.begin(), block_.end(), [](std::byte b) { return b == std::byte{}; }))
        return {};
      if (!has_tar_checksum(block_)) return wrong("a header with its checksum", "another checksum");
      LEAT_RETURN_IF_ERROR(read_member());
    }
    return {};
  }

 private:
  Status wrong(std::string_view expected, std::string_view received) const {
    return invalid_argument(cat("'", archive_.path(), "': header at byte ", at_, ": expected ",
                                expected, ", received ", received));
  }

  Status check_kind_of_file() const {
    const auto first = static_cast<uint8_t>(block_[0]), second = static_cast<uint8_t>(block_[1]);
    if (first != 0x1f || second != 0x8b) return {};
    return unimplemented(cat("'", archive_.path(),
                             "': expected a plain tar archive, whose files can be read in any ",
                             "order, received one that is compressed by gzip"));
  }

  Status read_member() {
    const auto noted = tar_number(block_, 124, 12);
    const char kind = static_cast<char>(block_[156]);
    const bool extension = kind == 'L' || kind == 'K' || kind == 'x' || kind == 'g';
    // Only files have bytes; the size of a link is that of its target.
    const bool file = kind == '0' || kind == '\0' || kind == '7';
    const uint64_t size =
        extension ? noted.value_or(kMostBytes) : next_size_.value_or(noted.value_or(kMostBytes));
    const bool has_bytes = extension || file || !(kind >= '1' && kind <= '6');
    const uint64_t begin = at_ + kBlock, room = archive_.size() - begin;
    if (has_bytes && size > room)
      return wrong(cat("at most ", room, " bytes, which are left in the file"),
                   noted ? cat(size) : "a size that is no number");
    if (kind == 'S' || sparse_)
      return unimplemented(cat("'", archive_.path(), "': header at byte ", at_,
                               ": expected files without holes, received a sparse one"));
    if (extension) {
      LEAT_RETURN_IF_ERROR(read_extension(kind, begin, size));
    } else {
      std::string name = next_name_.empty() ? name_of_header() : std::move(next_name_);
      next_name_.clear();
      next_size_.reset();
      if (file && !name.ends_with('/')) LEAT_RETURN_IF_ERROR(take_({std::move(name), begin, size}));
    }
    // The fill of the last file may be missing.
    const uint64_t filled = has_bytes ? (size + kBlock - 1) / kBlock * kBlock : 0;
    at_ = begin + std::min(filled, room);
    return {};
  }

  std::string name_of_header() const {
    const std::string name(tar_field(block_, 0, 100));
    const bool ustar = tar_field(block_, 257, 5) == "ustar" && block_[262] == std::byte{};
    const std::string prefix(ustar ? tar_field(block_, 345, 155) : "");
    return prefix.empty() ? name : prefix + "/" + name;
  }

  Status read_extension(char kind, uint64_t begin, uint64_t size) {
    const uint64_t most = kind == 'L' ? kTarName + 1 : kRecords;
    if (kind == 'K') return {};  // the target of a link
    if (size > most) return wrong(cat("an extension of at most ", most, " bytes"), cat(size));
    std::string text(static_cast<size_t>(size), '\0');
    LEAT_RETURN_IF_ERROR(archive_.read(begin, std::as_writable_bytes(std::span(text))));
    if (kind == 'L') {
      next_name_ = text.substr(0, text.find('\0'));
      return {};
    }
    return read_records(text, kind == 'g');
  }

  // Records of pax: "LENGTH KEY=VALUE\n", where LENGTH counts all of the record.
  Status read_records(std::string_view text, bool global) {
    while (!text.empty()) {
      size_t length = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), length);
      const size_t digits = static_cast<size_t>(end - text.data());
      if (error != std::errc() || length > text.size() || length < digits + 3 ||
          text[digits] != ' ' || text[length - 1] != '\n')
        return wrong("pax records LENGTH KEY=VALUE", "others");
      const std::string_view record = text.substr(digits + 1, length - digits - 2);
      text.remove_prefix(length);
      const size_t equals = record.find('=');
      if (equals == std::string_view::npos) return wrong("pax records LENGTH KEY=VALUE", "others");
      if (!global)
        LEAT_RETURN_IF_ERROR(take_record(record.substr(0, equals), record.substr(equals + 1)));
    }
    return {};
  }

  Status take_record(std::string_view key, std::string_view value) {
    if (key == "path") {
      if (value.size() > kTarName)
        return wrong(cat("a name of at most ", kTarName, " bytes"), cat(value.size()));
      next_name_ = std::string(value);
    } else if (key == "size") {
      uint64_t size = 0;
      const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), size);
      if (error != std::errc() || end != value.data() + value.size())
        return wrong("a size in decimal digits", cat("'", value, "'"));
      next_size_ = size;
    } else if (key.starts_with("GNU.sparse")) {
      sparse_ = true;
    }
    return {};
  }

  const ReadableFile& archive_;
  const std::function<Status(TarMember)>& take_;
  TarBlock block_;
  uint64_t at_ = 0;
  std::string next_name_;
  std::optional<uint64_t> next_size_;
  bool sparse_ = false;
};

}  // namespace

Status read_tar(const ReadableFile& archive, const std::function<Status(TarMember)>& take) {
  return TarReader(archive, take).read();
}

}  // namespace leat
