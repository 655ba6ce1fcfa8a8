#include "transport/rpc/sealed_stream.h"

#include <sys/socket.h>

#include <algorithm>
#include <cstring>

#include "devices/base/text.h"
#include "transport/rpc/call.h"

namespace leat {
namespace {

// Plaintext that is encrypted at once, so that a long message does not double its memory.
constexpr size_t kChunk = 64u << 10;
// The bytes that drain() reads at most, and at once.
constexpr size_t kMostDrained = 64u << 10;
constexpr size_t kDrainedAtOnce = 4u << 10;

[[noreturn]] void fail(const Status& why) { kj::throwFatalException(to_exception(why)); }
void check(const Status& status) {
  if (!status.ok()) fail(status);
}

// The socket has failed: no end of the peer came before.
[[noreturn]] void cut(kj::Exception&& cause) {
  if (cause.getType() != kj::Exception::Type::DISCONNECTED) kj::throwFatalException(kj::mv(cause));
  fail(unavailable(
      cat("TLS: the connection was cut: ", std::string_view(cause.getDescription().cStr()))));
}

kj::Promise<void> drain_from(kj::AsyncIoStream& stream, size_t before) {
  auto bytes = kj::heapArray<kj::byte>(kDrainedAtOnce);
  auto read = stream.tryRead(bytes.begin(), 1, bytes.size());
  return read.attach(kj::mv(bytes)).then([&stream, before](size_t size) -> kj::Promise<void> {
    if (size == 0 || before + size > kMostDrained) return kj::READY_NOW;
    return drain_from(stream, before + size);
  });
}

class SealedStream final : public kj::AsyncIoStream {
 public:
  // `timer` is for a session with certificates.
  SealedStream(kj::Own<kj::AsyncIoStream> inner, std::unique_ptr<TlsSession> session,
               kj::Timer* timer)
      : inner_(kj::mv(inner)), session_(std::move(session)), timer_(timer) {}

  // Bytes of the peer that were read before.
  void begin_with(std::span<const uint8_t> bytes) {
    const auto space = session_->space();
    const size_t taken = std::min(bytes.size(), space.size());
    if (taken > 0) std::memcpy(space.data(), bytes.data(), taken);
    session_->received(taken);
  }
  TlsSession& session() { return *session_; }

  kj::Promise<void> shake_hands() {
    const Status shaken = session_->shake_hands();
    if (!shaken.ok()) return refuse(shaken);
    return send().then([this]() -> kj::Promise<void> {
      if (session_->established()) return kj::READY_NOW;
      return receive().then([this](bool more) {
        if (!more) fail(unavailable("TLS: the peer hung up in the middle of the handshake"));
        return shake_hands();
      });
    });
  }

  kj::Promise<size_t> tryRead(void* buffer, size_t least, size_t most) override {
    return fill({static_cast<std::byte*>(buffer), most}, least, 0);
  }
  kj::Promise<void> write(const void* buffer, size_t size) override {
    return write({static_cast<const std::byte*>(buffer), size});
  }
  kj::Promise<void> write(kj::ArrayPtr<const kj::ArrayPtr<const kj::byte>> pieces) override {
    return write_pieces(pieces, 0);
  }
  // All writes are over when this is called, so the few bytes of the end have room.
  void shutdownWrite() override {
    session_->say_end();
    send_end();
  }
  kj::Promise<void> whenWriteDisconnected() override { return inner_->whenWriteDisconnected(); }
  void abortRead() override { inner_->abortRead(); }
  kj::Maybe<int> getFd() const override { return inner_->getFd(); }

 private:
  // The last few bytes of this end, which have room, and the end of the stream.
  void send_end() {
    const auto end = session_->take_output();
    KJ_IF_MAYBE (fd, inner_->getFd()) {
      (void)!::send(*fd, end.data(), end.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    inner_->shutdownWrite();
  }
  // Fails the handshake after the peer has had time to read the alert in the output.
  kj::Promise<void> refuse(const Status& why) {
    if (timer_ == nullptr) fail(why);
    // The peer may have ended the connection before.
    const auto gone = kj::runCatchingExceptions([this] { send_end(); });
    if (gone != nullptr) fail(why);
    return drain(*inner_, *timer_).then([why] { fail(why); });
  }
  kj::Promise<size_t> fill(std::span<std::byte> out, size_t least, size_t have) {
    while (have < out.size()) {
      const auto got = session_->read(out.subspan(have));
      if (!got.ok()) fail(got.status());
      if (*got == 0) break;
      have += *got;
    }
    if (have >= least || session_->at_end()) return have;
    return receive().then([this, out, least, have](bool more) -> kj::Promise<size_t> {
      if (!more) {
        fail(unavailable("TLS: the connection was cut: the peer has not said that it ends"));
      }
      return fill(out, least, have);
    });
  }
  // Takes what the peer has sent. False at the end of the stream.
  kj::Promise<bool> receive() {
    const auto space = session_->space();
    return kj::evalNow([&] { return inner_->tryRead(space.data(), 1, space.size()); })
        .then(
            [this](size_t size) {
              session_->received(size);
              return size > 0;
            },
            [](kj::Exception&& cause) -> bool { cut(kj::mv(cause)); });
  }
  // Sends all output. REQUIRES: one write at a time, which is the rule of all streams of KJ.
  kj::Promise<void> send() {
    sending_ = session_->take_output();
    if (sending_.empty()) return kj::READY_NOW;
    // write() throws if the socket has failed before.
    return kj::evalNow([this] { return inner_->write(sending_.data(), sending_.size()); })
        .catch_([](kj::Exception&& cause) { cut(kj::mv(cause)); });
  }
  // Encrypts and sends in chunks.
  kj::Promise<void> write(std::span<const std::byte> plaintext) {
    if (plaintext.empty()) return kj::READY_NOW;
    const auto chunk = plaintext.first(std::min(kChunk, plaintext.size()));
    check(session_->write(chunk));
    return send().then([this, rest = plaintext.subspan(chunk.size())] { return write(rest); });
  }
  // Pieces that are smaller than a chunk go together.
  kj::Promise<void> write_pieces(kj::ArrayPtr<const kj::ArrayPtr<const kj::byte>> pieces,
                                 size_t next) {
    size_t bytes = 0;
    together_.clear();
    for (; next < pieces.size() && bytes + pieces[next].size() <= kChunk; ++next) {
      const auto piece = std::as_bytes(std::span(pieces[next].begin(), pieces[next].size()));
      together_.insert(together_.end(), piece.begin(), piece.end());
      bytes += piece.size();
    }
    kj::Promise<void> written = write(std::span<const std::byte>(together_));
    if (next == pieces.size()) return written;
    const auto large = std::as_bytes(std::span(pieces[next].begin(), pieces[next].size()));
    if (large.size() > kChunk) {
      written = written.then([this, large] { return write(large); });
      ++next;
    }
    return written.then([this, pieces, next] { return write_pieces(pieces, next); });
  }

  kj::Own<kj::AsyncIoStream> inner_;
  std::unique_ptr<TlsSession> session_;
  std::vector<std::byte> together_;  // small pieces of one write
  std::vector<std::byte> sending_;   // records of one write
  kj::Timer* const timer_;
};

}  // namespace

kj::Promise<void> drain(kj::AsyncIoStream& stream, kj::Timer& timer) {
  return drain_from(stream, 0)
      .exclusiveJoin(timer.afterDelay(kRefusalRead))
      .catch_([](kj::Exception&&) {});
}

kj::Promise<kj::Own<kj::AsyncIoStream>> seal(kj::Own<kj::AsyncIoStream> stream,
                                             TlsSession::Side side, const TlsKey& key) {
  auto session = TlsSession::create(side, key);
  if (!session.ok()) fail(session.status());
  auto sealed = kj::heap<SealedStream>(kj::mv(stream), std::move(*session), nullptr);
  auto& there = *sealed;
  return there.shake_hands().then(
      [sealed = kj::mv(sealed)]() mutable -> kj::Own<kj::AsyncIoStream> { return kj::mv(sealed); });
}

kj::Promise<CertifiedStream> seal(kj::Own<kj::AsyncIoStream> stream, TlsSession::Side side,
                                  std::shared_ptr<const Certificates> certificates,
                                  kj::Timer& timer, std::span<const uint8_t> begun) {
  auto session = TlsSession::create(side, std::move(certificates));
  if (!session.ok()) fail(session.status());
  auto sealed = kj::heap<SealedStream>(kj::mv(stream), std::move(*session), &timer);
  auto& there = *sealed;
  there.begin_with(begun);
  return there.shake_hands().then([sealed = kj::mv(sealed)]() mutable -> CertifiedStream {
    auto peer = sealed->session().peer_certificate();
    if (!peer.ok()) fail(peer.status());
    return {kj::mv(sealed), std::move(*peer)};
  });
}

}  // namespace leat
