// Files with random changes: messages may quote them, but must be valid text.
#include <random>

#include "devices/base/utf8.h"
#include "ops/formats/safetensors.h"
#include "ops/graph/op.h"
#include "ops/text/parse.h"
#include "tests/catch.h"
#include "tests/must.h"
#include "tests/ops/op_testing.h"

namespace leat {
namespace {

constexpr int kMutations = 3'000;

constexpr std::string_view kNet = R"(<ir_version: 10, opset_import: ["" : 20, "leat" : 1]>
net (float[N,4] x) => (float[N,3] "größe") {
  h = leat.Dense <units = 5, activation = "relu"> (x)
  "größe" = leat.Dense <units = 3, name = "out"> (h)
}
)";

// Changes, inserts or removes one to four bytes. Half of the new bytes are not ASCII.
std::string mutated(std::string bytes, std::mt19937& random) {
  const auto below = [&](size_t n) { return random() % n; };
  for (size_t i = 0, count = 1 + below(4); i < count; ++i) {
    const size_t at = below(bytes.size());
    const char byte = static_cast<char>(below(2) == 0 ? 0x80 + below(128) : below(128));
    switch (below(3)) {
      case 0:
        bytes[at] = byte;
        break;
      case 1:
        bytes.insert(at, 1 + below(3), byte);
        break;
      default:
        bytes.erase(at, 1);
    }
  }
  return bytes;
}

// `read` returns the status of reading the bytes.
template <typename Read>
void check_messages(const std::string& good, Read read) {
  std::mt19937 random(20'250'601);
  int refused = 0, quoted = 0;
  for (int i = 0; i < kMutations; ++i) {
    const Status status = read(mutated(good, random));
    if (status.ok()) continue;
    ++refused;
    if (status.message().find("\\x") != std::string::npos) ++quoted;
    if (is_utf8(status.message())) continue;
    FAIL("mutation " << i << ": no UTF-8: " << printable(status.message()));
  }
  CHECK(refused > kMutations / 2);
  CHECK(quoted > kMutations / 100);
}

TEST_CASE("a message about a mutated graph in the text form is UTF-8") {
  check_messages(std::string(kNet), [](const std::string& text) {
    return parse_graph(text, testing::test_catalogue(), "net.onnxtxt").status();
  });
}

TEST_CASE("a message about a mutated safetensors file is UTF-8") {
  SafeTensors content;
  content.tensors.emplace("größe/kernel", Tensor(DType::f32, {4, 3}));
  content.tensors.emplace("h/bias", Tensor(DType::f64, {3}));
  content.metadata = {{"format", "pt"}, {"wer", "größe"}};
  const Bytes bytes = must(format_safetensors(content));
  // Changes in the bytes of tensors cause no error, so only the bytes before them change.
  const std::string good(reinterpret_cast<const char*>(bytes.data()), bytes.size() - 72);
  check_messages(good, [](const std::string& text) {
    const std::string whole = text + std::string(72, '\0');
    return parse_safetensors(std::as_bytes(std::span(whole)), "w.safetensors").status();
  });
}

}  // namespace
}  // namespace leat
