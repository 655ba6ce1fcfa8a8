// Conversions of the messages of a session, for both sides of a connection. Includes Cap'n Proto:
// for .cc files.
//
// Messages come from a peer, so the readers check them: settings that no session can have, an
// invalid type, or a number of bytes that does not match the type, are invalid_argument.
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <variant>
#include <vector>

#include "daemon/spec/session_settings.h"
#include "daemon/spec/step_signature.h"
#include "daemon/wire/cluster.capnp.h"
#include "devices/base/status.h"
#include "devices/core/tensor.h"
#include "transport/rpc/chunks.h"

namespace leat {

// The limit for all values in one message together; further values are sent as blobs.
inline constexpr size_t kInlineBytes = 256u << 10;

// A tensor to send, either in the message itself or as a separate blob.
struct PackedValue {
  Tensor tensor;                     // null: in the message
  std::shared_ptr<const Blob> blob;  // null: in the message
  BlobInfo info;                     // of the blob
};

// Decides in the order of `tensors` which values are in the message. Copies and hashes the others,
// so do not call it on a loop's thread.
std::vector<PackedValue> pack_values(std::span<const Tensor> tensors);

// The type and shape of a tensor; an invalid dtype means that there is no tensor.
struct TensorType {
  DType dtype = DType::invalid;
  Shape shape;
};

void write_type(const Tensor& tensor, wire::TensorType::Builder out);
Result<TensorType> read_type(wire::TensorType::Reader in);
// Returns the bytes of a tensor, which must outlive the result.
capnp::Data::Reader bytes_of(const Tensor& tensor);
// Makes a tensor with a copy of the bytes.
Result<Tensor> make_tensor(const TensorType& type, std::span<const std::byte> bytes);
std::span<const std::byte> bytes_of(capnp::Data::Reader data);

void write_opening(const SessionOpening& opening, wire::SessionRequest::Builder out);
Result<SessionOpening> read_opening(wire::SessionRequest::Reader in);

// A request for a step, without its feeds.
struct StepOrder {
  uint64_t number = 0;                   // for cancel(); the client chooses it
  std::chrono::milliseconds timeout{0};  // 0: the session's
  std::variant<Signature, CallableId> what;
};

void write_order(const StepOrder& order, wire::StepRequest::Builder out);
StepOrder read_order(wire::StepRequest::Reader in);

void write_signature(const Signature& signature, wire::Signature::Builder out);
Signature read_signature(wire::Signature::Reader in);

}  // namespace leat
