// Reads an IDX file. A tensor must never be larger than the bytes that it came from.
#include "ops/formats/idx.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace leat;
  const auto tensor = parse_idx(bytes_of_input(data, size), "input");
  if (!tensor.ok()) {
    require_message(tensor.status());
    return 0;
  }
  require(tensor->valid(), "a tensor that was read is valid");
  require(tensor->bytes() < size, "a tensor is smaller than its file");
  return 0;
}
