#include "ops/formats/npz.h"

#include <array>
#include <vector>

#include "devices/base/text.h"
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

// Zip's CRC-32: of the reflected polynomial 0xedb88320.
uint32_t crc32(std::span<const std::byte> bytes) {
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
  uint32_t crc = 0xffffffff;
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
Status check_arrays(const std::map<std::string, Tensor>& arrays) {
  for (const auto& [name, value] : arrays) {
    if (name.size() > kLongestName) {
      return invalid_argument(cat("npz: expected names of at most ", kLongestName,
                                  " bytes, received one of ", name.size()));
    }
    // An empty array has the same type, so its header fails for the same reason.
    const Tensor none(value.dtype(), Shape({0}));
    LEAT_RETURN_IF_ERROR(format_npy(none).status().while_doing(cat("writing '", name, "'")));
  }
  return {};
}

}  // namespace

Status format_npz(const std::map<std::string, Tensor>& arrays,
                  const std::function<Status(std::span<const std::byte>)>& take) {
  LEAT_RETURN_IF_ERROR(check_arrays(arrays));
  // The offsets of the files are known only when they were written, so the directory follows them.
  Record directory;
  uint64_t at = 0;
  for (const auto& [name, value] : arrays) {
    LEAT_ASSIGN_OR_RETURN(const Bytes bytes, format_npy(value));
    const ZipEntry entry{name + ".npy", crc32(bytes), bytes.size(), at};
    const Record header = local_header(entry);
    LEAT_RETURN_IF_ERROR(take(header.bytes()));
    LEAT_RETURN_IF_ERROR(take(bytes));
    add_to_directory(directory, entry);
    at += header.bytes().size() + bytes.size();
  }
  LEAT_RETURN_IF_ERROR(take(directory.bytes()));
  return take(end_of_directory(arrays.size(), at, directory.bytes().size()).bytes());
}

}  // namespace leat
