#include "daemon/status/http_request.h"

#include <algorithm>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <charconv>

#include "devices/base/ascii_text.h"
#include "devices/base/text.h"

namespace leat {
namespace {

namespace http = boost::beast::http;
using Parser = http::request_parser<http::empty_body>;

constexpr std::string_view kHeadEnd = "\r\n\r\n";
constexpr size_t kMaxFields = 64;

HttpParse refuse(int status, std::string_view message) {
  HttpParse parse;
  parse.refusal = http_error(status, message);
  return parse;
}

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

std::string_view view(boost::beast::string_view text) { return {text.data(), text.size()}; }

// Splits "/a/b" into its segments; "/" has one empty segment.
bool read_path(std::string_view path, HttpRequest& request) {
  if (path.empty() || path.front() != '/') return false;
  for (path.remove_prefix(1);; path.remove_prefix(path.find('/') + 1)) {
    auto segment = percent_decoded(path.substr(0, path.find('/')));
    if (!segment) return false;
    request.segments.push_back(std::move(*segment));
    if (path.find('/') == std::string_view::npos) return true;
  }
}

bool read_query(std::string_view query, HttpRequest& request) {
  while (!query.empty()) {
    const std::string_view part = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), part.size() + 1));
    if (part.empty()) continue;
    const size_t equals = std::min(part.find('='), part.size());
    auto name = percent_decoded(part.substr(0, equals));
    auto value = percent_decoded(part.substr(std::min(part.size(), equals + 1)));
    if (!name || !value) return false;
    const auto same = [&](const HttpField& field) { return field.first == *name; };
    if (std::any_of(request.query.begin(), request.query.end(), same)) return false;
    request.query.emplace_back(std::move(*name), std::move(*value));
  }
  return true;
}

bool read_target(std::string_view target, HttpRequest& request) {
  const size_t question = std::min(target.find('?'), target.size());
  return target.find('#') == std::string_view::npos &&
         read_path(target.substr(0, question), request) &&
         read_query(target.substr(std::min(target.size(), question + 1)), request);
}

// Makes a request of the parsed head, or refuses it.
HttpParse from(const Parser& parser) {
  const auto& message = parser.get();
  const bool coded = parser.chunked() || message.count(http::field::transfer_encoding) > 0;
  const uint64_t length = parser.content_length().value_or(0);
  const bool posts = view(message.method_string()) == "POST";
  if (posts && coded) return refuse(411, "expected a body with a Content-Length");
  if (coded || (!posts && length > 0)) return refuse(413, "expected a request without a body");
  HttpParse parse;
  HttpRequest& request = parse.request.emplace();
  request.method = view(message.method_string());
  request.keep_alive = message.keep_alive();
  request.content_length = length;
  if (!read_target(view(message.target()), request))
    return refuse(400, "target: expected a path and a query, as in /api/v1/jobs?a=b");
  for (const auto& field : message) {  // the parser refuses control characters
    if (request.headers.size() == kMaxFields)
      return refuse(431, cat("header: expected at most ", kMaxFields, " fields"));
    request.headers.emplace_back(lower_case(view(field.name_string())), view(field.value()));
  }
  return parse;
}

}  // namespace

std::optional<std::string> percent_decoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      if (text.size() - i < 3) return std::nullopt;
      uint8_t byte = 0;
      const auto [end, error] = std::from_chars(&text[i + 1], &text[i + 1] + 2, byte, 16);
      if (error != std::errc() || end != &text[i + 1] + 2) return std::nullopt;
      c = static_cast<char>(byte);
      i += 2;
    }
    if (is_control(c)) return std::nullopt;
    out += c;
  }
  return out;
}

HttpParse parse_http_request(std::string_view bytes, size_t max_bytes) {
  if (bytes.empty()) return {};
  // Refuses TLS and other protocols at once, so that such a client need not wait for the deadline.
  if (bytes.front() < 'A' || bytes.front() > 'Z')
    return refuse(400, "expected an HTTP/1.1 request that begins with its method");
  const size_t end = bytes.substr(0, max_bytes).find(kHeadEnd);
  if (end == std::string_view::npos && bytes.size() < max_bytes) return {};
  if (end == std::string_view::npos)
    return refuse(431, cat("header: expected at most ", max_bytes, " bytes"));
  const size_t size = end + kHeadEnd.size();

  Parser parser;
  parser.header_limit(static_cast<uint32_t>(size + 1));
  parser.body_limit(boost::none);  // the server has a limit of its own
  boost::system::error_code error;
  const size_t used = parser.put(boost::asio::buffer(bytes.data(), size), error);
  if (error == http::error::bad_version) return refuse(505, "expected HTTP/1.1 or HTTP/1.0");
  if (error || !parser.is_header_done() || used != size)
    return refuse(400, cat("expected an HTTP/1.1 request: ",
                           error ? error.message() : "the header ends before its empty line"));
  HttpParse parse = from(parser);
  if (parse.request) parse.bytes = size;
  return parse;
}

}  // namespace leat
