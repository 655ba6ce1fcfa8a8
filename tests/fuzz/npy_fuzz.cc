// Reads an NPY file. A tensor that was read must be written, and read back as the same.
#include "ops/formats/npy.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace leat;
  const auto tensor = parse_npy(bytes_of_input(data, size), "input");
  if (!tensor.ok()) {
    require_message(tensor.status());
    return 0;
  }
  require(tensor->bytes() < size, "a tensor is smaller than its file");
  const auto written = format_npy(*tensor);
  require(written.ok(), "a tensor that was read can be written");
  const auto again = parse_npy(*written, "written");
  require(again.ok() && again->identical(*tensor), "a tensor that was written reads back the same");
  return 0;
}
