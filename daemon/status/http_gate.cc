#include "daemon/status/http_gate.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "daemon/status/page_parts.h"
#include "devices/base/sha256.h"
#include "devices/base/text.h"

namespace leat {
namespace {

constexpr std::string_view kUser = "leat";

bool is_address(std::string_view host) {
  unsigned char address[16];
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']')
    return ::inet_pton(AF_INET6, std::string(host.substr(1, host.size() - 2)).c_str(), address) ==
           1;
  return ::inet_pton(AF_INET, std::string(host).c_str(), address) == 1;
}

bool is_port(std::string_view text) {
  uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  return error == std::errc() && end == text.data() + text.size();
}

// True for the origin of this server's own pages under that host.
bool is_origin_of(std::string_view origin, std::string_view host) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (origin.starts_with(scheme) && equal_ignoring_case(origin.substr(scheme.size()), host))
      return true;
  }
  return false;
}

size_t count(const HttpRequest& request, std::string_view name) {
  return static_cast<size_t>(std::count_if(request.headers.begin(), request.headers.end(),
                                           [&](const HttpField& f) { return f.first == name; }));
}

bool is(const HttpRequest& request, std::string_view header, std::string_view value) {
  const std::string* found = request.header(header);
  return found != nullptr && *found == value;
}

// Returns an error if a browser sends this request on behalf of another site.
std::optional<HttpResponse> refuse_foreign(const HttpRequest& request, const HttpPolicy& policy) {
  const std::string* host = request.header("host");
  if (host == nullptr) return http_error(400, "header: expected one Host");
  if (!is_known_host(*host, policy))
    return http_error(421, cat("Host '", *host,
                               "': expected an address, localhost or a name that is configured"));
  if (count(request, "origin") > 0) {
    const std::string* origin = request.header("origin");
    if (origin == nullptr || !is_origin_of(*origin, *host))
      return http_error(403, "Origin: expected none, or this host's own");
  }
  // A link from another site that a person follows is harmless: that site cannot read the answer.
  const bool follows_link =
      is(request, "sec-fetch-mode", "navigate") && is(request, "sec-fetch-dest", "document");
  if (count(request, "sec-fetch-site") > 0 && !is(request, "sec-fetch-site", "same-origin") &&
      !is(request, "sec-fetch-site", "none") && !follows_link)
    return http_error(403, "Sec-Fetch-Site: expected same-origin or none");
  return std::nullopt;
}

// Compares hashes, so that the duration reveals nothing about the token.
bool same_secret(std::string_view a, std::string_view b) {
  return sha256(std::as_bytes(std::span(a))) == sha256(std::as_bytes(std::span(b)));
}

// True if the request contains the token, as Bearer or, unless `as_bearer`, as the password of
// Basic. Browsers send Basic by themselves, also for requests that another site has made up.
bool bears_token(const HttpRequest& request, const std::string& token, bool as_bearer = false) {
  const std::string* sent = request.header("authorization");
  if (sent == nullptr) return false;
  const size_t space = std::min(sent->find(' '), sent->size());
  const std::string_view scheme = std::string_view(*sent).substr(0, space);
  const std::string_view secret = std::string_view(*sent).substr(std::min(sent->size(), space + 1));
  if (equal_ignoring_case(scheme, "bearer")) return same_secret(secret, token);
  if (as_bearer || !equal_ignoring_case(scheme, "basic")) return false;
  const bool named = same_secret(secret, base64(cat(kUser, ":", token)));
  return same_secret(secret, base64(cat(":", token))) || named;  // without a name
}

// Browsers do not support Bearer, and read only the first of two challenges in one header.
HttpResponse unauthorized() {
  HttpResponse response =
      http_error(401, cat("expected 'Authorization: Bearer <token>', or the user ", kUser,
                          " with the token as password"));
  response.headers.emplace_back("WWW-Authenticate", cat("Basic realm=\"user ", kUser,
                                                        ", password: the token\", "
                                                        "charset=\"UTF-8\""));
  response.headers.emplace_back("WWW-Authenticate", "Bearer realm=\"leat\"");
  return response;
}

// True if a browser shows the answer to a person who has opened this address. Programs get JSON.
bool is_for_a_person(const HttpRequest& request) {
  const std::string* accept = request.header("accept");
  const bool api = !request.segments.empty() && request.segments.front() == "api";
  return !api && accept != nullptr && accept->find("text/html") != std::string::npos;
}

// Makes a page of an error, with its additional headers.
HttpResponse as_page(HttpResponse error) {
  HttpResponse page = html_error_page(error.status, http_phrase(error.status), error.error);
  page.error = std::move(error.error);
  for (HttpField& field : error.headers) page.headers.push_back(std::move(field));
  return page;
}

// Returns the segments that match the `{...}` of the pattern; nothing if the path does not match.
std::optional<std::vector<std::string>> match(std::string_view pattern,
                                              const std::vector<std::string>& segments) {
  std::vector<std::string> captured;
  for (size_t i = 0; i < segments.size(); ++i) {
    if (pattern.empty()) return std::nullopt;
    pattern.remove_prefix(1);  // the slash
    const std::string_view part = pattern.substr(0, pattern.find('/'));
    pattern.remove_prefix(part.size());
    if (part.starts_with('{') ? segments[i].empty() : part != segments[i]) return std::nullopt;
    if (part.starts_with('{')) captured.push_back(segments[i]);
  }
  if (!pattern.empty()) return std::nullopt;
  return captured;
}

}  // namespace

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](char x, char y) { return lower(x) == lower(y); });
}

bool is_known_host(std::string_view host, const HttpPolicy& policy) {
  const size_t colon = host.rfind(':');
  const size_t bracket = host.rfind(']');
  if (colon != std::string_view::npos && (bracket == std::string_view::npos || colon > bracket)) {
    if (!is_port(host.substr(colon + 1))) return false;
    host = host.substr(0, colon);
  }
  return is_address(host) || equal_ignoring_case(host, "localhost") ||
         std::any_of(policy.names.begin(), policy.names.end(), [&](const std::string& name) {
           return !name.empty() && equal_ignoring_case(host, name);
         });
}

namespace {

// The route of a request.
struct Match {
  const HttpRoute* route = nullptr;
  std::vector<std::string> captured;
  bool other_method = false;  // the path has a route for another method alone
};

Match find_route(const HttpRequest& request, std::span<const HttpRoute> routes) {
  const std::string_view method =
      request.method == "HEAD" ? "GET" : std::string_view(request.method);
  Match found;
  for (const HttpRoute& candidate : routes) {
    auto captured = match(candidate.pattern, request.segments);
    if (!captured) continue;
    if (candidate.method == method) return {&candidate, std::move(*captured)};
    found.other_method = true;
  }
  return found;
}

HttpResponse refuse_method(std::string_view allowed, std::string_view message) {
  HttpResponse response = http_error(405, message);
  response.headers.emplace_back("Allow", allowed);
  return response;
}

// A form of another site could send a body of another type without asking this server first.
std::optional<HttpResponse> refuse_body(const HttpRequest& request) {
  if (request.content_length == 0) return std::nullopt;
  const std::string* type = request.header("content-type");
  std::string_view media = type == nullptr ? std::string_view() : *type;
  media = media.substr(0, media.find(';'));
  while (media.ends_with(' ') || media.ends_with('\t')) media.remove_suffix(1);
  if (equal_ignoring_case(media, "application/json")) return std::nullopt;
  return http_error(415, cat("Content-Type: expected application/json, received '", media, "'"));
}

// Checks everything but the route. Clients without the token cannot find out which paths exist.
std::optional<HttpResponse> refuse(const HttpRequest& request, const Match& found,
                                   const HttpPolicy& policy) {
  if (auto refusal = refuse_foreign(request, policy)) return refusal;
  const bool writes = request.method == "POST";
  if (writes && policy.write_token.empty())
    return refuse_method("GET, HEAD",
                         "expected GET or HEAD: this server takes no requests that write (the key "
                         "http_write_token_file allows them)");
  if (!writes && request.method != "GET" && request.method != "HEAD")
    return refuse_method(policy.write_token.empty() ? "GET, HEAD" : "GET, HEAD, POST",
                         "expected GET or HEAD");
  const bool may_write =
      !policy.write_token.empty() && bears_token(request, policy.write_token, true);
  const bool may_read = policy.token.empty() || (found.route != nullptr && found.route->open) ||
                        bears_token(request, policy.token);
  if (!may_write && (writes || !may_read)) return unauthorized();
  if (found.route == nullptr && found.other_method)
    return writes ? refuse_method("GET, HEAD", "expected GET or HEAD at this path")
                  : refuse_method("POST", "expected POST at this path");
  if (found.route == nullptr)
    return http_error(404, cat("there is no '/", join(request.segments, "/"), "'"));
  return refuse_body(request);
}

}  // namespace

std::optional<HttpResponse> refuse_head(const HttpRequest& request,
                                        std::span<const HttpRoute> routes,
                                        const HttpPolicy& policy) {
  return refuse(request, find_route(request, routes), policy);
}

HttpResponse answer_http(HttpRequest request, std::span<const HttpRoute> routes,
                         const HttpPolicy& policy) {
  Match found = find_route(request, routes);
  std::optional<HttpResponse> refusal = refuse(request, found, policy);
  request.captured = std::move(found.captured);
  HttpResponse response = refusal ? std::move(*refusal) : found.route->handler(request);
  const bool shows_error = !response.error.empty() && is_for_a_person(request);
  return shows_error ? as_page(std::move(response)) : response;
}

}  // namespace leat
