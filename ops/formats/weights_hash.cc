#include "ops/formats/weights_hash.h"

#include "devices/base/sha256.h"
#include "ops/formats/elements.h"

namespace leat {
namespace {

// Adds a number as 8 bytes.
void add_number(Sha256& hash, uint64_t number) {
  hash.update(std::as_bytes(std::span(&number, 1)));  // little-endian: see elements.h
}

void add_text(Sha256& hash, std::string_view text) {
  add_number(hash, text.size());
  hash.update(text);
}

}  // namespace

// The map has the names in ascending order of their bytes, as the header promises: the hash must
// not depend on the order in which variables were made.
std::string weights_sha256(const std::map<std::string, Tensor>& variables) {
  Sha256 hash;
  for (const auto& [name, tensor] : variables) {
    add_text(hash, name);
    // The parts follow each other as the header lists them. A change of the order or of a size
    // would change the hash of every model, and no hash of an older build could be compared any
    // more.
    add_text(hash, dtype_name(tensor.dtype()));
    add_number(hash, static_cast<uint64_t>(tensor.shape().rank()));
    for (int64_t size : tensor.shape()) add_number(hash, static_cast<uint64_t>(size));
    add_number(hash, tensor.bytes());
    hash.update(bytes_of(tensor));
  }
  return to_hex(hash.finish());
}

}  // namespace leat
