// Bytes of a peer that has not the key, for both ends of a session of TLS: as the whole handshake,
// and behind one that was done. Without the key there is no handshake and no plaintext.
//
// The first byte of the input says to which end the rest goes, and when.
#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "tests/fuzz/fuzz.h"
#include "transport/seal/tls_session.h"

namespace {

using namespace leat;

std::unique_ptr<TlsSession> session(TlsSession::Side side) {
  TlsKey key{};
  key[5] = 77;
  return TlsSession::create(side, key).value();
}

// Gives bytes to a session. Returns false once it has failed.
bool give(TlsSession& to, std::span<const std::byte> bytes) {
  const bool established = to.established();
  while (true) {
    const auto space = to.space();
    const size_t n = std::min(space.size(), bytes.size());
    require(n > 0 || bytes.empty(), "there is room for input");
    std::memcpy(space.data(), bytes.data(), n);
    to.received(n);
    bytes = bytes.subspan(n);
    if (const Status shaken = to.shake_hands(); !shaken.ok()) {
      require_message(shaken);
      return false;
    }
    require(to.established() == established, "no handshake without the key");
    if (established) {
      std::byte some[512];
      const auto got = to.read(some);
      if (!got.ok()) {
        require_message(got.status());
        return false;
      }
      require(*got == 0, "no plaintext without the key");
    }
    if (bytes.empty()) return true;
  }
}

void establish(TlsSession& client, TlsSession& server) {
  require(client.shake_hands().ok(), "the client begins");
  const auto carry = [](TlsSession& from, TlsSession& to) {
    const auto bytes = from.take_output();
    const auto space = to.space();
    std::memcpy(space.data(), bytes.data(), bytes.size());
    to.received(bytes.size());
    require(to.shake_hands().ok(), "two ends with one key meet");
  };
  carry(client, server);
  carry(server, client);
  carry(client, server);
  require(client.established() && server.established(), "the handshake ends");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const auto client = session(TlsSession::Side::client), server = session(TlsSession::Side::server);
  const bool to_server = (data[0] & 1) != 0, established = (data[0] & 2) != 0;
  if (established) {
    establish(*client, *server);
  } else {
    require(client->shake_hands().ok(), "the client begins");
  }
  TlsSession& target = to_server ? *server : *client;
  auto rest = bytes_of_input(data, size).subspan(1);
  // In two pieces, cut where the input says.
  const size_t cut = rest.empty() ? 0 : std::min(rest.size(), size_t{data[0]} * 2);
  if (give(target, rest.first(cut))) (void)give(target, rest.subspan(cut));
  return 0;
}
