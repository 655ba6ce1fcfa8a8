// Sends a peer's bytes in pieces of any size: the hello, or the messages after it. No input may
// guess a proof, a message must match its segment table, memory must follow the bytes received, and
// the ledger must stay within its limits or name the limit that was passed.
#include <capnp/message.h>
#include <kj/exception.h>

#include <algorithm>
#include <cstring>

#include "tests/fuzz/fuzz.h"
#include "transport/rpc/framing.h"
#include "transport/rpc/hello.h"
#include "transport/rpc/ledger.h"

namespace {

using namespace leat;

constexpr size_t kCap = 1u << 20;

void shake(std::span<const uint8_t> input) {
  const RpcIdentity identity{.protocol_version = 2,
                             .features = 3,
                             .required_features = 1,
                             .role = RpcRole::master,
                             .cluster = "test",
                             .secret = "sixteen bytes ok"};
  Hello hello{};
  Proof proof{};
  std::copy_n(input.begin(), std::min(input.size(), hello.size()), hello.begin());
  if (input.size() > hello.size()) {
    const auto rest = input.subspan(hello.size());
    std::copy_n(rest.begin(), std::min(rest.size(), proof.size()), proof.begin());
  }
  AcceptorHandshake acceptor(identity, Nonce{});
  const auto answer = acceptor.on_hello(hello);
  require(answer.has_value() == (std::memcmp(hello.data(), "LEAT", 4) == 0), "a hello has a magic");
  if (!answer || acceptor.refusal() != Refusal::none) return;
  require(acceptor.on_proof(proof) == Refusal::authentication, "a proof is not guessed");
  require(!rpc_role_name(acceptor.peer().role).empty(), "a role has a name");
}

void count(Ledger& ledger, const RpcLimits& limits, const FramedMessage& message) {
  std::vector<kj::ArrayPtr<const capnp::word>> segments;
  const auto* next = reinterpret_cast<const capnp::word*>(message.words.data());
  for (const uint32_t words : message.segment_words) {
    segments.emplace_back(next, words);
    next += words;
  }
  KJ_IF_MAYBE (error, kj::runCatchingExceptions([&] {
                 capnp::SegmentArrayMessageReader reader(
                     kj::arrayPtr(segments.data(), segments.size()),
                     {.traversalLimitInWords = limits.traversal_words,
                      .nestingLimit = limits.nesting});
                 const Status status =
                     ledger.received(reader.getRoot<capnp::rpc::Message>(), message.bytes());
                 require(status.ok() || !status.message().empty(), "an error has a message");
                 require(!status.ok() || ledger.calls_received() <= limits.calls, "calls counted");
                 require(!status.ok() || ledger.imports() <= limits.imports, "imports counted");
               })) {
    require(error->getDescription().size() > 0, "malformed messages are named");
  }
}

void stream(std::span<const uint8_t> input) {
  RpcLimits limits;
  limits.calls = 8;
  limits.imports = 8;
  Ledger ledger(limits);
  MessageFraming framing(kCap);
  size_t piece = 1;
  size_t fed = 0;
  while (fed < input.size()) {
    const auto space = framing.space();
    require(!space.empty(), "there is always room");
    const size_t size = std::min({piece, input.size() - fed, space.size()});
    std::memcpy(space.data(), input.data() + fed, size);
    framing.received(size);
    fed += size;
    piece = piece % 61 + 7;
    for (;;) {
      auto next = framing.next();
      if (!next.ok()) return;
      if (!next->has_value()) break;
      size_t words = 0;
      for (const uint32_t segment : (*next)->segment_words) words += segment;
      require(words == (*next)->words.size(), "a message is as long as its table says");
      count(ledger, limits, **next);
    }
    require(framing.held_bytes() <= std::max<size_t>(16u << 10, 2 * fed), "memory follows bytes");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::span input(data + 1, size - 1);
  data[0] == 'h' ? shake(input) : stream(input);
  return 0;
}
