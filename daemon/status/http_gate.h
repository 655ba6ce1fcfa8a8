// The rules that decide whether a request is answered, and the choice of its route. People open the
// endpoint in browsers that also run pages of other sites. Such a page may send requests here.
// Under a name that it owns and that resolves to this address (DNS rebinding), it could even read
// the answers. So a request must name the host by an address or by a configured name, and must not
// come from another site.
//
// Threads: pure functions.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/status/http.h"

namespace leat {

// The settings of the rules.
struct HttpPolicy {
  // Names of this host that people type, besides addresses and localhost. Without a port.
  std::vector<std::string> names;
  // The token that a request must contain, except for open routes: "Authorization: Bearer <token>",
  // or Basic with the user "leat" or none and the token as password, which browsers can ask for.
  // Empty: no token is needed.
  std::string token;
  // The token that a POST must contain, as Bearer alone. It is also enough for a GET. Empty: the
  // server takes no POST.
  std::string write_token = {};
};

// True if the texts differ in the case of ASCII letters at most.
bool equal_ignoring_case(std::string_view a, std::string_view b);
// True for "10.0.0.2", "[::1]", "localhost" or a configured name, with or without a ":" and a port.
bool is_known_host(std::string_view host, const HttpPolicy& policy);

// Returns the error for a request whose body is not read yet; nothing if its route may answer.
std::optional<HttpResponse> refuse_head(const HttpRequest& request,
                                        std::span<const HttpRoute> routes,
                                        const HttpPolicy& policy);

// Returns the response of the matching route, or an error: 400 without exactly one Host, 421 for an
// unknown host, 403 for a request of another site, 405 for a method that the path does not have,
// 401 without the token, 404 without a route, 415 for a body that is not JSON. If a browser asks
// for a page, the error is a page, too.
HttpResponse answer_http(HttpRequest request, std::span<const HttpRoute> routes,
                         const HttpPolicy& policy);

}  // namespace leat
