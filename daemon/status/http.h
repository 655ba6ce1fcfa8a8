// Requests and responses of the read-only HTTP of daemons (http_server.h), and the table of routes
// between them.
//
// Threads: values.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace leat {

using HttpField = std::pair<std::string, std::string>;

struct HttpRequest {
  std::string method;                 // as sent
  std::vector<std::string> segments;  // of the path, decoded: "/a/b%20c" is {"a", "b c"}
  std::vector<HttpField> query;       // decoded, in order; no name twice
  std::vector<HttpField> headers;     // names in lower case; the same one may come again
  bool keep_alive = true;

  // What the `{...}` of the route's pattern stand for, in order.
  std::vector<std::string> captured;

  // The only header of that name; null if there is none, or several.
  const std::string* header(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string type = "application/json";
  std::string body;
  std::vector<HttpField> headers;  // more of them, or other values of those that all have
  std::string error = {};          // of http_error(): the message
};

// {"apiVersion": "leat/v1", "error": {"code": "not_found", "message": ...}}
HttpResponse http_error(int status, std::string_view message);
// "Not Found"
std::string_view http_phrase(int status);

struct HttpRoute {
  // "/api/v1/jobs/{id}": a segment in braces stands for any that is not empty.
  std::string pattern;
  // Called on the server's thread: it must not block.
  std::function<HttpResponse(const HttpRequest&)> handler;
  bool open = false;  // needs no token
};

// The bytes of a response. `head`: without its body.
std::string http_message(const HttpResponse& response, bool head, bool keep_alive,
                         std::string_view date);
// "Sun, 06 Nov 1994 08:49:37 GMT"
std::string http_date(int64_t seconds);

// Standard base64, with padding.
std::string base64(std::string_view bytes);

}  // namespace leat
