// Reads a safetensors file. Tensors that were read must be written, read back as the same, and
// written as the same again.
#include "ops/formats/safetensors.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace leat;
  const auto content = parse_safetensors(bytes_of_input(data, size), "input");
  if (!content.ok()) {
    require_message(content.status());
    return 0;
  }
  const auto written = format_safetensors(*content);
  require(written.ok(), "tensors that were read can be written");
  const auto again = parse_safetensors(*written, "written");
  require(again.ok(), "tensors that were written can be read");
  require(again->metadata == content->metadata, "metadata read back the same");
  require(again->tensors.size() == content->tensors.size(), "as many tensors read back");
  for (const auto& [name, tensor] : content->tensors) {
    const auto found = again->tensors.find(name);
    require(found != again->tensors.end() && found->second.identical(tensor),
            "tensors read back the same");
  }
  require(*format_safetensors(*again) == *written, "equal tensors are written as equal bytes");
  return 0;
}
