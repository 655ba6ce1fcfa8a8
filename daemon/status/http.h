// Requests and responses of the daemons' HTTP (http_server.h), and the routes from one to
// the other.
//
// Threads: values.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/status/http_stream.h"

namespace leat {

// The name and value of a header, or of an entry of a query.
using HttpField = std::pair<std::string, std::string>;

// A request whose head was read and checked.
struct HttpRequest {
  std::string method;                 // as the client sent it
  std::vector<std::string> segments;  // of the path, decoded: "/a/b%20c" is {"a", "b c"}
  std::vector<HttpField> query;       // decoded, in order; no name twice
  std::vector<HttpField> headers;     // names in lower case; a name may occur several times
  bool keep_alive = true;
  uint64_t content_length = 0;
  std::string body;    // of a POST
  std::string client;  // "127.0.0.1:40712"; "" over a Unix socket

  // The segments that match the `{...}` of the route's pattern, in order.
  std::vector<std::string> captured;

  // Returns the value of the only header with that name; null if there is none, or several.
  const std::string* header(std::string_view name) const;
};

class PendingResponse;

// A response without the headers that http_message() adds to all.
struct HttpResponse {
  int status = 200;
  std::string type = "application/json";
  std::string body;
  std::vector<HttpField> headers;  // additional ones, or other values of those that all responses
                                   // have
  std::string error = {};          // the message of http_error()
  // Follows the body, which is then only its beginning. The connection ends with the stream.
  std::shared_ptr<HttpStream> stream = {};
  // Has the response later, in place of all of this.
  std::shared_ptr<PendingResponse> pending = {};
};

// Returns an error with a JSON body: {"apiVersion": "leat/v1", "error": {"code": "not_found",
// "message": ...}}. The code is that of the status, unless `code` is another one.
HttpResponse http_error(int status, std::string_view message, std::string_view code = "");
// Returns the phrase of a status: "Not Found".
std::string_view http_phrase(int status);

// A pattern of paths, and the function that answers requests for them.
struct HttpRoute {
  // "/api/v1/jobs/{id}": a segment in braces matches any segment that is not empty.
  std::string pattern;
  // Runs on the server's thread, so it must not block.
  std::function<HttpResponse(const HttpRequest&)> handler;
  bool open = false;  // needs no token
  // "GET", which is also that of HEAD, or "POST" for a request that changes something.
  std::string method = "GET";
};

// Returns the bytes of a response. `head`: leave the body out.
std::string http_message(const HttpResponse& response, bool head, bool keep_alive,
                         std::string_view date);
// Returns a time in the form of HTTP: "Sun, 06 Nov 1994 08:49:37 GMT". `seconds` is Unix time.
std::string http_date(int64_t seconds);

// Returns standard base64, with padding.
std::string base64(std::string_view bytes);

}  // namespace leat
