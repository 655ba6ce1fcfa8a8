#include "tests/daemon/soak/attacker.h"

#include <capnp/rpc.capnp.h>
#include <capnp/serialize.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <utility>

#include "daemon/wire/cluster.capnp.h"
#include "devices/base/text.h"
#include "transport/rpc/hello.h"
#include "transport/rpc/socket.h"

namespace leat {
namespace {

constexpr size_t kMebibyte = 1u << 20;
constexpr size_t kHeld = 200;  // at a time; the oldest is closed
constexpr int kCalls = 2'000;  // of one attack

// Returns the inodes of a process's sockets.
std::set<std::string> sockets_of(pid_t process) {
  std::set<std::string> inodes;
  std::error_code error;
  for (const auto& each :
       std::filesystem::directory_iterator(cat("/proc/", process, "/fd"), error)) {
    const std::string target = std::filesystem::read_symlink(each.path(), error).string();
    if (target.starts_with("socket:[")) inodes.insert(target.substr(8, target.size() - 9));
  }
  return inodes;
}

std::string header_of(uint32_t segments_less_one, uint32_t words) {
  const uint32_t header[] = {segments_less_one, words};
  return std::string(reinterpret_cast<const char*>(header), sizeof(header));
}

void append(std::string& bytes, capnp::MallocMessageBuilder& message) {
  const auto words = capnp::messageToFlatArray(message);
  bytes.append(reinterpret_cast<const char*>(words.asBytes().begin()), words.asBytes().size());
}

// Returns a bootstrap, and calls on it or, in a chain, each on the previous answer.
std::string calls(uint16_t method, size_t filler, bool chain) {
  std::string bytes;
  capnp::MallocMessageBuilder bootstrap;
  bootstrap.initRoot<capnp::rpc::Message>().initBootstrap().setQuestionId(0);
  append(bytes, bootstrap);
  for (uint32_t i = 1; i <= kCalls; ++i) {
    capnp::MallocMessageBuilder message;
    auto call = message.initRoot<capnp::rpc::Message>().initCall();
    call.setQuestionId(i);
    call.initTarget().initPromisedAnswer().setQuestionId(chain ? i - 1 : 0);
    call.setInterfaceId(capnp::typeId<wire::Master>());
    call.setMethodId(method);
    auto params = call.initParams().getContent();
    if (method == 4) {  // watch
      auto watch = params.initAs<wire::Master::WatchParams>();
      watch.setId(std::string(filler, 'x').c_str());
      watch.setWaitMs(30'000);
    } else {
      auto upload = params.initAs<wire::Master::UploadParams>();
      const std::string digest = std::string(28, 'd') + std::to_string(1000 + i % 9000);
      upload.setSha256({reinterpret_cast<const kj::byte*>(digest.data()), digest.size()});
      upload.setSize(64 * kMebibyte);
    }
    append(bytes, message);
  }
  return bytes;
}

// Moves this thread to the core for good. If that fails, it stays in competition with the others.
void step_aside(int core) {
  const auto thread = static_cast<id_t>(::gettid());
  (void)::setpriority(PRIO_PROCESS, thread, core < 0 ? 19 : 0);
  if (core < 0) return;
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(static_cast<size_t>(core), &cores);
  (void)::sched_setaffinity(0, sizeof cores, &cores);
}

}  // namespace

std::vector<std::string> ports_of(pid_t process) {
  const std::set<std::string> sockets = sockets_of(process);
  std::vector<std::string> ports;
  std::ifstream table(cat("/proc/", process, "/net/tcp"));
  std::string line;
  while (std::getline(table, line)) {
    std::istringstream words(line);
    std::string slot, local, remote, state, queues, timer, retransmits, user, timeout, inode;
    words >> slot >> local >> remote >> state >> queues >> timer >> retransmits >> user >> timeout;
    words >> inode;
    if (state != "0A" || !sockets.contains(inode)) continue;  // listening
    ports.push_back(cat("127.0.0.1:", std::stoul(local.substr(local.find(':') + 1), nullptr, 16)));
  }
  return ports;
}

RudeSocket::RudeSocket(const std::string& address) {
  const auto parsed = parse_socket_address(address);
  if (!parsed.ok()) return;
  fd_ = ::socket(parsed->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const timeval patience{.tv_sec = 1, .tv_usec = 0};
  ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  ::setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
  if (::connect(fd_, reinterpret_cast<const sockaddr*>(&parsed->storage), parsed->size) == 0) {
    return;
  }
  ::close(std::exchange(fd_, -1));
}

RudeSocket::~RudeSocket() {
  if (fd_ >= 0) ::close(fd_);
}

RudeSocket::RudeSocket(RudeSocket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

RudeSocket& RudeSocket::operator=(RudeSocket&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

bool RudeSocket::write(const std::string& bytes) {
  for (size_t sent = 0; sent < bytes.size();) {
    const ssize_t size = ::send(fd_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (size <= 0) return false;
    sent += static_cast<size_t>(size);
  }
  return true;
}

std::string RudeSocket::read(size_t size) {
  std::string bytes(size, '\0');
  size_t got = 0;
  while (got < size) {
    const ssize_t more = ::recv(fd_, bytes.data() + got, size - got, 0);
    if (more <= 0) break;
    got += static_cast<size_t>(more);
  }
  return bytes.substr(0, got);
}

bool RudeSocket::greet(const std::string& cluster) {
  RpcIdentity identity;
  identity.role = RpcRole::client;
  identity.cluster = cluster;
  OpenerHandshake opener(identity, "the server", random_nonce());
  if (!write(std::string(opener.hello().begin(), opener.hello().end()))) return false;
  const std::string answered = read(kRpcAnswerBytes);
  RpcAnswer answer;
  if (answered.size() != answer.size()) return false;
  std::copy(answered.begin(), answered.end(), answer.begin());
  const auto proof = opener.on_answer(answer);
  if (!proof.ok() || !write(std::string(proof->begin(), proof->end()))) return false;
  return read(kRpcVerdictBytes).size() == kRpcVerdictBytes;
}

Attacker::Attacker(Target target, uint64_t seed, int per_second, int aside)
    : target_(std::move(target)),
      per_second_(per_second),
      watches_(calls(4, 4'000, false)),
      uploads_(calls(1, 0, false)),
      chain_(calls(4, 10, true)),
      random_(seed),
      thread_([this, aside] {
        step_aside(aside);
        live();
      }) {}

Attacker::~Attacker() {
  {
    const std::lock_guard lock(mutex_);
    told_ = Told::end;
    changed_.notify_all();
  }
  thread_.join();
}

void Attacker::go_on() {
  const std::lock_guard lock(mutex_);
  told_ = Told::go_on;
  rests_ = false;
  changed_.notify_all();
}

void Attacker::rest() {
  std::unique_lock lock(mutex_);
  told_ = Told::rest;
  changed_.notify_all();
  changed_.wait(lock, [this] { return rests_; });
}

void Attacker::live() {
  std::unique_lock lock(mutex_);
  while (told_ != Told::end) {
    if (told_ == Told::go_on) {
      lock.unlock();
      attack_until_told();
      held_.clear();
      lock.lock();
    } else {
      rests_ = true;
      changed_.notify_all();
      changed_.wait(lock, [this] { return told_ != Told::rest; });
    }
  }
}

void Attacker::attack_until_told() {
  const auto told = [this] { return told_ != Told::go_on; };
  for (auto due = std::chrono::steady_clock::now();;) {
    due = std::max(due + std::chrono::microseconds(1'000'000 / per_second_),
                   std::chrono::steady_clock::now());
    fended_off_ += attack_once() ? 0 : 1;
    ++attacks_;
    std::unique_lock lock(mutex_);
    if (changed_.wait_until(lock, due, told)) return;
  }
}

std::string Attacker::noise(size_t bytes) {
  std::string out(bytes, '\0');
  for (char& byte : out) byte = static_cast<char>(random_() % 4 == 0 ? random_() : random_() % 3);
  return out;
}

bool Attacker::attack_once() {
  const uint64_t kind = random_() % 16;
  if (kind < 7) return attack_rpc(kind);
  RudeSocket socket(target_.ports[random_() % target_.ports.size()]);
  if (!socket.connected()) return false;
  bool taken = true;
  if (kind < 11) taken = socket.write(noise(1 + random_() % 4096));
  if (kind == 11) taken = socket.write("GET /" + noise(200) + " HTTP/1.1\r\n");
  if (kind == 12) taken = socket.write("POST / HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n");
  if (kind == 13) return taken;        // closes at once
  held_.push_back(std::move(socket));  // half-open; the other kinds sent nothing
  if (held_.size() > kHeld) held_.erase(held_.begin());
  return taken;
}

// C1 to C8 of tests/transport/rpc_attack_test.cc, each on a connection with an accepted hello.
bool Attacker::attack_rpc(uint64_t kind) {
  RudeSocket socket(target_.rpc);
  if (!socket.connected() || !socket.greet(target_.cluster)) return false;
  bool taken = false;
  switch (kind) {
    case 0:
      taken = socket.write(header_of(0xffffffff, 0));
      break;
    case 1:
      taken = socket.write(header_of(0, 64 * kMebibyte / 8));
      break;
    case 2:
      taken = socket.write(header_of(0, kMebibyte / 8 - 1) + std::string(kMebibyte - 64, 'x'));
      break;
    case 3:
      taken = socket.write(watches_);
      break;
    case 4:
      taken = socket.write(uploads_);
      break;
    case 5:
      taken = socket.write(chain_);
      break;
    default: {
      const uint32_t words = 1 + static_cast<uint32_t>(random_() % 40);
      taken = socket.write(header_of(0, words) + noise(8 * words));
    }
  }
  held_.push_back(std::move(socket));
  if (held_.size() > kHeld) held_.erase(held_.begin());
  return taken;
}

}  // namespace leat
