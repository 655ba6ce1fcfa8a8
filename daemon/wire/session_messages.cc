#include "daemon/wire/session_messages.h"

#include <algorithm>
#include <cctype>

#include "daemon/jobs/grammar.h"
#include "daemon/wire/views.h"
#include "devices/base/text.h"

namespace leat {
namespace {

using std::chrono::milliseconds;

constexpr uint32_t kMaxPlans = 1'024;
constexpr int kMaxShards = 4'096;
constexpr uint32_t kMaxSaveEvery = 1'000'000;
constexpr uint64_t kMaxKeepMs = uint64_t{366} * 24 * 3600 * 1000;

}  // namespace

std::vector<PackedValue> pack_values(std::span<const Tensor> tensors) {
  std::vector<PackedValue> packed;
  size_t inline_bytes = 0;
  for (const Tensor& tensor : tensors) {
    PackedValue& value = packed.emplace_back();
    value.tensor = tensor;
    // No tensor has no bytes: its place in the order is kept by an empty value.
    if (!tensor.valid()) continue;
    // A small value behind a large one may still go into the message.
    if (inline_bytes + tensor.bytes() <= kInlineBytes) {
      inline_bytes += tensor.bytes();
      continue;
    }
    const auto* bytes = static_cast<const std::byte*>(tensor.raw());
    // A copy, which the upload holds until it has ended.
    value.blob = std::make_shared<const Blob>(bytes, bytes + tensor.bytes());
    // The hash goes into the message, and is checked where the blob arrives.
    value.info = describe(*value.blob);
  }
  return packed;
}

void write_type(const Tensor& tensor, wire::TensorType::Builder out) {
  // An unset name of the dtype stands for no tensor.
  if (!tensor.valid()) return;
  const std::string_view name = dtype_name(tensor.dtype());
  out.setDtype({name.data(), name.size()});
  const auto sizes = tensor.shape().dims();
  auto dims = out.initDims(static_cast<uint32_t>(sizes.size()));
  for (uint32_t i = 0; i < dims.size(); ++i) dims.set(i, sizes[i]);
}

Result<TensorType> read_type(wire::TensorType::Reader in) {
  TensorType type;
  const std::string name = to_string(in.getDtype());
  // write_type() leaves the name out if there is no tensor.
  if (name.empty()) return type;
  std::vector<int64_t> sizes;
  for (const int64_t size : in.getDims()) sizes.push_back(size);
  const auto dtype = dtype_from_name(name);
  // The numbers come from a peer: they may be negative, or too large together.
  const auto shape = Shape::checked(sizes);
  if (!dtype || !shape) {
    return invalid_argument(
        cat("a tensor: expected a type and a shape, received ", name, "[", join(sizes, ","), "]"));
  }
  type.dtype = *dtype;
  type.shape = *shape;
  return type;
}

capnp::Data::Reader bytes_of(const Tensor& tensor) {
  if (!tensor.valid()) return {};
  return {static_cast<const kj::byte*>(tensor.raw()), tensor.bytes()};
}

std::span<const std::byte> bytes_of(capnp::Data::Reader data) {
  return {reinterpret_cast<const std::byte*>(data.begin()), data.size()};
}

Result<Tensor> make_tensor(const TensorType& type, std::span<const std::byte> bytes) {
  const std::string text = type.dtype == DType::invalid
                               ? "no tensor"
                               : cat(dtype_name(type.dtype), type.shape.to_string());
  // Below 2^62 elements of at most 8 bytes each: the size cannot overflow once the numbers are
  // equal.
  const size_t size = type.dtype == DType::invalid ? 1 : dtype_size(type.dtype);
  const auto elements =
      type.dtype == DType::invalid ? uint64_t{0} : static_cast<uint64_t>(type.shape.elements());
  if (bytes.size() / size != elements || bytes.size() % size != 0) {
    return invalid_argument(cat(text, ": received ", bytes.size(), " bytes"));
  }
  // No tensor has no elements, so the check above has refused any bytes.
  if (type.dtype == DType::invalid) return Tensor();
  const auto is_bool = [](std::byte byte) { return static_cast<unsigned>(byte) <= 1; };
  // Kernels read a bool as 0 or 1, and another byte would be neither.
  if (type.dtype == DType::boolean && !std::all_of(bytes.begin(), bytes.end(), is_bool)) {
    return invalid_argument(cat(text, ": expected bytes of 0 or 1"));
  }
  LEAT_ASSIGN_OR_RETURN(Tensor tensor, Tensor::create(type.dtype, type.shape));
  if (!bytes.empty()) std::memcpy(tensor.raw(), bytes.data(), bytes.size());
  return tensor;
}

void write_opening(const SessionOpening& opening, wire::SessionRequest::Builder out) {
  const SessionSettings& settings = opening.settings;
  out.setRequestId(opening.request_id.c_str());
  out.setName(settings.name.c_str());
  out.setNumWorkers(opening.num_workers);
  out.setGpus(opening.gpus);
  out.setStrategy(settings.strategy.c_str());
  out.setShards(static_cast<uint32_t>(std::max(0, settings.shards)));
  out.setSeed(settings.seed);
  out.setPlans(static_cast<uint32_t>(std::min<size_t>(settings.plans, UINT32_MAX)));
  out.setTimeoutMs(static_cast<uint32_t>(
      std::clamp(settings.timeout, milliseconds(0), milliseconds(INT32_MAX)).count()));
  out.setSaveEvery(settings.save_every);
  if (settings.lasts())
    out.setKeepMs(static_cast<uint64_t>(std::max(settings.keep, milliseconds(0)).count()));
}

Result<SessionOpening> read_opening(wire::SessionRequest::Reader in) {
  SessionOpening opening;
  opening.request_id = to_string(in.getRequestId());
  opening.num_workers = in.getNumWorkers();
  opening.gpus = in.getGpus();
  SessionSettings& settings = opening.settings;
  settings.name = to_string(in.getName());
  settings.strategy = to_string(in.getStrategy());
  settings.shards = static_cast<int>(std::min<uint32_t>(in.getShards(), kMaxShards + 1));
  settings.seed = in.getSeed();
  settings.plans = in.getPlans();
  settings.timeout = milliseconds(in.getTimeoutMs());
  settings.save_every = in.getSaveEvery();
  const auto expected = [&](const char* what, auto most, uint64_t received) {
    return invalid_argument(cat("session '", settings.name, "': ", what, ": expected 1 to ", most,
                                ", received ", received));
  };
  if (settings.shards < 1 || settings.shards > kMaxShards)
    return expected("shards", kMaxShards, in.getShards());
  if (settings.plans < 1 || settings.plans > kMaxPlans)
    return expected("plans", kMaxPlans, in.getPlans());
  const auto fine = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-';
  };
  if (settings.strategy.size() > 64 ||
      !std::all_of(settings.strategy.begin(), settings.strategy.end(), fine)) {
    return invalid_argument(cat("session '", settings.name,
                                "': strategy: expected a word, received ",
                                quoted_start(settings.strategy)));
  }
  if (opening.gpus > 1) {
    return invalid_argument(
        cat("session '", settings.name, "': gpus: expected 0 or 1, received ", opening.gpus));
  }
  if (settings.lasts()) {
    settings.keep = milliseconds(std::min(in.getKeepMs(), kMaxKeepMs + 1));
    if (settings.save_every > kMaxSaveEvery)
      return expected("save_every", kMaxSaveEvery, settings.save_every);
    if (settings.keep.count() < 1 || in.getKeepMs() > kMaxKeepMs)
      return expected("keep in ms", kMaxKeepMs, in.getKeepMs());
  }
  if (settings.timeout.count() < 1) return expected("timeout in ms", UINT32_MAX, in.getTimeoutMs());
  return opening;
}

void write_order(const StepOrder& order, wire::StepRequest::Builder out) {
  out.setNumber(order.number);
  out.setTimeoutMs(static_cast<uint32_t>(order.timeout.count()));
  if (const auto* callable = std::get_if<CallableId>(&order.what)) {
    out.setCallable(*callable);
  } else {
    write_signature(std::get<Signature>(order.what), out.initSignature());
  }
}

StepOrder read_order(wire::StepRequest::Reader in) {
  StepOrder order{in.getNumber(), milliseconds(in.getTimeoutMs()), {}};
  if (in.isCallable()) {
    order.what = in.getCallable();
  } else {
    order.what = read_signature(in.getSignature());
  }
  return order;
}

void write_signature(const Signature& signature, wire::Signature::Builder out) {
  write_texts(signature.feeds, out.initFeeds(static_cast<uint32_t>(signature.feeds.size())));
  write_texts(signature.fetches, out.initFetches(static_cast<uint32_t>(signature.fetches.size())));
  write_texts(signature.targets, out.initTargets(static_cast<uint32_t>(signature.targets.size())));
  out.setIsolated(signature.isolated);
}

Signature read_signature(wire::Signature::Reader in) {
  return {read_texts(in.getFeeds()), read_texts(in.getFetches()), read_texts(in.getTargets()),
          in.getIsolated()};
}

}  // namespace leat
