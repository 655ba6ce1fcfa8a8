#include "transport/rpc/guard.h"

#include <capnp/message.h>
#include <kj/debug.h>

#include <deque>
#include <optional>
#include <vector>

#include "devices/base/text.h"
#include "transport/rpc/call.h"
#include "transport/rpc/framing.h"
#include "transport/rpc/ledger.h"

namespace leat {
namespace {

constexpr int kMessagesPerTurn = 32;
constexpr size_t kBatchBytes = 1u << 20;
constexpr size_t kBatchPieces = 256;
constexpr int kDiscardedReads = 64;
constexpr size_t kStreamWindow = 1u << 20;  // bytes of one `-> stream` in flight

using capnp::rpc::Message;

// The library's name for 8 bytes.
kj::ArrayPtr<const capnp::word> as_words(const uint64_t* words, size_t count) {
  return kj::arrayPtr(reinterpret_cast<const capnp::word*>(words), count);
}

}  // namespace

// The part that outlives the connection: the reason why it ended.
struct GuardedNetwork::Shared final : kj::Refcounted {
  Status cause;
  kj::Own<kj::PromiseFulfiller<void>> ended;

  // Only the first reason counts, because later ones follow from it.
  void note(const Status& status) {
    if (cause.ok()) cause = status;
  }
};

// A message of the peer. It owns the words that the library reads, and holds the reader to the
// limits.
class GuardedNetwork::Incoming final : public capnp::IncomingRpcMessage {
 public:
  Incoming(FramedMessage framed, const RpcLimits& limits)
      : framed_(std::move(framed)),
        segments_(segments_of(framed_)),
        options_{.traversalLimitInWords = limits.traversal_words, .nestingLimit = limits.nesting},
        reader_(segments_, options_) {}

  capnp::AnyPointer::Reader getBody() override { return reader_.getRoot<capnp::AnyPointer>(); }
  size_t sizeInWords() override { return framed_.words.size(); }
  size_t bytes() const { return framed_.bytes(); }

  // Reads with a reader of its own, so that a look does not use up the traversal limit of the
  // library's reader.
  template <typename F>
  auto peek(F look) {
    capnp::SegmentArrayMessageReader reader(segments_, options_);
    return look(reader.getRoot<Message>());
  }

 private:
  static kj::Array<kj::ArrayPtr<const capnp::word>> segments_of(const FramedMessage& framed) {
    auto segments =
        kj::heapArrayBuilder<kj::ArrayPtr<const capnp::word>>(framed.segment_words.size());
    const uint64_t* next = framed.words.data();
    for (const uint32_t words : framed.segment_words) {
      segments.add(as_words(next, words));
      next += words;
    }
    return segments.finish();
  }

  FramedMessage framed_;
  kj::Array<kj::ArrayPtr<const capnp::word>> segments_;
  capnp::ReaderOptions options_;
  capnp::SegmentArrayMessageReader reader_;
};

// A message of ours. It is counted, because it waits in the queue after the library has let it go.
class GuardedNetwork::Outgoing final : public capnp::OutgoingRpcMessage, public kj::Refcounted {
 public:
  Outgoing(GuardedConnection& connection, kj::uint first_segment_words)
      : connection_(connection),
        message_(first_segment_words == 0 ? capnp::SUGGESTED_FIRST_SEGMENT_WORDS
                                          : first_segment_words) {}

  capnp::AnyPointer::Builder getBody() override { return message_.getRoot<capnp::AnyPointer>(); }
  void send() override;
  size_t sizeInWords() override { return message_.sizeInWords(); }

  Message::Reader content() { return message_.getRoot<Message>().asReader(); }
  kj::ArrayPtr<const kj::ArrayPtr<const capnp::word>> segments() {
    return message_.getSegmentsForOutput();
  }

 private:
  GuardedConnection& connection_;  // outlives every send()
  capnp::MallocMessageBuilder message_;
};

// The connection that the library uses. It is the only reader and the only writer of the stream.
class GuardedNetwork::GuardedConnection final : public capnp::TwoPartyVatNetworkBase::Connection,
                                                public kj::Refcounted {
 public:
  GuardedConnection(kj::Own<kj::AsyncIoStream> stream, capnp::rpc::twoparty::Side side,
                    const RpcLimits& limits, bool authenticated, LoopContext& context,
                    ByteBudget& budget, kj::Own<Shared> shared)
      : limits_(limits),
        max_message_(limits.max_message(authenticated)),
        context_(context),
        shared_(kj::mv(shared)),
        charge_(budget),
        ledger_(limits_),
        framing_(max_message_),
        peer_(4),
        stream_(kj::mv(stream)) {
    using capnp::rpc::twoparty::Side;
    peer_.initRoot<capnp::rpc::twoparty::VatId>().setSide(side == Side::CLIENT ? Side::SERVER
                                                                               : Side::CLIENT);
  }
  ~GuardedConnection() noexcept(false) {
    // If nothing else has ended the connection, its owner has.
    shared_->note(cancelled("closed by this end"));
    shared_->ended->fulfill();
  }

  capnp::rpc::twoparty::VatId::Reader getPeerVatId() override {
    return peer_.getRoot<capnp::rpc::twoparty::VatId>();
  }
  kj::Own<capnp::RpcFlowController> newStream() override {
    return capnp::RpcFlowController::newFixedWindowController(kStreamWindow);
  }
  kj::Own<capnp::OutgoingRpcMessage> newOutgoingMessage(kj::uint words) override {
    return kj::refcounted<Outgoing>(*this, words);
  }
  kj::Promise<kj::Maybe<kj::Own<capnp::IncomingRpcMessage>>> receiveIncomingMessage() override {
    return canceler_.wrap(kj::evalNow([this] { return receive(); }));
  }
  kj::Promise<void> shutdown() override;

  void send(Outgoing& message);

 private:
  using Received = kj::Maybe<kj::Own<capnp::IncomingRpcMessage>>;

  kj::Promise<Received> receive();
  kj::Promise<Received> deliver(FramedMessage framed);
  kj::Promise<size_t> read_some();
  void take_account(Incoming& message);
  [[noreturn]] void end(Status why);
  void fail(const Status& why);
  void check_charge();
  kj::Promise<void> write_batch();
  void written(size_t bytes);
  void write_failed(kj::Exception&& error);
  kj::Promise<void> discard_input(int reads);

  const RpcLimits limits_;
  const size_t max_message_;
  LoopContext& context_;
  kj::Own<Shared> shared_;
  ByteCharge charge_;
  Ledger ledger_;
  MessageFraming framing_;
  capnp::MallocMessageBuilder peer_;
  kj::Own<kj::AsyncIoStream> stream_;

  kj::Maybe<kj::Exception> failure_;  // receive() fails with it; only an abort is still sent
  int in_this_turn_ = 0;
  kj::Maybe<kj::TimePoint> message_due_;  // set while half a message has come

  std::deque<kj::Own<Outgoing>> unsent_;
  size_t unsent_bytes_ = 0;
  bool writing_ = false;
  bool write_broken_ = false;
  kj::Maybe<kj::Own<kj::PromiseFulfiller<void>>> drained_;

  // These come last, so that the tasks end before the members that they use.
  kj::Promise<void> write_task_ = kj::READY_NOW;
  kj::Promise<void> cancel_task_ = kj::READY_NOW;
  kj::Canceler canceler_;
};

// Incoming messages.

void GuardedNetwork::GuardedConnection::end(Status why) {
  fail(why);
  kj::throwFatalException(to_exception(why));
}

void GuardedNetwork::GuardedConnection::fail(const Status& why) {
  shared_->note(why);
  if (failure_ != nullptr) return;
  failure_ = to_exception(why);
  // Cancels later, because this may be a step of the very promise that is cancelled.
  cancel_task_ = kj::evalLater([this, why] {
                   if (!canceler_.isEmpty()) canceler_.cancel(to_exception(why));
                 }).eagerlyEvaluate(nullptr);
}

kj::Promise<GuardedNetwork::GuardedConnection::Received>
GuardedNetwork::GuardedConnection::receive() {
  // The library reads again after each message, and learns of a failure here.
  KJ_IF_MAYBE (failure, failure_) {
    return kj::cp(*failure);
  }
  auto next = framing_.next();
  if (!next.ok()) end(next.status());
  if (next->has_value()) return deliver(std::move(**next));
  // The deadline counts from the first byte of the message, however many reads it takes.
  if (framing_.in_message() && message_due_ == nullptr) {
    message_due_ = context_.timer.now() + to_kj(limits_.message_deadline);
  }
  return read_some().then([this](size_t size) -> kj::Promise<Received> {
    if (size == 0) {
      shared_->note(unavailable("closed by the peer"));
      if (framing_.in_message()) end(unavailable("closed by the peer in the middle of a message"));
      return Received(nullptr);
    }
    framing_.received(size);
    check_charge();
    return receive();
  });
}

kj::Promise<size_t> GuardedNetwork::GuardedConnection::read_some() {
  const auto space = framing_.space();
  // One read takes all that has come, which may be many small messages.
  auto read = stream_->tryRead(space.data(), 1, space.size())
                  .catch_([this](kj::Exception&& error) -> size_t {
                    end(unavailable(error.getDescription().cStr()));
                  });
  KJ_IF_MAYBE (due, message_due_) {
    return read.exclusiveJoin(context_.timer.atTime(*due).then([this]() -> size_t {
      end(deadline_exceeded(cat("message not whole within ", limits_.message_deadline.count(),
                                " ms of its first byte")));
    }));
  }
  return read;
}

kj::Promise<GuardedNetwork::GuardedConnection::Received> GuardedNetwork::GuardedConnection::deliver(
    FramedMessage framed) {
  message_due_ = nullptr;
  ++context_.news;
  auto message = kj::heap<Incoming>(std::move(framed), limits_);
  take_account(*message);
  if (++in_this_turn_ < kMessagesPerTurn) return Received(kj::mv(message));
  in_this_turn_ = 0;
  // Even a timer of zero lets the loop look first for what other connections have sent.
  return context_.timer.afterDelay(0 * kj::NANOSECONDS)
      .then([message = kj::mv(message)]() mutable -> Received { return kj::mv(message); });
}

void GuardedNetwork::GuardedConnection::take_account(Incoming& message) {
  Status status;
  KJ_IF_MAYBE (error, kj::runCatchingExceptions([&] {
                 status = message.peek([&](Message::Reader content) {
                   if (content.isAbort()) {
                     shared_->note(unavailable(
                         cat("ended by the peer: ", content.getAbort().getReason().cStr())));
                   }
                   return ledger_.received(content, message.bytes());
                 });
               })) {
    status = invalid_argument(cat("malformed message: ", error->getDescription().cStr()));
  }
  if (!status.ok()) end(std::move(status));
  check_charge();
}

void GuardedNetwork::GuardedConnection::check_charge() {
  // The memory that this peer costs: the buffer of reads, the calls that are not finished, and what
  // it has not read.
  const size_t held = framing_.held_bytes() + ledger_.call_bytes() + unsent_bytes_;
  if (!charge_.set(held)) {
    fail(resource_exhausted(
        cat("no memory left for the ", held, " bytes that this connection holds")));
  }
}

// Outgoing messages.

void GuardedNetwork::Outgoing::send() { connection_.send(*this); }

// Throws for a call or a return that is too large or over the limits: the library then fails that
// one alone. Every other error fails the connection through receive(), because the library takes no
// errors here.
void GuardedNetwork::GuardedConnection::send(Outgoing& message) {
  const auto content = message.content();
  if (write_broken_ || (failure_ != nullptr && !content.isAbort())) return;
  const auto segments = message.segments();
  size_t bytes = table_bytes(segments.size());
  for (const auto segment : segments) bytes += segment.asBytes().size();
  if ((bytes > max_message_ || segments.size() > MessageFraming::kMaxSegments)) {
    kj::throwFatalException(to_exception(resource_exhausted(
        cat("message of ", bytes, " bytes in ", segments.size(), " segments: expected at most ",
            max_message_, " bytes in ", MessageFraming::kMaxSegments))));
  }
  if (content.isCall() && !ledger_.may_call(bytes)) {
    kj::throwFatalException(to_exception(
        resource_exhausted(cat("connection has ", ledger_.calls_sent(), " calls of ",
                               ledger_.call_bytes(), " bytes unfinished: expected at most ",
                               limits_.own_calls, " of ", limits_.call_bytes / 4 * 3))));
  }
  // An abort is sent even when limits are passed.
  const Status status = content.isAbort() ? Status() : ledger_.sent(content, bytes);
  if (!status.ok()) return fail(status);
  unsent_.push_back(kj::addRef(message));
  unsent_bytes_ += bytes;
  if (unsent_bytes_ > limits_.unsent_bytes) {
    return fail(resource_exhausted(
        cat("more than ", limits_.unsent_bytes, " bytes that the peer does not read")));
  }
  check_charge();
  if (writing_) return;
  writing_ = true;
  // The write begins when the loop has nothing else to do, so that it takes all messages of this
  // turn.
  write_task_ = kj::evalLast([this] {
                  return write_batch();
                }).catch_([this](kj::Exception&& error) {
                    write_failed(kj::mv(error));
                  }).eagerlyEvaluate(nullptr);
}

kj::Promise<void> GuardedNetwork::GuardedConnection::write_batch() {
  struct Batch {
    std::deque<kj::Own<Outgoing>> messages;
    std::deque<std::vector<uint32_t>> tables;
    kj::Vector<kj::ArrayPtr<const kj::byte>> pieces;
  };
  // The batch owns the messages and their tables until the kernel has taken all bytes. A deque does
  // not move its elements, to which the pieces point.
  auto batch = kj::heap<Batch>();
  size_t bytes = 0;
  while (!unsent_.empty() && bytes < kBatchBytes && batch->pieces.size() < kBatchPieces) {
    const auto segments = unsent_.front()->segments();
    std::vector<uint32_t> sizes;
    for (const auto segment : segments) sizes.push_back(static_cast<uint32_t>(segment.size()));
    const auto& table = batch->tables.emplace_back(segment_table(sizes));
    batch->pieces.add(kj::arrayPtr(table.data(), table.size()).asBytes());
    for (const auto segment : segments) batch->pieces.add(segment.asBytes());
    bytes += table_bytes(segments.size());
    for (const auto segment : segments) bytes += segment.asBytes().size();
    batch->messages.push_back(kj::mv(unsent_.front()));
    unsent_.pop_front();
  }
  auto late = context_.timer.afterDelay(to_kj(limits_.message_deadline)).then([this] {
    kj::throwFatalException(to_exception(deadline_exceeded(
        cat("peer took none of a batch within ", limits_.message_deadline.count(), " ms"))));
  });
  const auto pieces = batch->pieces.asPtr();
  return stream_->write(pieces)
      .attach(kj::mv(batch))
      .exclusiveJoin(kj::mv(late))
      .then([this, bytes]() -> kj::Promise<void> {
        // A batch counts until it is written as a whole.
        unsent_bytes_ -= bytes;
        check_charge();
        if (!unsent_.empty()) return write_batch();
        writing_ = false;
        KJ_IF_MAYBE (drained, drained_) {
          (*drained)->fulfill();
        }
        return kj::READY_NOW;
      });
}

void GuardedNetwork::GuardedConnection::write_failed(kj::Exception&& error) {
  writing_ = false;
  // Nothing can be sent any more, not even the reason. A shutdown() that waits for the rest goes
  // on.
  write_broken_ = true;
  unsent_.clear();
  unsent_bytes_ = 0;
  fail(unavailable(error.getDescription().cStr()));
  KJ_IF_MAYBE (drained, drained_) {
    (*drained)->fulfill();
  }
}

// Sends the messages that wait, the abort among them, for as long as `linger` lasts. Then reads and
// drops the peer's bytes: closing a socket with unread bytes resets the connection, and the peer
// would lose the reason. A peer that never stops sending does not get the reason.
kj::Promise<void> GuardedNetwork::GuardedConnection::shutdown() {
  kj::Promise<void> sent = kj::READY_NOW;
  if (writing_) {
    auto pair = kj::newPromiseAndFulfiller<void>();
    drained_ = kj::mv(pair.fulfiller);
    sent = kj::mv(pair.promise);
  }
  auto closed = sent.then([this]() -> kj::Promise<void> {
    if (write_broken_) return kj::READY_NOW;
    stream_->shutdownWrite();
    if (failure_ == nullptr) return kj::READY_NOW;
    return discard_input(kDiscardedReads);
  });
  return closed.exclusiveJoin(context_.timer.afterDelay(to_kj(limits_.linger)))
      .catch_([](kj::Exception&&) {});
}

kj::Promise<void> GuardedNetwork::GuardedConnection::discard_input(int reads) {
  if (reads == 0) return kj::READY_NOW;
  const auto space = framing_.space();
  return stream_->tryRead(space.data(), 1, space.size())
      .then([this, reads](size_t size) -> kj::Promise<void> {
        if (size == 0) return kj::READY_NOW;
        // Goes through the loop's poll, so that a peer that floods does not keep the loop busy.
        return context_.timer.afterDelay(0 * kj::NANOSECONDS).then([this, reads] {
          return discard_input(reads - 1);
        });
      });
}

// The network.

GuardedNetwork::GuardedNetwork(kj::Own<kj::AsyncIoStream> stream, capnp::rpc::twoparty::Side side,
                               const RpcLimits& limits, bool authenticated, LoopContext& context,
                               ByteBudget& budget)
    : shared_(kj::refcounted<Shared>()), side_(side), disconnected_(nullptr) {
  auto pair = kj::newPromiseAndFulfiller<void>();
  shared_->ended = kj::mv(pair.fulfiller);
  disconnected_ = pair.promise.fork();
  connection_ = kj::refcounted<GuardedConnection>(kj::mv(stream), side, limits, authenticated,
                                                  context, budget, kj::addRef(*shared_));
}

GuardedNetwork::~GuardedNetwork() noexcept(false) = default;

kj::Promise<void> GuardedNetwork::on_disconnect() { return disconnected_.addBranch(); }

Status GuardedNetwork::cause() const { return shared_->cause; }

kj::Maybe<kj::Own<GuardedNetwork::Connection>> GuardedNetwork::connect(
    capnp::rpc::twoparty::VatId::Reader id) {
  // The library asks once for the connection to the other side. There is none to this side itself.
  if (id.getSide() == side_ || connection_.get() == nullptr) return nullptr;
  return kj::Own<Connection>(kj::mv(connection_));
}

kj::Promise<kj::Own<GuardedNetwork::Connection>> GuardedNetwork::accept() {
  if (side_ == capnp::rpc::twoparty::Side::SERVER && connection_.get() != nullptr) {
    return kj::Own<Connection>(kj::mv(connection_));
  }
  return kj::NEVER_DONE;  // there is one connection
}

}  // namespace leat
