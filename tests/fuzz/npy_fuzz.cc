// Reads an NPY file. A tensor that was read must be written, and read back as the same.
#include "ops/formats/npy.h"
#include "tests/fuzz/fuzz.h"
#include "tests/memory_files.h"

// An input that is compressed may inflate to this much.
static constexpr uint64_t kMostBytes = 16 << 20;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace leat;
  const auto bytes = bytes_of_input(data, size);
  MemoryFiles files(bytes);
  const auto tensor = read_npy(files, "input", kMostBytes);
  if (!tensor.ok()) {
    require_message(tensor.status());
    return 0;
  }
  const bool is_gzip = size > 1 && data[0] == 0x1f && data[1] == 0x8b;
  require(is_gzip || tensor->bytes() < size, "a tensor is smaller than its file");
  const auto written = format_npy(*tensor);
  require(written.ok(), "a tensor that was read can be written");
  MemoryFiles copies(*written);
  const auto again = read_npy(copies, "written");
  require(again.ok() && again->identical(*tensor), "a tensor that was written reads back the same");
  return 0;
}
