// Reads the head of an HTTP/1.1 request with Beast's parser, and adds stricter rules: the target is
// only a path and a query, no request has a transfer coding and only a POST has a body, and no name
// occurs twice in the query.
//
// Threads: pure functions.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "daemon/status/http.h"

namespace leat {

// The start of the bytes of a connection: a request, bytes that are no valid request (refusal), or
// neither as long as the head is incomplete.
struct HttpParse {
  size_t bytes = 0;  // of the request's head
  std::optional<HttpRequest> request;
  std::optional<HttpResponse> refusal;  // the last answer of the connection
};

// `bytes` are all bytes of the connection that are not consumed yet. More bytes never change an
// earlier request or refusal. `max_bytes` is the limit of a head.
HttpParse parse_http_request(std::string_view bytes, size_t max_bytes);

// Decodes "%41" to "A"; nothing if a '%' is not followed by two hexadecimal digits, or for a
// control character.
std::optional<std::string> percent_decoded(std::string_view text);

}  // namespace leat
