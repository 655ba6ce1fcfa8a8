#include "ops/formats/safetensors.h"

#include <array>
#include <vector>

#include "devices/base/text.h"
#include "ops/formats/elements.h"
#include "ops/formats/safetensors_header.h"

namespace leat {
namespace {

// Returns the size of the header, from the first bytes of a file of `file_bytes`.
Result<uint64_t> check_prefix(uint64_t header_bytes, uint64_t file_bytes,
                              std::string_view subject) {
  if (header_bytes > kSafeTensorsHeaderBytes) {
    return invalid_argument(cat("'", subject, "': expected a header of at most ",
                                kSafeTensorsHeaderBytes, " bytes, byte 0 says ", header_bytes));
  }
  // The caller has made sure that the file has the 8 bytes of the prefix, so this does not wrap.
  if (header_bytes > file_bytes - kSafeTensorsPrefix) {
    return invalid_argument(cat("'", subject, "': expected a header of ", header_bytes,
                                " bytes at byte 8, the file has ", file_bytes, " bytes"));
  }
  return header_bytes;
}

// The error of a file that ends before the size of its header.
Status too_short(uint64_t file_bytes, std::string_view subject) {
  return invalid_argument(cat("'", subject,
                              "': expected the 8 bytes of the header's size at byte 0, ",
                              "the file has ", file_bytes, " bytes"));
}

std::string subject_of(std::string_view file, std::string_view tensor) {
  return cat("'", file, "': tensor '", tensor, "'");
}

}  // namespace

// The header is checked whole against the size of the data, so each entry's range is in `bytes`.
Result<SafeTensors> parse_safetensors(std::span<const std::byte> bytes, std::string_view subject) {
  if (bytes.size() < kSafeTensorsPrefix) return too_short(bytes.size(), subject);
  LEAT_ASSIGN_OR_RETURN(const uint64_t header_bytes,
                        check_prefix(load_little<uint64_t>(bytes.data()), bytes.size(), subject));
  const std::string_view header(reinterpret_cast<const char*>(bytes.data() + kSafeTensorsPrefix),
                                header_bytes);
  LEAT_ASSIGN_OR_RETURN(
      SafeTensorsIndex index,
      parse_safetensors_header(header, bytes.size() - kSafeTensorsPrefix - header_bytes, subject));
  SafeTensors out;
  out.metadata = std::move(index.metadata);
  for (const auto& [name, entry] : index.entries) {
    const auto data = bytes.subspan(entry.begin, entry.end - entry.begin);
    LEAT_ASSIGN_OR_RETURN(Tensor tensor, tensor_from_bytes(entry.dtype, entry.shape, data,
                                                           subject_of(subject, name), entry.begin));
    out.tensors.emplace(name, std::move(tensor));
  }
  return out;
}

Result<SafeTensorsIndex> read_safetensors_index(const ReadableFile& file) {
  if (file.size() < kSafeTensorsPrefix) return too_short(file.size(), file.path());
  std::array<std::byte, kSafeTensorsPrefix> prefix;
  // The header is allocated only after its size was compared with the file's.
  LEAT_RETURN_IF_ERROR(file.read(0, prefix));
  LEAT_ASSIGN_OR_RETURN(
      const uint64_t header_bytes,
      check_prefix(load_little<uint64_t>(prefix.data()), file.size(), file.path()));
  std::string header(header_bytes, '\0');
  LEAT_RETURN_IF_ERROR(file.read(kSafeTensorsPrefix, std::as_writable_bytes(std::span(header))));
  return parse_safetensors_header(header, file.size() - kSafeTensorsPrefix - header_bytes,
                                  file.path());
}

// The elements go from the file straight into the tensor. The index has checked the entry's range.
Result<Tensor> read_safetensors_entry(const ReadableFile& file, const std::string& name,
                                      const SafeTensorsIndex::Entry& entry) {
  // The name is used in messages only: the entry alone says where the tensor is.
  const std::string subject = subject_of(file.path(), name);
  auto tensor = Tensor::create(entry.dtype, entry.shape);
  if (!tensor.ok()) return tensor.status().while_doing(cat("reading ", subject));
  LEAT_RETURN_IF_ERROR(file.read(entry.begin, writable_bytes(*tensor)));
  LEAT_RETURN_IF_ERROR(check_booleans(*tensor, subject, entry.begin));
  return tensor;
}

Result<SafeTensors> read_safetensors(Files& files, const std::string& path) {
  LEAT_ASSIGN_OR_RETURN(const auto file, files.open(path));
  LEAT_ASSIGN_OR_RETURN(SafeTensorsIndex index, read_safetensors_index(*file));
  SafeTensors out;
  out.metadata = std::move(index.metadata);
  for (const auto& [name, entry] : index.entries) {
    LEAT_ASSIGN_OR_RETURN(Tensor tensor, read_safetensors_entry(*file, name, entry));
    out.tensors.emplace(name, std::move(tensor));
  }
  return out;
}

Status format_safetensors(const SafeTensors& content, const TakeBytes& take) {
  LEAT_ASSIGN_OR_RETURN(const FormattedSafeTensors formatted, format_safetensors_header(content));
  LEAT_RETURN_IF_ERROR(take(std::as_bytes(std::span(formatted.header))));
  for (std::span<const std::byte> data : formatted.data) LEAT_RETURN_IF_ERROR(take(data));
  return {};
}

Status format_safetensors(std::span<const ArrayEntry> entries,
                          const std::map<std::string, std::string>& metadata,
                          const ArrayElements& elements, const TakeBytes& take) {
  const std::vector<size_t> order = safetensors_order(entries);
  LEAT_ASSIGN_OR_RETURN(const std::string header,
                        format_safetensors_header(entries, order, metadata));
  LEAT_RETURN_IF_ERROR(take(std::as_bytes(std::span(header))));
  for (const size_t index : order) {
    const ArrayEntry& entry = entries[index];
    uint64_t written = 0;
    LEAT_RETURN_IF_ERROR(elements(index, [&](std::span<const std::byte> bytes) {
      written += bytes.size();
      return take(bytes);
    }));
    if (written != entry.bytes())
      return internal_error(
          cat("tensor '", entry.name, "': expected ", entry.bytes(), " bytes, received ", written));
  }
  return {};
}

Result<Bytes> format_safetensors(const SafeTensors& content) {
  LEAT_ASSIGN_OR_RETURN(const FormattedSafeTensors formatted, format_safetensors_header(content));
  const auto header = std::as_bytes(std::span(formatted.header));
  // The whole file is built in memory, in one allocation.
  size_t bytes = header.size();
  for (std::span<const std::byte> data : formatted.data) bytes += data.size();
  Bytes out;
  out.reserve(bytes);
  out.insert(out.end(), header.begin(), header.end());
  for (std::span<const std::byte> data : formatted.data)
    out.insert(out.end(), data.begin(), data.end());
  return out;
}

Status write_safetensors(Files& files, const std::string& path, const SafeTensors& content) {
  auto formatted = format_safetensors_header(content);
  if (!formatted.ok()) return formatted.status().while_doing(cat("writing '", path, "'"));
  // The pieces are the caller's own tensors, so writing makes no copy of them.
  std::vector<std::span<const std::byte>> pieces = {std::as_bytes(std::span(formatted->header))};
  pieces.insert(pieces.end(), formatted->data.begin(), formatted->data.end());
  return write_file_atomically(files, path, pieces);
}

}  // namespace leat
