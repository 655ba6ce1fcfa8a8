// leat.Digest (see digest.h).
#include "ops/definitions/digest.h"

#include <array>
#include <cstring>

#include "ops/definitions/definitions.h"
#include "ops/graph/op.h"

namespace leat {
namespace {

constexpr uint64_t kFactor = 0x9e3779b97f4a7c15;  // odd
constexpr size_t kLanes = 4;

// A bijection of the digest for each word, and of the word for each digest: so one changed word
// changes the result. The product spreads a changed bit upwards, and the shift down again, so that
// one changed bit of the next word cannot take it back.
uint64_t mix(uint64_t digest, uint64_t word) {
  const uint64_t product = (digest ^ word) * kFactor;
  return product ^ (product >> 32);
}

Status infer_digest(InferContext& ctx) {
  ctx.set_tensor(0, DType::i64, Shape{1});
  return {};
}

}  // namespace

// Words go to the lanes in turn, so that the products of four words run at the same time.
uint64_t digest_of(std::span<const std::byte> bytes) {
  std::array<uint64_t, kLanes> lanes{1, 2, 3, 4};
  const std::byte* at = bytes.data();
  size_t left = bytes.size();
  std::array<uint64_t, kLanes> words{};
  for (; left >= sizeof words; at += sizeof words, left -= sizeof words) {
    std::memcpy(words.data(), at, sizeof words);
    for (size_t i = 0; i < kLanes; ++i) lanes[i] = mix(lanes[i], words[i]);
  }
  words = {};
  if (left > 0) std::memcpy(words.data(), at, left);
  uint64_t digest = bytes.size();
  for (size_t i = 0; i < kLanes; ++i) digest = mix(digest, mix(lanes[i], words[i]));
  return mix(digest, 0);
}

void register_digest_op(Catalogue& catalogue) {
  // The digest of x, as each shard has it: also of a value that should be the same on all shards.
  // `of` says what x is, and names the failpoint "digest/OF" that changes a bit of x before.
  catalogue.add(Op("leat.Digest")
                    .input("x", "T")
                    .output("digest", "int64")
                    .type("T", kAllTypes)
                    .attr("of", std::string())
                    .per_shard()
                    .infer(infer_digest));
}

}  // namespace leat
