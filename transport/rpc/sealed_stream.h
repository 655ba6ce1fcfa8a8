// TLS under a connection of the control plane. Includes KJ: for .cc files.
#pragma once

#include <kj/async-io.h>
#include <kj/timer.h>

#include <memory>
#include <span>

#include "transport/seal/tls_session.h"

namespace leat {

// Shakes hands over a connected stream, and returns a stream that encrypts what is written to it
// and decrypts what is read from it. The promise fails with a description for people if the peer
// does not know the key; it has no deadline of its own.
//
// Reading fails if a byte was changed on its way, or if the stream ends before the peer has closed
// it: an attacker who cuts a connection cannot make that look like the peer's own end.
kj::Promise<kj::Own<kj::AsyncIoStream>> seal(kj::Own<kj::AsyncIoStream> stream,
                                             TlsSession::Side side, const TlsKey& key);

// A stream under TLS with certificates, and the end at the other side.
struct CertifiedStream {
  kj::Own<kj::AsyncIoStream> stream;
  PeerCertificate peer;
};
// The same with certificates. `begun` are the bytes that were already read from the stream, at most
// 16 KiB. If this end refuses the other one, it sends the reason, and the promise fails when the
// other end has closed the connection, or after kRefusalRead. `timer` outlives the promise.
kj::Promise<CertifiedStream> seal(kj::Own<kj::AsyncIoStream> stream, TlsSession::Side side,
                                  std::shared_ptr<const Certificates> certificates,
                                  kj::Timer& timer, std::span<const uint8_t> begun = {});

// An end that closes a connection with bytes unread may take from the other end what it has sent
// last. drain() reads and forgets bytes up to the end of the stream, 64 KiB of them, or this time.
// It does not fail.
inline constexpr auto kRefusalRead = 500 * kj::MILLISECONDS;
kj::Promise<void> drain(kj::AsyncIoStream& stream, kj::Timer& timer);

}  // namespace leat
