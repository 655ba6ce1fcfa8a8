// The reader and the writer of the header of a safetensors file, which is JSON. Private to
// ops/formats.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ops/formats/array_entry.h"
#include "ops/formats/safetensors.h"

namespace leat {

inline constexpr uint64_t kSafeTensorsPrefix = 8;  // bytes that hold the size of the header

// Parses `header`, the text from byte 8 on, of a file with `data_bytes` bytes after it. Every entry
// of the result lies within the file and has as many bytes as its shape needs; together they cover
// the data without gaps and overlaps. The offsets of the result count from the start of the file.
//
// invalid_argument for text that is no such JSON, an unknown or repeated key, and offsets that do
// not fit; unimplemented for an element type that DType lacks. `subject` is the file, for messages.
Result<SafeTensorsIndex> parse_safetensors_header(std::string_view header, uint64_t data_bytes,
                                                  std::string_view subject);

// The indexes of the entries in the order of their data: the largest elements first, then by name.
std::vector<size_t> safetensors_order(std::span<const ArrayEntry> entries);

// The header of a file with these tensors, whose data are in that order, with the 8 bytes of its
// size before it, and spaces up to a multiple of 8 after it. invalid_argument for a name or
// metadata that is not UTF-8, the name "__metadata__", and for a header above
// kSafeTensorsHeaderBytes. REQUIRES: `order` is that of the entries, whose names differ.
Result<std::string> format_safetensors_header(std::span<const ArrayEntry> entries,
                                              std::span<const size_t> order,
                                              const std::map<std::string, std::string>& metadata);

// The pieces of a file, which follow each other without gaps.
struct FormattedSafeTensors {
  // With the 8 bytes of its size before it, and spaces up to a multiple of 8 after it.
  std::string header;
  // The bytes of the tensors of the content, in order of offset. They are not copied: the content
  // must outlive them.
  std::vector<std::span<const std::byte>> data;
};
// Formats the header of `content`. The errors are those above, and invalid_argument for a tensor
// that is invalid.
Result<FormattedSafeTensors> format_safetensors_header(const SafeTensors& content);

}  // namespace leat
