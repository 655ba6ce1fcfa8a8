// The content of a secret file: a secret, or a token, which is written as it was read.
#include "tests/fuzz/fuzz.h"
#include "transport/rpc/grant.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace leat;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto read = read_credential(text);
  if (!read.ok()) {
    require_message(read.status());
    return 0;
  }
  if (read->grant.right == Right::member) {
    require(read->key == text, "a secret is itself");
    return 0;
  }
  require(check_name(read->grant.name).ok() && read->key.size() == 32, "a token is sound");
  const auto again = read_credential(write_token(*read));
  require(again.ok() && again->grant == read->grant && again->key == read->key,
          "a token is read as it was written");
  return 0;
}
