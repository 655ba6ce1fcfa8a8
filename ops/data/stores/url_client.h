// Requests to servers of files, by libcurl. Private to ops/data.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "devices/base/files.h"
#include "devices/base/status.h"

namespace leat {

// A request for a URL, of which every byte is one that a URL may have.
struct UrlRequest {
  std::string url;
  std::vector<std::pair<std::string, std::string>> headers = {};
  std::string method = "GET";
  std::span<const std::byte> body = {};  // of a PUT or POST; it outlives the request
  // Another place may be named by the answer, at most five times. Not for signed requests, whose
  // signature counts for one place.
  bool follow = false;
  // Looked at about once a second; true: the request ends as cancelled. Empty: it does not.
  std::function<bool()> stopped = {};
};

struct UrlAnswer {
  long status = 0;                             // 206
  std::map<std::string, std::string> headers;  // by their names in small letters
  Bytes body;
  bool cut =
      false;  // the body had more bytes than were asked for, and only the first ones are here
};

// Threads: any.
class UrlClient {
 public:
  virtual ~UrlClient() = default;
  // Sends the request and reads the answer, of whatever status, within the time, and of its body at
  // most `most_bytes`. `unavailable` if the server cannot be reached, ends the connection early or
  // takes longer; failed_precondition for a certificate that is not trusted and for a URL that is
  // none; cancelled: see UrlRequest::stopped. Blocks.
  virtual Result<UrlAnswer> send(const UrlRequest& request, uint64_t most_bytes,
                                 std::chrono::milliseconds limit) = 0;
};

// The client of libcurl, for http:// and https://. It keeps connections open for later requests.
std::unique_ptr<UrlClient> make_url_client();

}  // namespace leat
