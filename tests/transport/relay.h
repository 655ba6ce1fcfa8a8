// A man in the middle for tests: it carries the bytes of connections to a server, keeps a copy of
// all of them, and may change what it carries.
#pragma once

#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/catch.h"
#include "transport/io/handshake.h"

namespace leat {

class Relay {
 public:
  enum class Way : uint8_t { up, down };  // to the server, and from it
  // Called with the number of bytes that went the same way before, and the next ones.
  using Attack = std::function<void(Way, size_t before, std::vector<std::byte>& bytes)>;

  explicit Relay(std::string target, Attack attack = {})
      : target_(std::move(target)), attack_(std::move(attack)) {
    auto listening = listen_socket("127.0.0.1:0");
    REQUIRE(listening.ok());
    listening_ = std::move(*listening);
    thread_ = std::thread([this] { run(); });
  }
  ~Relay() {
    stopped_ = true;
    thread_.join();
  }
  // From now on, the destructor resets the connections, as a network does that loses their state.
  void reset_at_the_end() { resets_ = true; }
  Relay(const Relay&) = delete;

  const std::string& address() const { return listening_.address; }
  // All bytes so far that went one way.
  std::vector<std::byte> seen(Way way) const {
    std::lock_guard lock(mutex_);
    return seen_[way == Way::down];
  }
  // Whether a text went through in the clear.
  bool has_seen(std::string_view text) const {
    const auto bytes = std::as_bytes(std::span(text));
    for (const Way way : {Way::up, Way::down}) {
      const auto all = seen(way);
      if (std::search(all.begin(), all.end(), bytes.begin(), bytes.end()) != all.end()) return true;
    }
    return false;
  }

 private:
  struct Pair {
    Descriptor client, server;
    bool over = false;
  };

  void run() {
    carry_all();
    if (!resets_) return;
    constexpr linger kNow{1, 0};
    for (const Pair& pair : pairs_) {
      for (const Descriptor* end : {&pair.client, &pair.server})
        (void)::setsockopt(end->get(), SOL_SOCKET, SO_LINGER, &kNow, sizeof kNow);
    }
    pairs_.clear();
  }
  void carry_all() {
    while (!stopped_) {
      std::vector<pollfd> wanted{{listening_.socket.get(), POLLIN, 0}};
      for (const Pair& pair : pairs_) {
        wanted.push_back({pair.client.get(), POLLIN, 0});
        wanted.push_back({pair.server.get(), POLLIN, 0});
      }
      if (::poll(wanted.data(), wanted.size(), 20) <= 0) continue;
      size_t i = 1;
      for (Pair& pair : pairs_) {
        if (wanted[i++].revents != 0) carry(pair, Way::up);
        if (wanted[i++].revents != 0 && !pair.over) carry(pair, Way::down);
      }
      pairs_.remove_if([](const Pair& pair) { return pair.over; });
      if (wanted[0].revents != 0) accept();
    }
  }
  void accept() {
    Descriptor client(::accept4(listening_.socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
    auto server = connect_socket(target_, in_time());
    if (client && server.ok()) pairs_.push_back({std::move(client), std::move(*server)});
  }
  void carry(Pair& pair, Way way) {
    const Descriptor& from = way == Way::up ? pair.client : pair.server;
    const Descriptor& to = way == Way::up ? pair.server : pair.client;
    std::vector<std::byte> bytes(64u << 10);
    const ssize_t n = ::recv(from.get(), bytes.data(), bytes.size(), 0);
    bytes.resize(static_cast<size_t>(std::max<ssize_t>(n, 0)));
    if (n > 0 && attack_) attack_(way, seen(way).size(), bytes);
    {
      std::lock_guard lock(mutex_);
      auto& all = seen_[way == Way::down];
      all.insert(all.end(), bytes.begin(), bytes.end());
    }
    if (n <= 0 || !send_all(to.get(), bytes, in_time(), "relay").ok()) pair.over = true;
  }
  static Deadline in_time() { return std::chrono::steady_clock::now() + std::chrono::seconds(10); }

  const std::string target_;
  const Attack attack_;
  ListeningSocket listening_;
  std::atomic<bool> stopped_{false}, resets_{false};
  mutable std::mutex mutex_;
  std::vector<std::byte> seen_[2];
  std::list<Pair> pairs_;
  std::thread thread_;
};

}  // namespace leat
