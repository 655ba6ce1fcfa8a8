// Reads an IDX file. A tensor must never be larger than the bytes that it came from.
#include "ops/formats/idx.h"
#include "tests/fuzz/fuzz.h"
#include "tests/memory_files.h"

// An input that is compressed may inflate to this much.
static constexpr uint64_t kMostBytes = 16 << 20;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace leat;
  const auto bytes = bytes_of_input(data, size);
  MemoryFiles files(bytes);
  const auto tensor = read_idx(files, "input", kMostBytes);
  if (!tensor.ok()) {
    require_message(tensor.status());
    return 0;
  }
  require(tensor->valid(), "a tensor that was read is valid");
  const bool is_gzip = size > 1 && data[0] == 0x1f && data[1] == 0x8b;
  require(is_gzip || tensor->bytes() < size, "a tensor is smaller than its file");
  return 0;
}
