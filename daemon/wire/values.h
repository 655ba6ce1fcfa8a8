// Tensors and signatures, to and from the messages of a session: one place for both ends. Includes
// Cap'n Proto: for .cc files.
//
// What is read comes from a peer: a type that is none, or bytes that are not the type's, are
// invalid_argument.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "daemon/spec/step_signature.h"
#include "daemon/wire/cluster.capnp.h"
#include "devices/base/status.h"
#include "devices/core/tensor.h"
#include "transport/rpc/chunks.h"

namespace leat {

// Of all values in one message together; what is more goes as blobs.
inline constexpr size_t kInlineBytes = 256u << 10;

// A tensor on its way: in the message itself, or as a blob beside it.
struct PackedValue {
  Tensor tensor;
  std::shared_ptr<const Blob> blob;  // null: in the message
  BlobInfo info;                     // of the blob
};

// Small ones first come, first served. Copies and hashes those that become blobs: not for a loop.
std::vector<PackedValue> pack_values(std::span<const Tensor> tensors);

// What a tensor is but for its bytes; no dtype: no tensor.
struct TensorType {
  DType dtype = DType::invalid;
  Shape shape;
};

void write_type(const Tensor& tensor, wire::TensorType::Builder out);
Result<TensorType> read_type(wire::TensorType::Reader in);
// The bytes of a tensor; it keeps them alive.
capnp::Data::Reader bytes_of(const Tensor& tensor);
// Copies the bytes.
Result<Tensor> make_tensor(const TensorType& type, std::span<const std::byte> bytes);
std::span<const std::byte> bytes_of(capnp::Data::Reader data);

void write_signature(const Signature& signature, wire::Signature::Builder out);
Signature read_signature(wire::Signature::Reader in);

}  // namespace leat
