// A server of files on a free port of this machine, for tests of stores: it serves ranges, and does
// what a test asks for.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace leat {

// A request as the server reads it. The names of headers are in small letters.
struct StoreRequest {
  std::string target;  // "/bucket/key?x=1"
  std::map<std::string, std::string> headers;
  std::string method = "GET";
  std::string body = {};
};

// An answer, sent as it is: a length that does not fit its body is one of the faults.
struct StoreAnswer {
  int status = 200;
  std::vector<std::pair<std::string, std::string>> headers = {};
  std::string body = {};
  uint64_t length = UINT64_MAX;  // Content-Length; UINT64_MAX: that of the body
};

// Serves one connection after the other, each for one request, until it is destroyed. Threads: the
// server has one of its own, which calls `answer`.
class HttpStore {
 public:
  using Answer = std::function<StoreAnswer(const StoreRequest&)>;

  explicit HttpStore(Answer answer) : answer_(std::move(answer)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    if (::bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
        ::listen(listener_, 64) != 0 ||
        ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0)
      throw std::runtime_error("no port for a server");
    port_ = ntohs(address.sin_port);
    stop_ = ::eventfd(0, EFD_CLOEXEC);
    thread_ = std::thread([this] { serve(); });
  }
  ~HttpStore() {
    const uint64_t one = 1;
    (void)!::write(stop_, &one, sizeof one);
    thread_.join();
    ::close(listener_);
    ::close(stop_);
  }
  HttpStore(const HttpStore&) = delete;
  HttpStore& operator=(const HttpStore&) = delete;

  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  std::string host() const { return "127.0.0.1:" + std::to_string(port_); }
  // The requests so far.
  std::vector<StoreRequest> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }

  // The part of `content` that a request asks for, with the ETag.
  static StoreAnswer range_of(const StoreRequest& request, const std::string& content,
                              const std::string& etag) {
    const auto range = request.headers.find("range");
    StoreAnswer out;
    if (!etag.empty()) out.headers.emplace_back("ETag", etag);
    const auto match = request.headers.find("if-match");
    if (match != request.headers.end() && match->second != etag) return {412};
    if (range == request.headers.end()) {
      out.body = content;
      return out;
    }
    const size_t dash = range->second.find('-');
    const uint64_t begin = std::stoull(range->second.substr(6, dash - 6));
    uint64_t end = std::stoull(range->second.substr(dash + 1)) + 1;
    end = std::min<uint64_t>(end, content.size());
    if (begin >= content.size()) {
      out.status = 416;
      out.headers.emplace_back("Content-Range", "bytes */" + std::to_string(content.size()));
      return out;
    }
    out.status = 206;
    out.headers.emplace_back("Content-Range", "bytes " + std::to_string(begin) + "-" +
                                                  std::to_string(end - 1) + "/" +
                                                  std::to_string(content.size()));
    out.body = content.substr(begin, end - begin);
    return out;
  }

 private:
  void serve() {
    for (;;) {
      pollfd waits[] = {{listener_, POLLIN, 0}, {stop_, POLLIN, 0}};
      if (::poll(waits, 2, -1) < 0) continue;
      if (waits[1].revents != 0) return;
      const int connection = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (connection < 0) continue;
      serve_one(connection);
      ::close(connection);
    }
  }

  // Reads more of the request; false if there is no more.
  bool read_more(int connection, std::string& text) const {
    for (;;) {
      char bytes[4096];
      pollfd waits[] = {{connection, POLLIN, 0}, {stop_, POLLIN, 0}};
      if (::poll(waits, 2, -1) < 0) continue;
      if (waits[1].revents != 0) return false;
      const ssize_t count = ::recv(connection, bytes, sizeof bytes, 0);
      if (count > 0) text.append(bytes, static_cast<size_t>(count));
      return count > 0;
    }
  }

  void serve_one(int connection) {
    std::string text;
    while (text.find("\r\n\r\n") == std::string::npos) {
      if (!read_more(connection, text)) return;
    }
    StoreRequest request;
    const size_t space = text.find(' ');
    request.method = text.substr(0, space);
    request.target = text.substr(space + 1, text.find(' ', space + 1) - space - 1);
    for (size_t at = text.find("\r\n") + 2; text.compare(at, 2, "\r\n") != 0;) {
      const size_t end = text.find("\r\n", at), colon = text.find(':', at);
      std::string name = text.substr(at, colon - at);
      std::transform(name.begin(), name.end(), name.begin(),
                     [](unsigned char c) { return static_cast<char>(::tolower(c)); });
      request.headers[name] = text.substr(colon + 2, end - colon - 2);
      at = end + 2;
    }
    const auto announced = request.headers.find("content-length");
    const size_t size = announced == request.headers.end() ? 0 : std::stoull(announced->second);
    request.body = text.substr(text.find("\r\n\r\n") + 4);
    while (request.body.size() < size) {
      if (!read_more(connection, request.body)) return;
    }
    {
      const std::lock_guard lock(mutex_);
      requests_.push_back(request);
    }
    const StoreAnswer answer = answer_(request);
    if (answer.status == 0) return;  // the connection ends without an answer
    std::string out = "HTTP/1.1 " + std::to_string(answer.status) + " x\r\nConnection: close\r\n";
    for (const auto& [name, value] : answer.headers) out += name + ": " + value + "\r\n";
    const uint64_t length = answer.length == UINT64_MAX ? answer.body.size() : answer.length;
    out += "Content-Length: " + std::to_string(length) + "\r\n\r\n" + answer.body;
    for (size_t sent = 0; sent < out.size();) {
      const ssize_t count = ::send(connection, out.data() + sent, out.size() - sent, MSG_NOSIGNAL);
      if (count <= 0) return;
      sent += static_cast<size_t>(count);
    }
  }

  const Answer answer_;
  int listener_ = -1, stop_ = -1;
  uint16_t port_ = 0;
  mutable std::mutex mutex_;
  std::vector<StoreRequest> requests_;
  std::thread thread_;
};

}  // namespace leat
