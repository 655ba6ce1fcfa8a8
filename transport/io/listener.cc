#include "transport/io/listener.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>

#include "devices/base/text.h"

namespace leat {

// The listener's state, shared with its timers, which may fire after the listener is gone.
// Threads: all of it on the reactor's, except for the constructor.
class Listener::Core final : public Reactor::Watched, public std::enable_shared_from_this<Core> {
 public:
  Core(Reactor& reactor, ListeningSocket listening, Gate& gate, Options options)
      : reactor_(reactor), listening_(std::move(listening)), gate_(gate), options_(options) {}

  const std::string& address() const { return listening_.address; }
  Status start() {
    LEAT_ASSIGN_OR_RETURN(watch_, reactor_.watch(listening_.socket.get(), *this));
    return {};
  }
  void stop() {
    watch_.reset();
    pending_.clear();
  }

 private:
  // The pause when no descriptors are left.
  static constexpr std::chrono::milliseconds kBackOff{100};

  // One dialer that has not proved itself yet. It erases itself from pending_ at its end: a
  // function that calls end() touches no member afterwards.
  class Pending final : public Reactor::Watched {
   public:
    Pending(Core& core, uint64_t id, Descriptor socket)
        : core_(core), id_(id), socket_(std::move(socket)) {}
    Status start() {
      LEAT_ASSIGN_OR_RETURN(watch_, core_.reactor_.watch(socket_.get(), *this));
      return {};
    }

    // Reads the hello, answers it, reads the proof, and judges it, as far as the bytes have come.
    bool readable() override {
      while (true) {
        const std::span<std::byte> wanted =
            greeted_ ? std::span<std::byte>(proof_) : std::span<std::byte>(hello_bytes_);
        const ssize_t n =
            ::recv(socket_.get(), wanted.data() + have_, wanted.size() - have_, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) return true;
        if (n <= 0) return end(unavailable("handshake: the dialer went"));
        have_ += static_cast<size_t>(n);
        if (have_ < wanted.size()) continue;
        have_ = 0;
        if (greeted_) return judge_proof();
        if (!answer()) return false;
        greeted_ = true;
      }
    }
    void writable() override {}

   private:
    // Answers the hello. Returns false, having ended this object, if it is refused.
    bool answer() {
      auto hello = decode_hello(hello_bytes_);
      if (!hello.ok()) return end(hello.status());
      hello_ = *hello;
      const auto expected = core_.gate_.expect(hello_);
      LinkAnswer answer;
      answer.refusal = expected ? judge(expected->identity, hello_) : LinkRefusal::run;
      if (answer.refusal == LinkRefusal::none && lacks_seal()) answer.refusal = LinkRefusal::seal;
      answer.version = std::min(hello_.newest, kNewestProtocol);
      answer.features = hello_.features & kFeatures;
      answer.nonce = link_nonce();
      answer_bytes_ = encode(answer);
      if (answer.refusal != LinkRefusal::none) {
        send(answer_bytes_);
        return end(expected ? explain(answer.refusal, expected->identity, hello_, "a dialer")
                            : failed_precondition(cat("handshake with a dialer: run: there is no ",
                                                      hello_.identity.run)));
      }
      key_ = expected->key;
      answer.proof = prove(key_, Prover::listener, hello_bytes_, answer_bytes_);
      answer_bytes_ = encode(answer);
      return send(answer_bytes_) || end(unavailable("handshake: the dialer went"));
    }

    // Whether the dialer comes from another machine and does not ask for TLS, although it has to.
    // Shared memory only has unix sockets.
    bool lacks_seal() const {
      const int fd = socket_.get();
      return (hello_.features & kSealed) == 0 && hello_.role != SocketRole::shm &&
             is_required(core_.options_.seal, is_local(fd));
    }

    // Gives the connection to the gate if the proof is right. Always ends this object.
    bool judge_proof() {
      Sha256Digest proof;
      std::copy(proof_.begin(), proof_.end(), reinterpret_cast<std::byte*>(proof.data()));
      if (!same(proof, prove(key_, Prover::dialer, hello_bytes_, answer_bytes_))) {
        send(encode(LinkRefusal::key));
        return end(explain(LinkRefusal::key, {}, hello_, "a dialer"));
      }
      if (!send(encode(LinkRefusal::none))) return end(unavailable("handshake: the dialer went"));
      watch_.reset();
      Connection connection{std::move(socket_), hello_};
      Core& core = core_;
      // This object is gone from here on.
      core.pending_.erase(id_);
      const Status status = apply(core.options_.socket, connection.socket.get());
      if (status.ok()) {
        core.gate_.accepted(std::move(connection));
      } else {
        core.gate_.refused(status);
      }
      return false;
    }

    // These few bytes always fit into an empty socket. If they do not, the dialer is gone.
    bool send(std::span<const std::byte> bytes) {
      return ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT) ==
             static_cast<ssize_t>(bytes.size());
    }

    // Ends the handshake with a refusal. Returns false, for readable().
    bool end(const Status& why) {
      Core& core = core_;
      // This object is gone from here on.
      core.pending_.erase(id_);
      core.gate_.refused(why);
      return false;
    }

    Core& core_;
    const uint64_t id_;
    Descriptor socket_;
    HelloBytes hello_bytes_;
    AnswerBytes answer_bytes_;
    std::array<std::byte, sizeof(Sha256Digest)> proof_;
    size_t have_ = 0;
    bool greeted_ = false;
    LinkHello hello_;
    RunKey key_{};
    std::unique_ptr<Reactor::Watch> watch_;
  };

  // Accepts all dialers that wait.
  bool readable() override {
    while (true) {
      Descriptor socket(
          ::accept4(listening_.socket.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (socket) {
        admit(std::move(socket));
      } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        back_off();
        return false;
        // Any other error is about that one dialer, and the next one may be fine.
      } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
        return true;
      }
    }
  }
  void writable() override {}

  // Begins a handshake, if there is room for one more, and sets its deadline.
  void admit(Descriptor socket) {
    if (pending_.size() >= options_.most_pending) {
      LinkAnswer busy;
      busy.refusal = LinkRefusal::busy;
      const AnswerBytes bytes = encode(busy);
      static_cast<void>(::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL));
      gate_.refused(resource_exhausted("handshake: too many at once"));
      return;
    }
    const uint64_t id = next_id_++;
    auto pending = std::make_unique<Pending>(*this, id, std::move(socket));
    if (const Status started = pending->start(); !started.ok()) return gate_.refused(started);
    pending_.emplace(id, std::move(pending));
    reactor_.post_after(options_.handshake, [weak = weak_from_this(), id] {
      const auto core = weak.lock();
      if (core && core->pending_.erase(id) > 0)
        core->gate_.refused(deadline_exceeded("handshake: the dialer took too long"));
    });
  }

  // No descriptors are left. New dialers wait in the backlog until some are.
  void back_off() {
    watch_.reset();
    reactor_.post_after(kBackOff, [weak = weak_from_this()] {
      const auto core = weak.lock();
      if (core && !core->stopped_ && !core->start().ok()) core->back_off();
    });
  }

  Reactor& reactor_;
  const ListeningSocket listening_;
  Gate& gate_;
  const Options options_;
  std::unique_ptr<Reactor::Watch> watch_;
  std::map<uint64_t, std::unique_ptr<Pending>> pending_;
  uint64_t next_id_ = 0;
  bool stopped_ = false;
  friend class Listener;
};

Result<std::unique_ptr<Listener>> Listener::open(Reactor& reactor, const std::string& address,
                                                 Gate& gate, Options options) {
  LEAT_ASSIGN_OR_RETURN(ListeningSocket listening, listen_socket(address));
  auto core = std::make_shared<Core>(reactor, std::move(listening), gate, std::move(options));
  Status started;
  // Every use of the core is on the reactor's thread, also the first and the last one.
  reactor.sync([&] { started = core->start(); });
  LEAT_RETURN_IF_ERROR(started);
  return std::unique_ptr<Listener>(new Listener(std::move(core)));
}

Listener::~Listener() {
  core_->reactor_.sync([this] {
    core_->stopped_ = true;
    core_->stop();
  });
}

const std::string& Listener::address() const { return core_->address(); }

}  // namespace leat
