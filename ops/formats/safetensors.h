// safetensors: named tensors in one file. Many tools read it, and it cannot contain code.
//
//   byte 0   u64 little-endian: size of the header
//   byte 8   the header, JSON, spaces after it:
//            {"__metadata__": {"key": "value"}, "w": {"dtype": "F32", "shape": [2,3],
//            "data_offsets": [0,24]}}
//   then     the elements, row-major, little-endian; offsets count from here
//
// The reader is strict: every byte of the data belongs to exactly one tensor, and every key is
// known and occurs once. The writer gives equal bytes for equal tensors: the data are in order of
// element size (largest first, so that all elements are aligned, as readers that map the file
// need), then of name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "devices/base/files.h"
#include "devices/core/tensor.h"
#include "ops/formats/array_entry.h"

namespace leat {

inline constexpr uint64_t kSafeTensorsHeaderBytes = 100'000'000;  // as in the reference reader
inline constexpr size_t kSafeTensorsCount = 1'000'000;            // tensors in one file

// The contents of a file. The tensors have memory of their own and do not refer to the file.
struct SafeTensors {
  std::map<std::string, Tensor> tensors;
  std::map<std::string, std::string> metadata;
};

// The header alone. Offsets count from the start of the file.
struct SafeTensorsIndex {
  struct Entry {
    DType dtype = DType::invalid;
    Shape shape;
    uint64_t begin = 0;
    uint64_t end = 0;
  };
  std::map<std::string, Entry> entries;
  std::map<std::string, std::string> metadata;
};

// Parses a file's bytes. `subject` begins the messages: the file's name. unimplemented for an
// element type that DType lacks.
Result<SafeTensors> parse_safetensors(std::span<const std::byte> bytes, std::string_view subject);

// Reads tensor by tensor, so that the file is never in memory a second time. Errors are those of
// parse_safetensors() and of the file system.
Result<SafeTensors> read_safetensors(Files& files, const std::string& path);

// Read a file in two steps: the index first, then some of its tensors. The index is checked whole
// against the size of the file.
Result<SafeTensorsIndex> read_safetensors_index(const ReadableFile& file);
// `name` is for messages; `entry` must be of the index of this file. invalid_argument for booleans
// other than 0 and 1. Threads: several may read entries of one file.
Result<Tensor> read_safetensors_entry(const ReadableFile& file, const std::string& name,
                                      const SafeTensorsIndex::Entry& entry);

// invalid_argument for an invalid tensor, or for a name that is not UTF-8 or is "__metadata__".
Result<Bytes> format_safetensors(const SafeTensors& content);
// Passes the same bytes to `take` piece by piece, until it fails.
Status format_safetensors(const SafeTensors& content, const TakeBytes& take);
// The same for tensors that are not in memory: it asks for the elements of each once, in the order
// of the file. internal if there are more or fewer elements. REQUIRES: the names differ.
Status format_safetensors(std::span<const ArrayEntry> entries,
                          const std::map<std::string, std::string>& metadata,
                          const ArrayElements& elements, const TakeBytes& take);
// Writes the file atomically: see write_file_atomically.
Status write_safetensors(Files& files, const std::string& path, const SafeTensors& content);

}  // namespace leat
