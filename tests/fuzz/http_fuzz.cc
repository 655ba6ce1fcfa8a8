// Parses any bytes of a connection as HTTP requests and answers each from routes. Later bytes must
// not change an earlier request, only a known host may get a route's answer, and a response must be
// one header and its body.
#include <string_view>

#include "daemon/status/http_gate.h"
#include "daemon/status/http_request.h"
#include "tests/fuzz/fuzz.h"

namespace leat {
namespace {

constexpr size_t kLimit = 1 << 10;
const HttpPolicy kPolicy = {{"known.example"}, ""};

HttpResponse echo(const HttpRequest& request) {
  HttpResponse response;
  for (const std::string& part : request.captured) response.body += part;
  return response;
}
const std::vector<HttpRoute> kRoutes = {{"/", echo}, {"/a/{x}", echo}, {"/{x}/b/{y}", echo}};

void check_message(const HttpResponse& response) {
  const std::string message = http_message(response, false, true, http_date(0));
  const size_t end = message.find("\r\n\r\n");
  require(message.size() - end - 4 == response.body.size(), "nothing splits a response");
}

void check_beginnings(std::string_view bytes, const HttpParse& whole) {
  const size_t sizes[] = {1, bytes.size() / 2, bytes.size() - 1, whole.bytes};
  for (const size_t size : sizes) {
    const HttpParse part = parse_http_request(bytes.substr(0, size), kLimit);
    if (part.request) require(part.bytes == whole.bytes, "more bytes leave a request as it is");
    if (part.refusal) require(whole.refusal.has_value(), "more bytes leave a refusal as it is");
  }
}

void check_answer(HttpRequest request) {
  const std::string* host = request.header("host");
  const bool known = host != nullptr && is_known_host(*host, kPolicy);
  const HttpResponse response = answer_http(std::move(request), kRoutes, kPolicy);
  if (response.status == 200) require(known, "a route answers a known host alone");
  check_message(response);
}

}  // namespace
}  // namespace leat

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace leat;
  std::string_view bytes(reinterpret_cast<const char*>(data), size);
  while (!bytes.empty()) {
    HttpParse parse = parse_http_request(bytes, kLimit);
    check_beginnings(bytes, parse);
    require(!parse.request || !parse.refusal, "a request is taken or refused");
    if (parse.refusal) check_message(*parse.refusal);
    if (!parse.request) return 0;
    require(parse.bytes > 0 && parse.bytes <= std::min(bytes.size(), kLimit),
            "a request has bytes");
    check_answer(std::move(*parse.request));
    bytes.remove_prefix(parse.bytes);
  }
  return 0;
}
