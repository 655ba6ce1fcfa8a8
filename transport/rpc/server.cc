#include "transport/rpc/server.h"

#include <capnp/rpc.h>
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "devices/base/text.h"
#include "transport/rpc/admission.h"
#include "transport/rpc/call.h"
#include "transport/rpc/guard.h"
#include "transport/rpc/loop_context.h"
#include "transport/rpc/peer_user.h"
#include "transport/rpc/sealed_stream.h"
#include "transport/rpc/socket.h"
#include "transport/rpc/socket_path.h"

namespace leat {
namespace {

// So many callers at most are accepted before other work on the loop has its turn.
constexpr int kAcceptsPerTurn = 64;
constexpr std::chrono::milliseconds kFirstBackOff{10};
constexpr std::chrono::milliseconds kLastBackOff{1'000};
// How long a token may go on after it expired or was revoked.
constexpr std::chrono::milliseconds kTokenWatch{500};
// How many certificates are verified in one turn of the loop, and the pause before the next ones.
constexpr int kVerifiedAtOnce = 64;
constexpr std::chrono::milliseconds kVerifyOn{5};

// The first byte of a connection that begins with TLS, and how such a one is told that this end has
// no certificates: an alert of TLS, "handshake failure".
constexpr uint8_t kTlsHandshake = 0x16;
constexpr uint8_t kNoCertificates[] = {0x15, 0x03, 0x03, 0x00, 0x02, 0x02, 0x28};

// "127.0.0.1:4711", or "process 4711 of uid 1000" at the other end of a Unix socket.
std::string name_of_caller(const SocketAddress& from, int fd) {
  const auto peer = from.is_unix() ? local_peer(fd) : std::nullopt;
  return peer ? cat("process ", peer->process, " of uid ", peer->user) : from.to_string();
}

// Seconds since 1970.
int64_t seconds_now() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// The error of a handshake that failed, as an exception. It does not leave this file.
kj::Exception given_up(std::string why) { return to_exception(unavailable(std::move(why))); }

// Counts the connections that a server has let in.
struct Seats {
  size_t taken = 0;
  size_t clients = 0;  // how many of them are clients
};

// One of these connections, from the verdict that lets the peer in to the connection's end.
class Seat {
 public:
  Seat(Seats& seats, RpcRole role) : seats_(seats), client_(role == RpcRole::client ? 1 : 0) {
    ++seats_.taken;
    seats_.clients += client_;
  }
  ~Seat() {
    --seats_.taken;
    seats_.clients -= client_;
  }
  KJ_DISALLOW_COPY(Seat);

 private:
  Seats& seats_;
  const size_t client_;
};

}  // namespace

// The loop's thread counts, and any thread reads.
struct RpcServer::Counters {
  std::atomic<uint64_t> accepted{0}, refused{0}, half_open_ended{0}, over_rate{0}, no_descriptor{0},
      dropped{0}, live{0};
};

// All state of a server. It lives on the loop's thread.
class RpcServer::Acceptor final : public LoopOwned, private kj::TaskSet::ErrorHandler {
 public:
  // `path`: the name of a Unix socket, which goes with the acceptor; null for TCP.
  Acceptor(RpcLoop& loop, int socket, std::unique_ptr<SocketPath> path, RpcServerOptions options,
           Bootstrap bootstrap, std::shared_ptr<Counters> counters)
      : loop_(loop),
        context_(loop.context()),
        options_(std::move(options)),
        bootstrap_(std::move(bootstrap)),
        counters_(std::move(counters)),
        budget_(options_.held_bytes),
        rate_(options_.connections_per_second, options_.connection_burst),
        path_(std::move(path)),
        socket_(socket),
        reserve_(::open("/dev/null", O_RDONLY | O_CLOEXEC)),
        readable_(context_.io.unixEventPort, socket_, kj::UnixEventPort::FdObserver::OBSERVE_READ),
        tasks_(*this) {}

  // Ends it later, because this may run in a call of that very connection.
  void drop(uint64_t connection) {
    tasks_.add(kj::evalLater([this, connection] { end(connection); }));
  }
  void start(bool insecure) {
    tasks_.add(accept_loop());
    if (!options_.identity.secret.empty() || options_.identity.certificates)
      tasks_.add(watch_tokens(kTokenWatch));
    if (insecure) tasks_.add(warn_loop());
  }

 private:
  // A connection before its hello is accepted.
  struct HalfOpen {
    HalfOpen(uint64_t i, RpcIdentity me, kj::Own<kj::AsyncIoStream> s, std::string from)
        : id(i), identity(std::move(me)), stream(kj::mv(s)), address(std::move(from)) {}
    // The hello begins: over TLS, if the peer has shown a certificate.
    void begin(std::optional<PeerCertificate> shown) {
      certificate = std::move(shown);
      if (certificate) identity = identity_in_tls(identity);
      handshake.emplace(identity, random_nonce());
    }
    const uint64_t id;
    RpcIdentity identity;  // of this end on this connection
    kj::Own<kj::AsyncIoStream> stream;
    std::string address;
    std::optional<PeerCertificate> certificate;
    std::optional<AcceptorHandshake> handshake;
    Hello hello;
    RpcAnswer answer;
    Proof proof;
    Verdict verdict;
    RpcPeer peer;  // once its proof was judged
    kj::Maybe<capnp::Capability::Client> bootstrap;
    std::string why;                   // ": ..." of a refusal that has a reason of its own
    kj::Own<Seat> seat;                // set once the peer is let in
    kj::Promise<void> task = nullptr;  // last, because it uses the members above
  };
  // A connection after its hello is accepted.
  struct Live {
    Live(LoopContext& context, HalfOpen& half, const RpcServerOptions& options, ByteBudget& budget)
        : address(std::move(half.address)),
          grant(half.peer.grant),
          secret(half.handshake->secret()),
          certificate(std::move(half.certificate)),
          seat(kj::mv(half.seat)),
          network(kj::mv(half.stream), capnp::rpc::twoparty::Side::SERVER, options.limits,
                  half.peer.authenticated, context, budget),
          system(network, kj::mv(half.bootstrap)) {}
    const std::string address;
    const Grant grant;
    const std::string secret;
    const std::optional<PeerCertificate> certificate;
    // The certificates of this end by which the peer's was verified last.
    std::shared_ptr<const Certificates> verified_by;
    std::string distrusted;  // the reason why they do not trust it
    const kj::Own<Seat> seat;
    GuardedNetwork network;
    capnp::RpcSystem<capnp::rpc::twoparty::VatId> system;
  };
  // A descriptor that is closed with its owner.
  class Closing {
   public:
    explicit Closing(int fd) : fd_(fd) {}
    ~Closing() {
      if (fd_ >= 0) ::close(fd_);
    }
    Closing(const Closing&) = delete;
    Closing& operator=(const Closing&) = delete;
    operator int() const { return fd_; }  // NOLINT: stands for its descriptor
    void reset(int fd) {
      if (fd_ >= 0) ::close(fd_);
      fd_ = fd;
    }

   private:
    int fd_;
  };

  void taskFailed(kj::Exception&& error) override {
    options_.log.error("rpc server: ", error.getDescription().cStr());
  }

  kj::Promise<void> accept_loop();
  kj::Promise<void> back_off(int error);
  void admit(int fd, const SocketAddress& from);
  kj::Promise<void> handshake(HalfOpen& half);
  kj::Promise<void> read_hello(HalfOpen& half);
  kj::Promise<void> certify(HalfOpen& half);
  kj::Promise<void> say_verdict(HalfOpen& half);
  kj::Promise<void> seal_stream(HalfOpen& half);
  kj::Promise<Refusal> judge(HalfOpen& half);
  Refusal judge_key(HalfOpen& half);
  kj::Promise<Refusal> judge_user(HalfOpen& half);
  Refusal take_seat(HalfOpen& half);
  Refusal is_over(const Grant& grant) const;
  Refusal is_over(Live& live) const;
  kj::Promise<void> watch_tokens(std::chrono::milliseconds pause);
  void end_granted(uint64_t id);
  void end_half_open(uint64_t id, Status why);
  void begin(uint64_t id);
  void end(uint64_t id);
  kj::Promise<void> warn_loop();

  template <typename Bytes>
  kj::Promise<void> read(HalfOpen& half, Bytes& bytes) {
    return half.stream->tryRead(bytes.data(), bytes.size(), bytes.size()).then([&](size_t size) {
      if (size < bytes.size()) kj::throwFatalException(given_up("it hung up"));
    });
  }
  template <typename Bytes>
  kj::Promise<void> write(HalfOpen& half, const Bytes& bytes) {
    return half.stream->write(bytes.data(), bytes.size());
  }

  RpcLoop& loop_;
  LoopContext& context_;
  const RpcServerOptions options_;
  const Bootstrap bootstrap_;
  const std::shared_ptr<Counters> counters_;
  ByteBudget budget_;
  ConnectionRate rate_;
  const std::unique_ptr<SocketPath> path_;
  Closing socket_;
  Closing reserve_;  // closed for a moment to turn callers away when no descriptor is left
  std::chrono::milliseconds back_off_ = kFirstBackOff;
  kj::UnixEventPort::FdObserver readable_;
  uint64_t next_id_ = 1;
  Seats seats_;
  std::map<uint64_t, kj::Own<HalfOpen>> half_open_;  // the oldest first
  std::map<uint64_t, kj::Own<Live>> live_;
  kj::TaskSet tasks_;  // last, because the tasks use the members above
};

kj::Promise<void> RpcServer::Acceptor::accept_loop() {
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    SocketAddress from;
    const int fd = ::accept4(socket_, reinterpret_cast<sockaddr*>(&from.storage), &from.size,
                             SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
      // A success ends the row of failures, so the next pause is short again.
      back_off_ = kFirstBackOff;
      admit(fd, from);
      continue;
    }
    const int error = errno;
    // The caller hung up before it was accepted. The next one may be there.
    if (error == EINTR || error == ECONNABORTED) continue;
    if (error != EAGAIN && error != EWOULDBLOCK) return back_off(error);
    return readable_.whenBecomesReadable().then([this] { return accept_loop(); });
  }
  return context_.timer.afterDelay(0 * kj::NANOSECONDS).then([this] { return accept_loop(); });
}

// Callers left in the backlog would wake this loop again at once, and would wait in vain. So this
// accepts them with the reserve descriptor and closes them.
kj::Promise<void> RpcServer::Acceptor::back_off(int error) {
  if ((error == EMFILE || error == ENFILE) && reserve_ >= 0) {
    reserve_.reset(-1);
    for (int i = 0; i < kAcceptsPerTurn; ++i) {
      const int fd = ::accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) break;
      ::close(fd);
      ++counters_->no_descriptor;
    }
  }
  // The reserve is taken back. If that fails, the next back_off() tries again.
  if (reserve_ < 0) reserve_.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  options_.log.warning("rpc server: cannot accept, errno ", error, "; waiting ", back_off_.count(),
                       " ms");
  const auto wait = std::exchange(back_off_, std::min(2 * back_off_, kLastBackOff));
  return context_.timer.afterDelay(to_kj(wait)).then([this] { return accept_loop(); });
}

// Begins the handshake of a new connection, unless its address keeps it out.
void RpcServer::Acceptor::admit(int fd, const SocketAddress& from) {
  const bool limited = options_.limit_loopback || !from.is_loopback();
  if (limited && !rate_.admit(from.owner(), std::chrono::steady_clock::now())) {
    ++counters_->over_rate;
    ::close(fd);
    return;
  }
  set_control_options(fd);
  if (half_open_.size() >= options_.half_open) {
    // An honest peer needs a few round trips, so the oldest handshake is the least likely to
    // succeed.
    ++counters_->half_open_ended;
    half_open_.erase(half_open_.begin());
  }
  const uint64_t id = next_id_++;
  const std::string caller = name_of_caller(from, fd);
  auto stream = context_.io.lowLevelProvider->wrapSocketFd(
      fd, kj::LowLevelAsyncIoProvider::TAKE_OWNERSHIP |
              kj::LowLevelAsyncIoProvider::ALREADY_CLOEXEC |
              kj::LowLevelAsyncIoProvider::ALREADY_NONBLOCK);
  auto& half =
      *half_open_
           .emplace(id, kj::heap<HalfOpen>(id, identity_over(options_.identity, from.is_loopback()),
                                           kj::mv(stream), caller))
           .first->second;
  // The entry holds this promise, so the promise must not erase it. A later task does.
  half.task = within(handshake(half), context_.timer, options_.handshake_deadline, "handshake")
                  .then([this, id](Status status) {
                    tasks_.add(kj::evalLater([this, id, status] {
                      if (status.ok()) {
                        begin(id);
                      } else {
                        end_half_open(id, status);
                      }
                    }));
                  })
                  .eagerlyEvaluate(nullptr);
}

// Reads the hello. A peer that begins with TLS in its place has to show a certificate, and then
// says its hello over TLS.
kj::Promise<void> RpcServer::Acceptor::read_hello(HalfOpen& half) {
  return half.stream->tryRead(half.hello.data(), kRpcHelloStart, kRpcHelloStart)
      .then([this, &half](size_t size) -> kj::Promise<void> {
        if (size < kRpcHelloStart) kj::throwFatalException(given_up("it hung up"));
        if (half.hello[0] == kTlsHandshake && !half.certificate) return certify(half);
        if (!half.handshake) half.begin(std::nullopt);
        if (!AcceptorHandshake::has_rest(half.hello)) return kj::READY_NOW;
        constexpr size_t kRest = kRpcHelloBytes - kRpcHelloStart;
        return half.stream->tryRead(half.hello.data() + kRpcHelloStart, kRest, kRest)
            .then([](size_t rest) {
              if (rest < kRest) kj::throwFatalException(given_up("it hung up"));
            });
      });
}

// The bytes of the hello are the first ones of TLS.
kj::Promise<void> RpcServer::Acceptor::certify(HalfOpen& half) {
  const auto& certificates = options_.identity.certificates;
  if (!certificates) {
    return half.stream->write(kNoCertificates, sizeof kNoCertificates)
        .then([this, &half] {
          half.stream->shutdownWrite();
          return drain(*half.stream, context_.timer);
        })
        .then([] {
          kj::throwFatalException(given_up("it begins with TLS, and this end has no certificate"));
        });
  }
  return seal(kj::mv(half.stream), TlsSession::Side::server, certificates->get(), context_.timer,
              std::span(half.hello).first(kRpcHelloStart))
      .then([this, &half](CertifiedStream certified) {
        half.stream = kj::mv(certified.stream);
        half.begin(std::move(certified.peer));
        half.hello = Hello();
        return read_hello(half);
      });
}

// Reads the hello, answers, reads the proof, and says the verdict. A refusal is sent before the
// connection ends, so that the opener learns the reason.
kj::Promise<void> RpcServer::Acceptor::handshake(HalfOpen& half) {
  return read_hello(half)
      .then([this, &half] {
        const auto answer = half.handshake->on_hello(half.hello);
        if (!answer) kj::throwFatalException(given_up("what it sent is not a hello"));
        half.answer = *answer;
        return write(half, half.answer);
      })
      .then([this, &half] {
        if (half.handshake->refusal() != Refusal::none) {
          kj::throwFatalException(given_up(
              cat("its ", refusal_name(half.handshake->refusal()), " differs from this end's")));
        }
        return read(half, half.proof);
      })
      .then([this, &half] { return say_verdict(half); })
      .then([this, &half] { return seal_stream(half); });
}

kj::Promise<void> RpcServer::Acceptor::say_verdict(HalfOpen& half) {
  return judge(half).then([this, &half](Refusal refusal) {
    half.verdict = half.handshake->verdict(refusal);
    return write(half, half.verdict).then([refusal, &half] {
      if (refusal == Refusal::none) return;
      const std::string who = half.certificate ? cat(uri_of(half.certificate->name), ": ") : "";
      kj::throwFatalException(
          given_up(cat(who, "refused for its ", refusal_name(refusal), half.why)));
    });
  });
}

// Puts TLS under the connection if the two ends have agreed on it.
kj::Promise<void> RpcServer::Acceptor::seal_stream(HalfOpen& half) {
  const auto key = half.handshake->seal_key();
  if (!key) return kj::READY_NOW;
  return seal(kj::mv(half.stream), TlsSession::Side::server, *key)
      .then([&half](kj::Own<kj::AsyncIoStream> sealed) { half.stream = kj::mv(sealed); });
}

// Judges a peer that has sent its proof, and takes its seat. The seat is taken before the verdict
// is sent: otherwise two peers could be promised the last one.
kj::Promise<Refusal> RpcServer::Acceptor::judge(HalfOpen& half) {
  if (const Refusal refusal = judge_key(half); refusal != Refusal::none) return refusal;
  if (half.peer.authenticated || !options_.judge_user) return take_seat(half);
  return judge_user(half).then([this, &half](Refusal refusal) {
    return refusal == Refusal::none ? take_seat(half) : refusal;
  });
}

Refusal RpcServer::Acceptor::judge_key(HalfOpen& half) {
  if (const Refusal refusal = half.handshake->on_proof(half.proof); refusal != Refusal::none) {
    return refusal;
  }
  RpcPeer& peer = half.peer;
  peer = half.handshake->peer();
  if (!half.certificate) return is_over(peer.grant);
  if (half.certificate->name.cluster != half.identity.cluster) return Refusal::cluster;
  const auto grant = grant_of(*half.certificate);
  if (!grant.ok() || !fits(grant->right, peer.role)) return Refusal::role;
  peer.grant = *grant;
  peer.authenticated = peer.sealed = true;
  return Refusal::none;
}

// Gives a peer without a key the rights of its user. A refusal's reason is in `half.why`; `busy` if
// the user cannot be judged now.
kj::Promise<Refusal> RpcServer::Acceptor::judge_user(HalfOpen& half) {
  std::optional<LocalPeer> local;
  KJ_IF_MAYBE (fd, half.stream->getFd()) {
    local = local_peer(*fd);
  }
  if (!local) {
    half.why =
        ": expected a process of this machine, whose user the kernel tells, received another one";
    return Refusal::user;
  }
  auto waiting = answered_elsewhere<Grant>(loop_, "judging a user of this machine");
  options_.judge_user(*local, half.peer.role, std::move(waiting.done));
  return within(kj::mv(waiting.promise), context_.timer, options_.judge_deadline,
                cat("judging user ", local->user))
      .then([&half](Result<Grant>&& grant) {
        if (grant.ok()) {
          half.peer.grant = *grant;
          return Refusal::none;
        }
        half.why = cat(": ", grant.status().message());
        return grant.status().code() == Code::failed_precondition ? Refusal::user : Refusal::busy;
      });
}

Refusal RpcServer::Acceptor::take_seat(HalfOpen& half) {
  RpcPeer& peer = half.peer;
  const bool client = peer.role == RpcRole::client;
  const bool full = seats_.taken >= options_.connections;
  if (full || (client && seats_.clients >= options_.clients)) return Refusal::busy;
  peer.address = half.address;
  peer.connection = half.id;
  half.bootstrap = bootstrap_(peer);
  if (half.bootstrap == nullptr) return Refusal::role;
  half.seat = kj::heap<Seat>(seats_, peer.role);
  return Refusal::none;
}

// Why the token of a grant is not good any more; none if it is.
Refusal RpcServer::Acceptor::is_over(const Grant& grant) const {
  if (grant.right == Right::member) return Refusal::none;
  if (grant.expires != 0 && grant.expires <= seconds_now()) return Refusal::expired;
  return options_.is_revoked && options_.is_revoked(grant) ? Refusal::revoked : Refusal::none;
}

// The same for a connection, which also ends with the secret that its key was made from, or when
// new files no longer trust its certificate.
Refusal RpcServer::Acceptor::is_over(Live& live) const {
  if (live.certificate) {
    auto now = options_.identity.certificates->get();
    if (live.certificate->expires <= seconds_now()) return Refusal::expired;
    if (live.verified_by == now) return Refusal::none;
    const Status trusted = now->check(*live.certificate);
    live.distrusted = trusted.message();
    if (!trusted.ok()) return Refusal::revoked;
    live.verified_by = std::move(now);
    return Refusal::none;
  }
  const auto& secrets = options_.identity.secrets;
  if (secrets && !secrets->accepts(live.secret)) return Refusal::authentication;
  return is_over(live.grant);
}

// Ends the connections of tokens and certificates that have expired or were revoked meanwhile.
// After new files, so many certificates at a time are verified again.
kj::Promise<void> RpcServer::Acceptor::watch_tokens(std::chrono::milliseconds pause) {
  return context_.timer.afterDelay(to_kj(pause)).then([this] {
    std::vector<uint64_t> over;
    const auto certificates =
        options_.identity.certificates ? options_.identity.certificates->get() : nullptr;
    int verified = 0;
    for (auto& [id, live] : live_) {
      if (live->certificate && live->verified_by != certificates && ++verified > kVerifiedAtOnce)
        break;
      if (is_over(*live) != Refusal::none) over.push_back(id);
    }
    for (const uint64_t id : over) end_granted(id);
    return watch_tokens(verified > kVerifiedAtOnce ? kVerifyOn : kTokenWatch);
  });
}

// Ends the connection of a token or certificate that is not good any more.
void RpcServer::Acceptor::end_granted(uint64_t id) {
  const auto found = live_.find(id);
  if (found == live_.end()) return;
  ++counters_->dropped;
  Live& live = *found->second;
  const Refusal refusal = is_over(live);
  std::string why_text = cat(live.certificate ? "end of the certificate" : refusal_name(refusal),
                             " of ", right_name(live.grant.right), " '", live.grant.name, "'");
  if (live.certificate)
    why_text += refusal == Refusal::expired ? ": it has expired" : cat(": ", live.distrusted);
  const Status why = failed_precondition(std::move(why_text));
  options_.log.info("rpc: dropped ", live.address, ": ", why.message());
  if (options_.on_refused) options_.on_refused(live.address, why);
  end(id);
}

void RpcServer::Acceptor::end_half_open(uint64_t id, Status why) {
  const auto found = half_open_.find(id);
  if (found == half_open_.end()) return;  // evicted meanwhile
  const bool silent = why.code() == Code::deadline_exceeded;
  ++(silent ? counters_->half_open_ended : counters_->refused);
  options_.log.info("rpc: let go of ", found->second->address, ": ", why.message());
  if (options_.on_refused) options_.on_refused(found->second->address, why);
  half_open_.erase(found);
}

// Turns a connection whose verdict was sent into one that Cap'n Proto serves.
void RpcServer::Acceptor::begin(uint64_t id) {
  const auto found = half_open_.find(id);
  if (found == half_open_.end()) return;
  auto half = kj::mv(found->second);
  half_open_.erase(found);
  // The handshake object is taken apart here: stream, address, capability and seat go on in the
  // connection.
  ++counters_->accepted;
  ++counters_->live;
  auto& live = *live_.emplace(id, kj::heap<Live>(context_, *half, options_, budget_)).first->second;
  tasks_.add(live.network.on_disconnect().then(
      [this, id] {
        const auto ended = live_.find(id);
        if (ended == live_.end()) return;
        const Status cause = ended->second->network.cause();
        // A peer that hangs up is nothing special. Any other cause is a limit that the peer has
        // passed.
        if (cause.code() != Code::unavailable) {
          ++counters_->dropped;
          options_.log.warning("rpc: dropped ", ended->second->address, ": ", cause.message());
        }
        end(id);
      },
      [](kj::Exception&&) {}));  // end() has destroyed the network
}

void RpcServer::Acceptor::end(uint64_t id) {
  const auto found = live_.find(id);
  if (found == live_.end()) return;
  auto gone = kj::mv(found->second);  // erased first, because its destructor may look at the table
  live_.erase(found);
  --counters_->live;
}

// Repeats the warning for as long as the server lives, so that it is in every part of a log.
kj::Promise<void> RpcServer::Acceptor::warn_loop() {
  options_.log.warning("rpc: ", local_address(socket_).to_string(),
                       " takes connections from the network without authentication");
  return context_.timer.afterDelay(kj::MINUTES).then([this] { return warn_loop(); });
}

Result<std::unique_ptr<RpcServer>> RpcServer::listen(RpcLoop& loop, RpcServerOptions options,
                                                     Bootstrap bootstrap) {
  LEAT_RETURN_IF_ERROR(check_identity(options.identity));
  std::unique_ptr<SocketPath> path;
  int socket = -1;
  bool insecure = false;
  if (options.local_socket.empty()) {
    LEAT_ASSIGN_OR_RETURN(const SocketAddress address, parse_socket_address(options.address));
    insecure =
        !address.is_loopback() && options.identity.secret.empty() && !options.identity.certificates;
    if (insecure && !options.insecure_allow_network_without_authentication) {
      return failed_precondition(cat(
          "cannot listen on ", address.to_string(),
          ": expected a loopback address, or a secret or certificate to authenticate peers with"));
    }
    LEAT_ASSIGN_OR_RETURN(socket, listen_on(address));
  } else {
    LEAT_ASSIGN_OR_RETURN(SocketPath made, SocketPath::listen(options.local_socket));
    path = std::make_unique<SocketPath>(std::move(made));
    socket = path->take_descriptor();
  }
  const std::string bound = path ? cat("unix:", path->path()) : local_address(socket).to_string();
  // The acceptor is made on the loop's thread, where it will live.
  auto counters = std::make_shared<Counters>();
  uint64_t id = 0;
  const bool ran = loop.run([&] {
    auto acceptor = kj::heap<Acceptor>(loop, socket, std::move(path), std::move(options),
                                       std::move(bootstrap), counters);
    acceptor->start(insecure);
    id = loop.context().own(kj::mv(acceptor));
  });
  if (!ran) {
    ::close(socket);
    return cancelled(cat("cannot listen on ", bound, ": the rpc thread has stopped"));
  }
  return std::unique_ptr<RpcServer>(new RpcServer(loop, id, bound, std::move(counters)));
}

RpcServer::~RpcServer() {
  (void)loop_.run([this] { loop_.context().release(id_); });
}

void RpcServer::drop(uint64_t connection) {
  (void)loop_.post([&loop = loop_, id = id_, connection] {
    // The server may be gone by the time this runs, so the number is looked up again.
    const auto found = loop.context().owned.find(id);
    if (found == loop.context().owned.end()) return;
    static_cast<Acceptor&>(*found->second).drop(connection);
  });
}

RpcServerCounts RpcServer::counts() const {
  return {.accepted = counters_->accepted,
          .refused = counters_->refused,
          .half_open_ended = counters_->half_open_ended,
          .over_rate = counters_->over_rate,
          .no_descriptor = counters_->no_descriptor,
          .dropped = counters_->dropped,
          .live = counters_->live};
}

}  // namespace leat
