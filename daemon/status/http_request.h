// Reads the head of an HTTP/1.1 request, with Beast's parser behind a stricter door: a path and a
// query alone as target, no body of any length, no coding, one value of what must be one.
//
// Threads: pure functions.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "daemon/status/http.h"

namespace leat {

// What the bytes that a connection sent begin with: a request, something that is none, or neither
// yet.
struct HttpParse {
  size_t bytes = 0;  // of the request
  std::optional<HttpRequest> request;
  std::optional<HttpResponse> refusal;  // nothing that follows on the connection can be trusted
};

// More bytes never change what was a request or was refused.
HttpParse parse_http_request(std::string_view bytes, size_t max_bytes);

// "%41" is "A"; nothing if a '%' begins no byte, or the byte is a control character.
std::optional<std::string> percent_decoded(std::string_view text);

}  // namespace leat
