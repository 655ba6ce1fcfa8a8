// Who may ask, and who answers. The endpoint serves people whose browser also runs pages of others:
// such a page may send requests here, and under a name of its own that resolves to this address
// (DNS rebinding) it could read the answers. So a request has to name the host by an address or by
// a name that is known here, and must not come from another site.
//
// Threads: pure functions.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/status/http.h"

namespace leat {

struct HttpPolicy {
  // Names of this host, beside addresses and localhost: what people type. No port.
  std::vector<std::string> names;
  // What a request must bear, but to routes that are open: "Authorization: Bearer <token>", or
  // Basic with the user "leat" or none and the token as password, which browsers can ask for.
  // Empty: none.
  std::string token;
};

// True for "10.0.0.2", "[::1]", "localhost" or a known name, each perhaps with ":" and a port.
bool is_known_host(std::string_view host, const HttpPolicy& policy);

// The response of the route that matches, or why there is none: 400 without one Host, 421 for a
// foreign one, 403 for another site's request, 405 for what is not GET or HEAD, 401, 404. Where a
// browser asks for a page, an error is one, too.
HttpResponse answer_http(HttpRequest request, std::span<const HttpRoute> routes,
                         const HttpPolicy& policy);

}  // namespace leat
