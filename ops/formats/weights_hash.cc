#include "ops/formats/weights_hash.h"

#include "devices/base/sha256.h"
#include "ops/formats/elements.h"

namespace leat {
namespace {

void add_number(Sha256& hash, uint64_t number) {
  hash.update(std::as_bytes(std::span(&number, 1)));  // little-endian: see elements.h
}

void add_text(Sha256& hash, std::string_view text) {
  add_number(hash, text.size());
  hash.update(text);
}

}  // namespace

std::string weights_sha256(const std::map<std::string, Tensor>& variables) {
  Sha256 hash;
  for (const auto& [name, tensor] : variables) {
    add_text(hash, name);
    add_text(hash, dtype_name(tensor.dtype()));
    add_number(hash, static_cast<uint64_t>(tensor.shape().rank()));
    for (int64_t size : tensor.shape()) add_number(hash, static_cast<uint64_t>(size));
    add_number(hash, tensor.bytes());
    hash.update(bytes_of(tensor));
  }
  return to_hex(hash.finish());
}

}  // namespace leat
