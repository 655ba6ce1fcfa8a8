#include "devices/cuda/nccl_wire.h"

#include <cstring>
#include <string>
#include <utility>

#include "devices/base/text.h"
#include "devices/cuda/nccl.h"
#include "devices/cuda/wire_offer.h"

namespace leat::cuda {

#if LEAT_HAS_NCCL

namespace {

//  0        4         8
//  +--------+---------+--------------------------+
//  | "LtNc" | version | ncclUniqueId, 128 bytes  |
//  +--------+---------+--------------------------+
struct NcclOffer {
  OfferHead head;
  ncclUniqueId id;
};
constexpr OfferHead kNcclHead{{'L', 't', 'N', 'c'}, {1, 0, 0, 0}};
static_assert(sizeof(NcclOffer) == 136 && sizeof(NcclOffer) <= kMostOfferBytes);

constexpr int kReceivingRank = 0, kSendingRank = 1, kRanks = 2;
// The first whose communicators need not block: NCCL writes 2.14.0 as 21400.
constexpr int kOldestNccl = 21400;

std::string nccl_version_text(int number) {
  return cat(number / 10000, ".", number / 100 % 100, ".", number % 100);
}

// The functions with the version of the library.
struct FoundNccl {
  NcclFunctions functions;
  int version = 0;
};

Result<FoundNccl> find_nccl() {
  LEAT_ASSIGN_OR_RETURN(const NcclFunctions functions, load_nccl());
  FoundNccl found{functions};
  if (const ncclResult_t result = functions.get_version(&found.version); result != ncclSuccess)
    return unavailable(cat("ncclGetVersion: ", functions.error_string(result)));
  if (found.version < kOldestNccl)
    return unavailable(cat("expected NCCL ", nccl_version_text(kOldestNccl), " or newer, received ",
                           nccl_version_text(found.version)));
  return found;
}

std::string nccl_subject(CudaDevice& device, std::string_view end, const FoundNccl& nccl) {
  return cat(device.name(), ": the ", end, " end of a wire by NCCL ",
             nccl_version_text(nccl.version));
}

Status nccl_failure(const NcclFunctions& nccl, ncclComm_t communicator, ncclResult_t result,
                    std::string_view subject, std::string_view call) {
  std::string message = cat(subject, ": ", call, ": ", nccl.error_string(result));
  const char* more = nccl.last_error ? nccl.last_error(communicator) : nullptr;
  if (more && *more) message += cat(": ", more);
  return unavailable(std::move(message));
}

// A rank of a communicator. Its calls return before they are done, so that the other end can hold
// up none of them.
class NcclRank final : public WireCarrier {
 public:
  // `memory` is that of the receiving end, which it takes values into; null at the sending end.
  NcclRank(const NcclFunctions& nccl, std::string subject, const ncclUniqueId& id, Buffer* memory)
      : nccl_(nccl), subject_(std::move(subject)), id_(id), memory_(memory) {}
  ~NcclRank() override { abort(); }

  Result<bool> connect() override {
    if (!communicator_) {
      ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
      config.blocking = 0;
      const int rank = memory_ ? kReceivingRank : kSendingRank;
      const ncclResult_t result = nccl_.init_rank(&communicator_, kRanks, id_, rank, &config);
      LEAT_RETURN_IF_ERROR(check(result, "ncclCommInitRankConfig"));
    }
    LEAT_ASSIGN_OR_RETURN(connected_, is_ready("ncclCommInitRankConfig"));
    return connected_;
  }

  // The event behind the work is recorded only once NCCL has enqueued the work.
  Status issue(const WireValue& value, cudaStream_t stream) override {
    if (memory_) LEAT_RETURN_IF_ERROR(check_within(value, memory_->size(), subject_));
    const char* call = memory_ ? "ncclRecv" : "ncclSend";
    const ncclResult_t result =
        memory_
            ? nccl_.recv(static_cast<std::byte*>(memory_->data()) + value.offset, value.bytes,
                         ncclInt8, kSendingRank, communicator_, stream)
            : nccl_.send(value.from, value.bytes, ncclInt8, kReceivingRank, communicator_, stream);
    LEAT_RETURN_IF_ERROR(check(result, call));
    return {};
  }
  Result<bool> issued() override { return is_ready(memory_ ? "ncclRecv" : "ncclSend"); }

  Status look() override { return is_ready("ncclCommGetAsyncError").status(); }
  bool looks() const override { return true; }

  void abort() override {
    if (ncclComm_t communicator = std::exchange(communicator_, nullptr))
      (void)nccl_.abort(communicator);
  }

 private:
  // True if the last call is done, false if it is in progress; else its failure, or that of the
  // other end.
  Result<bool> is_ready(std::string_view call) {
    ncclResult_t state = ncclSuccess;
    if (!communicator_) return true;  // it is aborted
    LEAT_RETURN_IF_ERROR(check(nccl_.async_error(communicator_, &state), "ncclCommGetAsyncError"));
    LEAT_RETURN_IF_ERROR(check(state, call));
    return state == ncclSuccess;
  }
  Status check(ncclResult_t result, std::string_view call) {
    if (result == ncclSuccess || result == ncclInProgress) return {};
    const Status failure = nccl_failure(nccl_, communicator_, result, subject_, call);
    // In a transfer, only this error says that the other end has failed.
    const bool names_peer = !connected_ || result == ncclRemoteError;
    return names_peer ? failure : internal_error(failure.message());
  }

  const NcclFunctions nccl_;
  const std::string subject_;
  const ncclUniqueId id_;
  Buffer* const memory_;
  ncclComm_t communicator_ = nullptr;
  bool connected_ = false;
};

}  // namespace

std::string nccl_version() {
  const auto found = find_nccl();
  return found.ok() ? nccl_version_text(found->version) : "none";
}

Status has_nccl_wires(CudaDevice& device) {
  const Status status = find_nccl().status();
  return status.ok() ? Status() : unavailable(cat(device.name(), ": no NCCL: ", status.message()));
}

Result<std::unique_ptr<WireReceiver>> make_nccl_receiver(CudaDevice& device, Buffer& into,
                                                         std::chrono::milliseconds stall) {
  LEAT_ASSIGN_OR_RETURN(const FoundNccl nccl, find_nccl());
  const std::string subject = nccl_subject(device, "receiving", nccl);
  NcclOffer offer{kNcclHead, {}};
  if (const ncclResult_t result = nccl.functions.get_unique_id(&offer.id); result != ncclSuccess)
    return nccl_failure(nccl.functions, nullptr, result, subject, "ncclGetUniqueId");
  std::string text(reinterpret_cast<const char*>(&offer), sizeof offer);
  auto rank = std::make_unique<NcclRank>(nccl.functions, subject, offer.id, &into);
  LEAT_ASSIGN_OR_RETURN(auto end, WireEnd::start(device, subject, std::move(rank), stall));
  return make_receiver(std::move(end), std::move(text));
}

Result<std::unique_ptr<WireSender>> make_nccl_sender(CudaDevice& device, std::string_view text,
                                                     std::chrono::milliseconds stall) {
  LEAT_ASSIGN_OR_RETURN(const FoundNccl nccl, find_nccl());
  const std::string subject = nccl_subject(device, "sending", nccl);
  LEAT_RETURN_IF_ERROR(check_offer(text, sizeof(NcclOffer), kNcclHead, "by NCCL", subject));
  NcclOffer offer{};
  std::memcpy(&offer, text.data(), sizeof offer);
  auto rank = std::make_unique<NcclRank>(nccl.functions, subject, offer.id, nullptr);
  LEAT_ASSIGN_OR_RETURN(auto end, WireEnd::start(device, subject, std::move(rank), stall));
  return make_sender(std::move(end));
}

#else

std::string nccl_version() { return "none"; }

Status has_nccl_wires(CudaDevice& device) {
  return unavailable(cat(device.name(), ": no NCCL: the plugin was built without nccl.h"));
}
Result<std::unique_ptr<WireReceiver>> make_nccl_receiver(CudaDevice& device, Buffer&,
                                                         std::chrono::milliseconds) {
  return has_nccl_wires(device);
}
Result<std::unique_ptr<WireSender>> make_nccl_sender(CudaDevice& device, std::string_view,
                                                     std::chrono::milliseconds) {
  return has_nccl_wires(device);
}

#endif

}  // namespace leat::cuda
