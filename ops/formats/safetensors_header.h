// The reader and the writer of the header of a safetensors file, which is JSON. Private to
// ops/formats.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ops/formats/safetensors.h"

namespace leat {

inline constexpr uint64_t kSafeTensorsPrefix = 8;  // bytes that hold the size of the header

// Parses `header`, the text from byte 8 on, of a file with `data_bytes` bytes after it. Every entry
// of the result lies within the file and has as many bytes as its shape needs.
Result<SafeTensorsIndex> parse_safetensors_header(std::string_view header, uint64_t data_bytes,
                                                  std::string_view subject);

struct FormattedSafeTensors {
  std::string header;  // with the 8 bytes before it
  std::vector<std::span<const std::byte>>
      data;  // of the tensors of the content, in order of offset
};
Result<FormattedSafeTensors> format_safetensors_header(const SafeTensors& content);

}  // namespace leat
