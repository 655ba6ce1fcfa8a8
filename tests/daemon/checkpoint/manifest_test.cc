// Tests manifests whose hash is right but whose content is invalid.
#include "daemon/checkpoint/manifest.h"

#include "devices/base/sha256.h"
#include "devices/base/text.h"
#include "tests/catch.h"

namespace leat {
namespace {

using Catch::Contains;

std::string hash_of_text(std::string_view text) {
  return to_hex(sha256(std::as_bytes(std::span(text.data(), text.size()))));
}

Manifest of_two_parts() {
  Manifest manifest;
  manifest.step = 10;
  manifest.job = "small";
  manifest.parts = {{12, hash_of_text("a")}, {34, hash_of_text("b")}};
  return manifest;
}

std::string refusal_of(const std::string& text) {
  const auto read = parse_manifest(std::as_bytes(std::span(text.data(), text.size())), "m");
  CHECK(read.status().code() == Code::invalid_argument);
  return read.status().message();
}

// Returns the text with a word changed, and with the right hash of its new content.
std::string with_word(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  text.replace(at, from.size(), to);
  const std::string before = ",\n  \"sha256\": \"";
  const std::string body = text.substr(0, text.rfind(before));
  return cat(body, before, hash_of_text(body), "\"\n}\n");
}

TEST_CASE("a manifest reads as it was written") {
  Manifest manifest = of_two_parts();
  manifest.previous = {5, hash_of_text("c")};
  manifest.every_float = false;
  const std::string text = print_manifest(manifest);
  const auto read = parse_manifest(std::as_bytes(std::span(text.data(), text.size())), "m");
  REQUIRE(read.ok());
  CHECK(*read == manifest);
}

TEST_CASE("a manifest whose numbers cannot be is refused") {
  Manifest manifest = of_two_parts();
  SECTION("no parts") {
    manifest.parts.clear();
    CHECK(refusal_of(print_manifest(manifest)) == "m: expected 1 to 4096 parts, received 0");
  }
  SECTION("a hash that is none") {
    manifest.parts[1].sha256 = "b";
    CHECK(refusal_of(print_manifest(manifest)) ==
          "m: expected the SHA-256 of part-00001-of-00002.safetensors, received b");
  }
  SECTION("a step below 0") {
    manifest.step = -1;
    CHECK(refusal_of(print_manifest(manifest)) == "m: expected a step of at least 0, received -1");
  }
  SECTION("a checkpoint before it that is not") {
    manifest.previous = {10, hash_of_text("c")};
    CHECK(refusal_of(print_manifest(manifest)) ==
          "m: expected a checkpoint before step 10, received 10");
  }
}

TEST_CASE("a manifest of a rule that is not known is refused") {
  Manifest manifest = of_two_parts();
  manifest.every_float = false;
  CHECK(refusal_of(with_word(print_manifest(manifest), "\"parameters\"", "\"nothing\"")) ==
        "m: expected trains to be \"parameters\", received \"nothing\"");
}

TEST_CASE("a manifest with another format or other names is refused") {
  const std::string text = print_manifest(of_two_parts());
  CHECK(refusal_of(with_word(text, "\"format\": 2", "\"format\": 3")) ==
        "m: expected format 2, received 3");
  CHECK(refusal_of(with_word(text, "part-00000-of", "part-00009-of")) ==
        "m: expected part part-00000-of-00002.safetensors, received "
        "part-00009-of-00002.safetensors");
  CHECK_THAT(refusal_of(with_word(text, "\"step\"", "\"steps\"")),
             Contains("m: expected a checkpoint's manifest, "));
  CHECK_THAT(refusal_of(text + " "), Contains("expected it to end with the SHA-256 of its text"));
}

}  // namespace
}  // namespace leat
