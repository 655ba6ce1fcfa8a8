#include "ops/formats/npz.h"

#include <algorithm>
#include <array>
#include <set>
#include <vector>

#include "devices/base/text.h"
#include "ops/formats/elements.h"
#include "ops/formats/npy.h"

namespace leat {
namespace {

constexpr uint16_t kVersion = 45;  // the first with fields of 64 bits
constexpr uint16_t kNamesAreUtf8 = 0x800;
constexpr uint16_t kFirstDay = 0x21;  // 1980-01-01
constexpr uint16_t kSizes64 = 1;      // of an extra field
constexpr uint16_t kSee64 = 0xffff;   // the number is in the field of 64 bits
constexpr uint32_t kSee64Wide = 0xffffffff;
constexpr size_t kLongestName = 65'000;

// Little-endian numbers, one after the other.
class Record {
 public:
  Record& u16(uint64_t value) { return put(value, 2); }
  Record& u32(uint64_t value) { return put(value, 4); }
  Record& u64(uint64_t value) { return put(value, 8); }
  Record& text(std::string_view text) {
    bytes_ += text;
    return *this;
  }
  std::span<const std::byte> bytes() const { return std::as_bytes(std::span(bytes_)); }

 private:
  Record& put(uint64_t value, int size) {
    for (int i = 0; i < size; ++i) bytes_ += static_cast<char>(value >> (8 * i) & 255);
    return *this;
  }
  std::string bytes_;
};

// One file of the archive, as its local header and the directory describe it.
struct ZipEntry {
  std::string name;
  uint32_t crc = 0;
  uint64_t size = 0;    // of the NPY file
  uint64_t offset = 0;  // of its local header
};

// Zip's CRC-32: of the reflected polynomial 0xedb88320. `before`: that of the bytes before these.
uint32_t crc32(std::span<const std::byte> bytes, uint32_t before = 0) {
  static const auto kTable = [] {
    std::array<uint32_t, 256> table{};
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ (value & 1 ? 0xedb88320 : 0);
      table[i] = value;
    }
    return table;
  }();
  // The register begins and ends inverted. One table look-up shifts eight bits out of it.
  uint32_t crc = ~before;
  for (const std::byte byte : bytes)
    crc = crc >> 8 ^ kTable[(crc ^ static_cast<uint32_t>(byte)) & 255];
  return ~crc;
}

// Adds the common part of a local header and an entry of the directory.
void add_entry(Record& record, const ZipEntry& entry, uint16_t extra) {
  // Flags, no compression, time, date and CRC. The two sizes are in the extra field of 64 bits.
  record.u16(kNamesAreUtf8).u16(0).u16(0).u16(kFirstDay).u32(entry.crc);
  record.u32(kSee64Wide).u32(kSee64Wide).u16(entry.name.size()).u16(extra);
}

// The header before a file. Its extra field has 4 bytes of its own header and the two sizes.
Record local_header(const ZipEntry& entry) {
  Record record;
  record.text("PK\x03\x04").u16(kVersion);
  add_entry(record, entry, 20);
  record.text(entry.name).u16(kSizes64).u16(16).u64(entry.size).u64(entry.size);
  return record;
}

// The directory's entry. Its extra field has the offset of the local header after the two sizes.
void add_to_directory(Record& directory, const ZipEntry& entry) {
  directory.text("PK\x01\x02").u16(kVersion).u16(kVersion);
  add_entry(directory, entry, 28);
  directory.u16(0).u16(0).u16(0).u32(0).u32(kSee64Wide);
  directory.text(entry.name).u16(kSizes64).u16(24);
  directory.u64(entry.size).u64(entry.size).u64(entry.offset);
}

// The records that end the archive. The directory begins at byte `begin`.
Record end_of_directory(size_t entries, uint64_t begin, uint64_t size) {
  Record record;
  // The end in 64 bits, the locator that says where it begins, and the end in 32 bits, whose fields
  // all refer to the one in 64 bits. 44 is the size of the first record after this field.
  record.text("PK\x06\x06").u64(44).u16(kVersion).u16(kVersion).u32(0).u32(0);
  record.u64(entries).u64(entries).u64(size).u64(begin);
  record.text("PK\x06\x07").u32(0).u64(begin + size).u32(1);
  record.text("PK\x05\x06").u16(0).u16(0).u16(kSee64).u16(kSee64);
  return record.u32(kSee64Wide).u32(kSee64Wide).u16(0);
}

// Checks all arrays before `take` gets the first byte.
Status check_arrays(std::span<const ArrayEntry> arrays) {
  for (const ArrayEntry& each : arrays) {
    if (each.name.size() > kLongestName) {
      return invalid_argument(cat("npz: expected names of at most ", kLongestName,
                                  " bytes, received one of ", each.name.size()));
    }
    LEAT_RETURN_IF_ERROR(
        npy_header(each.dtype, each.shape).status().while_doing(cat("writing '", each.name, "'")));
  }
  return {};
}

// The NPY file of an array as a member, with the checksum of its header and elements.
Result<ZipEntry> entry_of(const ArrayEntry& array, size_t index, const std::string& header,
                          const ArrayElements& elements) {
  ZipEntry entry{array.name + ".npy", crc32(std::as_bytes(std::span(header))),
                 header.size() + array.bytes()};
  uint64_t left = array.bytes();
  LEAT_RETURN_IF_ERROR(elements(index, [&](std::span<const std::byte> bytes) -> Status {
    entry.crc = crc32(bytes, entry.crc);
    left -= bytes.size();
    return {};
  }));
  if (left == 0) return entry;
  return internal_error(cat("npz: expected ", array.bytes(), " bytes of '", array.name, "'"));
}

// The bytes of a part of the file, with numbers in them.
class Bytes64 {
 public:
  static Result<Bytes64> read(const ReadableFile& file, uint64_t offset, uint64_t size) {
    if (size > file.size() || offset > file.size() - size) {
      return invalid_argument(cat("'", file.path(),
                                  "': expected a zip archive, it ends before byte ", offset, " + ",
                                  size));
    }
    Bytes64 out;
    out.bytes_.resize(static_cast<size_t>(size));
    LEAT_RETURN_IF_ERROR(file.read(offset, out.bytes_));
    return out;
  }
  uint64_t size() const { return bytes_.size(); }
  // REQUIRES: the number lies within the bytes.
  uint64_t u16(uint64_t at) const { return load_little<uint16_t>(bytes_.data() + at); }
  uint64_t u32(uint64_t at) const { return load_little<uint32_t>(bytes_.data() + at); }
  uint64_t u64(uint64_t at) const { return load_little<uint64_t>(bytes_.data() + at); }
  std::string text(uint64_t at, uint64_t size) const {
    return {reinterpret_cast<const char*>(bytes_.data() + at), static_cast<size_t>(size)};
  }
  std::span<const std::byte> all() const { return bytes_; }

 private:
  Bytes bytes_;
};

Status damaged_zip(const ReadableFile& file, std::string_view what) {
  return invalid_argument(cat("'", file.path(), "': expected a zip archive of NPY files, ", what));
}

struct ZipDirectory {
  uint64_t offset = 0, size = 0, entries = 0;
};

// Finds the end of the archive, which is behind its directory and before a comment of any text.
Result<ZipDirectory> find_directory(const ReadableFile& file) {
  constexpr uint64_t kEnd = 22, kLongestComment = 65'535;
  const uint64_t size = std::min(file.size(), kEnd + kLongestComment);
  LEAT_ASSIGN_OR_RETURN(const Bytes64 tail, Bytes64::read(file, file.size() - size, size));
  for (uint64_t back = kEnd; back <= size; ++back) {
    const uint64_t at = size - back;
    if (tail.text(at, 4) != "PK\x05\x06") continue;
    ZipDirectory found{tail.u32(at + 16), tail.u32(at + 12), tail.u16(at + 10)};
    if (found.offset != kSee64Wide && found.size != kSee64Wide && found.entries != kSee64)
      return found;
    // The numbers are in the end of 64 bits, whose place the locator before this record has.
    if (at < 20 || tail.text(at - 20, 4) != "PK\x06\x07")
      return damaged_zip(file, "its end refers to fields of 64 bits that are not there");
    LEAT_ASSIGN_OR_RETURN(const Bytes64 end, Bytes64::read(file, tail.u64(at - 12), 56));
    if (end.text(0, 4) != "PK\x06\x06") return damaged_zip(file, "its end of 64 bits is damaged");
    return ZipDirectory{end.u64(48), end.u64(40), end.u64(32)};
  }
  return damaged_zip(file, "found no end of one");
}

// The sizes and the place of a member, as its entry of the directory has them.
struct MemberEntry {
  std::string name;
  uint64_t size = 0, packed = 0, local = 0;
};

// Replaces the fields that did not fit into 32 bits by those of the extra field of 64 bits, which
// has just these, in this order.
void widen_sizes(MemberEntry& entry, const Bytes64& bytes, uint64_t extra, uint64_t length) {
  for (uint64_t at = extra; at + 4 <= extra + length; at += 4 + bytes.u16(at + 2)) {
    if (bytes.u16(at) != kSizes64) continue;
    uint64_t next = at + 4;
    const uint64_t end = std::min(extra + length, next + bytes.u16(at + 2));
    for (uint64_t* field : {&entry.size, &entry.packed, &entry.local}) {
      if (*field != kSee64Wide || next + 8 > end) continue;
      *field = bytes.u64(next);
      next += 8;
    }
    return;
  }
}

Result<NpzMember> locate_member(const ReadableFile& file, const MemberEntry& entry) {
  // The local header has a name and an extra field of its own lengths.
  LEAT_ASSIGN_OR_RETURN(const Bytes64 local, Bytes64::read(file, entry.local, 30));
  if (local.text(0, 4) != "PK\x03\x04")
    return damaged_zip(file, cat("the member '", entry.name, "' is not where the directory says"));
  const uint64_t begin = entry.local + 30 + local.u16(26) + local.u16(28);
  if (begin > file.size() || entry.size > file.size() - begin)
    return damaged_zip(file, cat("the member '", entry.name, "' is cut"));
  const uint64_t longest = std::min(entry.size, npy_format().longest_header);
  LEAT_ASSIGN_OR_RETURN(const Bytes64 start, Bytes64::read(file, begin, longest));
  const std::string subject = cat(file.path(), ":", entry.name);
  LEAT_ASSIGN_OR_RETURN(ArrayHeader header, npy_format().parse_header(start.all(), subject));
  LEAT_RETURN_IF_ERROR(check_size(header, entry.size, subject));
  header.offset += begin;
  return NpzMember{entry.name.substr(0, entry.name.size() - 4), header};
}

}  // namespace

Result<std::vector<NpzMember>> read_npz_directory(const ReadableFile& file) {
  constexpr uint64_t kMostBytes = uint64_t{64} << 20, kFixed = 46;
  LEAT_ASSIGN_OR_RETURN(const ZipDirectory directory, find_directory(file));
  if (directory.size > kMostBytes)
    return damaged_zip(file, cat("its directory has ", directory.size, " bytes, more than 64 MiB"));
  LEAT_ASSIGN_OR_RETURN(const Bytes64 bytes, Bytes64::read(file, directory.offset, directory.size));
  std::vector<NpzMember> members;
  std::set<std::string> names;  // of the members: a hostile file has very many
  uint64_t at = 0;
  for (uint64_t i = 0; i < directory.entries; ++i) {
    if (at + kFixed > bytes.size() || bytes.text(at, 4) != "PK\x01\x02")
      return damaged_zip(file, cat("entry ", i, " of its directory is damaged"));
    const uint64_t name = bytes.u16(at + 28), extra = bytes.u16(at + 30);
    const uint64_t next = at + kFixed + name + extra + bytes.u16(at + 32);
    if (next > bytes.size()) return damaged_zip(file, cat("entry ", i, " of its directory is cut"));
    MemberEntry entry{bytes.text(at + kFixed, name), bytes.u32(at + 24), bytes.u32(at + 20),
                      bytes.u32(at + 42)};
    widen_sizes(entry, bytes, at + kFixed + name, extra);
    const uint64_t flags = bytes.u16(at + 8), method = bytes.u16(at + 10);
    at = next;
    if (!entry.name.ends_with(".npy")) continue;
    if (method != 0 || (flags & 1) != 0) {
      return unimplemented(cat("'", file.path(), "': member '", entry.name, "': expected it ",
                               "neither compressed nor encrypted; write it with numpy.savez()"));
    }
    if (members.size() == kNpzArrays)
      return damaged_zip(file, cat("it has more than ", kNpzArrays, " of them"));
    LEAT_ASSIGN_OR_RETURN(NpzMember member, locate_member(file, entry));
    if (!names.insert(member.name).second)
      return damaged_zip(file, cat("the array '", member.name, "' is there twice"));
    members.push_back(std::move(member));
  }
  return members;
}

Result<Tensor> read_npz_member(const ReadableFile& file, const NpzMember& member) {
  auto values = Tensor::create(member.header.dtype, member.header.shape);
  if (!values.ok()) return values.status().while_doing(cat("reading '", file.path(), "'"));
  LEAT_RETURN_IF_ERROR(file.read(member.header.offset, writable_bytes(*values)));
  LEAT_RETURN_IF_ERROR(check_booleans(*values, cat("'", file.path(), "'"), member.header.offset));
  return in_c_order(member.header, std::move(*values));
}

Status format_npz(std::span<const ArrayEntry> arrays, const ArrayElements& elements,
                  const TakeBytes& take) {
  LEAT_RETURN_IF_ERROR(check_arrays(arrays));
  // The offsets of the files are known only when they were written, so the directory follows them.
  Record directory;
  uint64_t at = 0;
  for (size_t i = 0; i < arrays.size(); ++i) {
    LEAT_ASSIGN_OR_RETURN(const std::string npy, npy_header(arrays[i].dtype, arrays[i].shape));
    LEAT_ASSIGN_OR_RETURN(ZipEntry entry, entry_of(arrays[i], i, npy, elements));
    entry.offset = at;
    const Record header = local_header(entry);
    uint64_t written = npy.size();
    LEAT_RETURN_IF_ERROR(take(header.bytes()));
    LEAT_RETURN_IF_ERROR(take(std::as_bytes(std::span(npy))));
    LEAT_RETURN_IF_ERROR(elements(i, [&](std::span<const std::byte> bytes) {
      written += bytes.size();
      return take(bytes);
    }));
    if (written != entry.size)
      return internal_error(cat("npz: expected ", entry.size, " bytes of '", arrays[i].name, "'"));
    add_to_directory(directory, entry);
    at += header.bytes().size() + entry.size;
  }
  LEAT_RETURN_IF_ERROR(take(directory.bytes()));
  return take(end_of_directory(arrays.size(), at, directory.bytes().size()).bytes());
}

Status format_npz(const std::map<std::string, Tensor>& arrays, const TakeBytes& take) {
  std::vector<ArrayEntry> entries;
  std::vector<std::span<const std::byte>> values;
  for (const auto& [name, value] : arrays) {
    entries.push_back({name, value.dtype(), value.shape()});
    values.push_back(bytes_of(value));
  }
  return format_npz(
      entries, [&](size_t i, const TakeBytes& put) { return put(values[i]); }, take);
}

}  // namespace leat
