// Reads any bytes as a plan's message. An error must have a message. An accepted plan has passed
// the verifier, prints, and is written back to bytes that are read and written as the same.
#include "ops/catalogue.h"
#include "ops/graph/op.h"
#include "scheduler/capnp/plan_file.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace leat;
  static const Catalogue kOps = standard_catalogue();
  const ChunkSource zeros = [](const Sha256Digest&) -> Result<std::span<const std::byte>> {
    static const Bytes kZeros(kChunkBytes);
    return std::span<const std::byte>(kZeros);
  };
  const auto plan = decode_plan(bytes_of_input(data, size), zeros, kOps);
  if (!plan.ok()) {
    require_message(plan.status());
    return 0;
  }
  require(verify(*plan).ok(), "what is read is verified");
  require(!plan->text().empty(), "what is read prints");
  (void)plan->summary();
  const auto encoded = encode_plan(*plan);
  require(encoded.ok(), "what is read is written");
  const auto again = decode_plan(*encoded, kOps);
  require(again.ok(), "what is written is read");
  require(again->text() == plan->text(), "what is written is the same plan");
  const auto twice = encode_plan(*again);
  require(twice.ok() && twice->message == encoded->message, "what is written twice is the same");
  return 0;
}
