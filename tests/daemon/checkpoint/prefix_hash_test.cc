#include "daemon/checkpoint/prefix_hash.h"

#include <fstream>

#include "devices/base/sha256.h"
#include "tests/catch.h"
#include "tests/must.h"
#include "tests/temporary_directory.h"

namespace leat {
namespace {

std::string hash_of_prefix(const std::string& text, size_t bytes) {
  return to_hex(sha256(std::as_bytes(std::span(text).first(bytes))));
}

TEST_CASE("the hash of a file's first bytes goes on where it stopped") {
  const TemporaryDirectory folder;
  const std::string path = folder / "log";
  std::string text(3'000'000, 'x');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 7 + i / 251);
  std::ofstream(path, std::ios::binary) << text;
  PrefixHash hash(real_files(), path);
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{1}, size_t{1 << 20}, text.size()})
    CHECK(must(hash.until(bytes)) == hash_of_prefix(text, bytes));
  // The file grows, and what was read before is not read again.
  const std::string rest = "the rest";
  std::ofstream(path, std::ios::binary) << std::string(text.size(), '-') << rest;
  text += rest;
  CHECK(must(hash.until(text.size())) == hash_of_prefix(text, text.size()));
  // Fewer bytes are read anew.
  CHECK(must(hash.until(2)) == hash_of_prefix("--", 2));
  CHECK(hash.until(text.size() + 1).status().message() ==
        "'" + path + "': expected at least 3000009 bytes, received 3000008");
  CHECK_FALSE(PrefixHash(real_files(), folder / "none").until(1).ok());
}

}  // namespace
}  // namespace leat
