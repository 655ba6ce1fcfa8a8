#include "transport/rpc/client.h"

#include <capnp/rpc.h>

#include "transport/rpc/dial.h"
#include "transport/rpc/guard.h"
#include "transport/rpc/sealed_stream.h"
#include "transport/rpc/socket.h"

namespace leat {

// A connection after the hello, with its RPC system. The loop owns it, and destroys it when it
// stops.
class RpcClient::Connection final : public LoopOwned {
 public:
  Connection(LoopContext& context, kj::Own<kj::AsyncIoStream> stream,
             std::shared_ptr<const RpcClientOptions> options, bool authenticated)
      : options_(std::move(options)),
        // The budget is the connection's own: a client has one server, and no other peer to
        // protect.
        budget_(options_->limits.call_bytes * 4),
        network_(kj::mv(stream), capnp::rpc::twoparty::Side::CLIENT, options_->limits,
                 authenticated, context, budget_),
        system_(capnp::makeRpcClient(network_)),
        bootstrap_(bootstrap_of(system_)),
        lost_(network_.on_disconnect()
                  .then([this] {
                    if (options_->on_lost) {
                      options_->on_lost(
                          network_.cause().while_doing(cat("connected to ", options_->address)));
                    }
                  })
                  .eagerlyEvaluate(nullptr)) {}

  capnp::Capability::Client bootstrap() { return bootstrap_; }

 private:
  using System = capnp::RpcSystem<capnp::rpc::twoparty::VatId>;
  static capnp::Capability::Client bootstrap_of(System& system) {
    capnp::word space[4] = {};
    // This message is only the name of the server's side. It fits on the stack.
    capnp::MallocMessageBuilder message(space);
    auto server = message.initRoot<capnp::rpc::twoparty::VatId>();
    server.setSide(capnp::rpc::twoparty::Side::SERVER);
    return system.bootstrap(server);
  }

  const std::shared_ptr<const RpcClientOptions> options_;
  ByteBudget budget_;
  GuardedNetwork network_;
  System system_;
  capnp::Capability::Client bootstrap_;
  kj::Promise<void> lost_;  // last, because it uses the members above
};

namespace {

// The reason why TLS with certificates has failed: another try helps only if the connection was
// lost.
Status failure_of_tls(const kj::Exception& why, const std::string& address) {
  const Status status = to_status(why, address);
  return status.code() == Code::internal ? failed_precondition(status.message()) : status;
}

// The opener's side of the hello, and the stream that it runs over.
struct Opening {
  // The identity depends on the way to the other end, so it is made once that is known.
  void begin(const RpcIdentity& whole, const std::string& address) {
    identity = certified ? identity_in_tls(whole) : identity_over(whole, loopback);
    handshake.emplace(identity, address, random_nonce());
  }
  // Puts TLS under the connection, if this end proves itself by a certificate.
  kj::Promise<Status> certify(const RpcIdentity& whole, const std::string& address,
                              kj::Timer& timer) {
    if (!whole.certificates) return Status();
    return seal(kj::mv(stream), TlsSession::Side::client, whole.certificates->get(), timer)
        .then(
            [this, &whole, &address](CertifiedStream sealed) {
              stream = kj::mv(sealed.stream);
              certified = true;
              return check_master(sealed.peer, whole, address);
            },
            [&address](kj::Exception&& why) { return failure_of_tls(why, address); });
  }
  bool loopback = false;
  bool certified = false;  // both ends have shown certificates
  RpcIdentity identity;
  std::optional<OpenerHandshake> handshake;
  kj::Own<kj::AsyncIoStream> stream;
  RpcAnswer answer;
  Proof proof;
  Verdict verdict;
  RpcPeer peer;
};

// Reads exactly one message of the hello. The caller keeps the opening and the address alive.
template <typename Bytes>
kj::Promise<void> read(Opening& opening, Bytes& bytes, const std::string& address) {
  return opening.stream->tryRead(bytes.data(), bytes.size(), bytes.size())
      .then([&bytes, &address](size_t size) {
        if (size < bytes.size()) {
          kj::throwFatalException(
              to_exception(unavailable(cat(address, " hung up in the middle of the hello"))));
        }
      });
}

// The hello, from its first byte to the verdict, and the TLS that may follow.
kj::Promise<Status> greet(const std::shared_ptr<Opening>& opening,
                          const std::shared_ptr<const RpcClientOptions>& options) {
  opening->begin(options->identity, options->address);
  const Hello& hello = opening->handshake->hello();
  return opening->stream->write(hello.data(), hello.size())
      .then([opening, options] { return read(*opening, opening->answer, options->address); })
      .then([opening, options]() -> kj::Promise<Status> {
        const auto proof = opening->handshake->on_answer(opening->answer);
        if (!proof.ok()) return proof.status();
        opening->proof = *proof;
        return opening->stream->write(opening->proof.data(), opening->proof.size())
            .then([opening, options] { return read(*opening, opening->verdict, options->address); })
            .then([] { return Status(); });
      })
      .then([opening](Status status) -> kj::Promise<Status> {
        if (!status.ok()) return status;
        auto peer = opening->handshake->on_verdict(opening->verdict);
        if (!peer.ok()) return peer.status();
        opening->peer = std::move(*peer);
        if (opening->certified) {
          opening->peer.authenticated = opening->peer.sealed = true;
          return Status();
        }
        if (!opening->peer.sealed) return Status();
        return seal(kj::mv(opening->stream), TlsSession::Side::client,
                    *opening->handshake->seal_key())
            .then([opening](kj::Own<kj::AsyncIoStream> sealed) {
              opening->stream = kj::mv(sealed);
              return Status();
            });
      });
}

}  // namespace

kj::Promise<RpcClient::Connected> RpcClient::open(RpcLoop& loop,
                                                  std::shared_ptr<const RpcClientOptions> options) {
  const Status sound = check_identity(options->identity);
  if (!sound.ok()) return Connected(sound);
  // Every step below holds `opening` and `options`, because the promise may be dropped between any
  // two.
  const auto opening = std::make_shared<Opening>();
  auto& network = loop.context().io.provider->getNetwork();
  // Resolve, dial, hello, answer, proof, verdict. The deadline of the call covers all of it.
  return network.parseAddress(options->address.c_str())
      .then([&timer = loop.context().timer](kj::Own<kj::NetworkAddress> address) {
        // The address lives as long as the attempts that use it.
        auto connected = dial(*address, timer);
        return connected.attach(kj::mv(address));
      })
      .then([opening, options, &timer = loop.context().timer](kj::Own<kj::AsyncIoStream> stream) {
        opening->stream = kj::mv(stream);
        // The options are set before the first byte, so that a hello is not delayed either.
        KJ_IF_MAYBE (fd, opening->stream->getFd()) {
          set_control_options(*fd);
          opening->loopback = remote_address(*fd).is_loopback();
        }
        return opening->certify(options->identity, options->address, timer);
      })
      .then([opening, options](Status certified) -> kj::Promise<Status> {
        if (!certified.ok()) return certified;
        // An acceptor that refuses this end's certificate says so in place of its answer.
        return greet(opening, options).catch_([opening, options](kj::Exception&& why) -> Status {
          if (!opening->certified) kj::throwFatalException(kj::mv(why));
          return failure_of_tls(why, options->address);
        });
      })
      .then([&loop, opening, options](Status status) -> Connected {
        if (!status.ok()) return status;
        // Only now Cap'n Proto gets the stream.
        auto connection = kj::heap<Connection>(loop.context(), kj::mv(opening->stream), options,
                                               opening->peer.authenticated);
        Connection& there = *connection;
        const uint64_t id = loop.context().own(kj::mv(connection));
        return std::unique_ptr<RpcClient>(new RpcClient(loop, id, there, std::move(opening->peer)));
      });
}

RpcClient::Connected RpcClient::connect(RpcLoop& loop, RpcClientOptions options) {
  const auto shared = std::make_shared<const RpcClientOptions>(std::move(options));
  return leat::call(
      loop, [&loop, shared] { return open(loop, shared); }, shared->deadline,
      cat("connecting to ", shared->address));
}

void RpcClient::connect(RpcLoop& loop, RpcClientOptions options,
                        std::function<void(Connected)> done) {
  const auto shared = std::make_shared<const RpcClientOptions>(std::move(options));
  start_call(
      loop, [&loop, shared] { return open(loop, shared); }, shared->deadline,
      cat("connecting to ", shared->address), std::move(done));
}

RpcClient::~RpcClient() {
  // The connection ends on the loop's thread. If the loop has stopped, it has destroyed the
  // connection.
  (void)loop_.run([this] { loop_.context().release(id_); });
}

capnp::Capability::Client RpcClient::bootstrap_capability() { return connection_.bootstrap(); }

}  // namespace leat
