#include "tests/daemon/status/status_testing.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <stdexcept>
#include <thread>
#include <utility>

#include "tests/catch.h"
#include "transport/io/handshake.h"

namespace leat {
namespace {

// Not Catch's, which belongs to one thread.
void must(const Status& status) {
  if (!status.ok()) throw std::runtime_error(status.to_string());
}

}  // namespace

HttpClient::HttpClient(const std::string& address) : host_(address) {
  auto connected = connect_socket(address, std::chrono::steady_clock::now() + 30s);
  must(connected.status());
  socket_ = std::move(*connected);
}

void HttpClient::send(std::string_view bytes) {
  must(send_all(socket_.get(), std::as_bytes(std::span(bytes)),
                std::chrono::steady_clock::now() + 30s, "sending"));
}

bool HttpClient::receive() {
  must(wait_ready(socket_.get(), POLLIN, std::chrono::steady_clock::now() + 30s, "receiving"));
  char bytes[4096];
  const ssize_t n = ::recv(socket_.get(), bytes, sizeof bytes, 0);
  if (n > 0) read_.append(bytes, static_cast<size_t>(n));
  return n > 0;
}

HttpReply HttpClient::reply(bool head) {
  size_t end;
  while ((end = read_.find("\r\n\r\n")) == std::string::npos)
    if (!receive()) return {};
  HttpReply reply;
  reply.status = std::stoi(read_.substr(9, 3));
  for (size_t at = read_.find("\r\n") + 2; at < end + 2;) {
    const size_t colon = read_.find(':', at), line_end = read_.find("\r\n", at);
    std::string name = read_.substr(at, colon - at);
    std::transform(name.begin(), name.end(), name.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
    reply.headers[name] = read_.substr(colon + 2, line_end - colon - 2);
    at = line_end + 2;
  }
  read_.erase(0, end + 4);
  if (head) return reply;
  const size_t size = std::stoul(reply.headers.at("content-length"));
  while (read_.size() < size)
    if (!receive()) return {};
  reply.body = read_.substr(0, size);
  read_.erase(0, size);
  return reply;
}

HttpReply HttpClient::get(const std::string& path, const std::string& headers) {
  send("GET " + path + " HTTP/1.1\r\nHost: " + host_ + "\r\n" + headers + "\r\n");
  return reply();
}

HttpReply HttpClient::open_stream(const std::string& path, const std::string& headers) {
  send("GET " + path + " HTTP/1.1\r\nHost: " + host_ + "\r\n" + headers + "\r\n");
  HttpReply answer = reply(true);
  if (!answer.headers.contains("content-length")) return answer;
  while (read_.size() < std::stoul(answer.headers.at("content-length")))
    if (!receive()) return {};
  answer.body = std::exchange(read_, "");
  return answer;
}

std::string HttpClient::event() {
  size_t end;
  while ((end = read_.find("\n\n")) == std::string::npos)
    if (!receive()) return "";
  std::string event = read_.substr(0, end);
  read_.erase(0, end + 2);
  return event;
}

bool HttpClient::is_closed() { return read_.empty() && !receive() && read_.empty(); }

StatusHost::StatusHost(HttpOptions options) {
  auto opened = open_status_server(reactor, "127.0.0.1:0", source, std::move(options));
  REQUIRE(opened.ok());
  server = std::move(*opened);
}

HttpReply StatusHost::get(const std::string& path, const std::string& headers) {
  return HttpClient(server->address()).get(path, headers);
}

}  // namespace leat
