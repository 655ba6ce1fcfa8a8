#include "daemon/worker/advertised_address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>

#include <memory>
#include <string_view>

#include "daemon/process/field_reader.h"
#include "devices/base/text.h"

namespace leat {
namespace {

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

// Returns the address as a number, "10.0.0.2", or "" if it has no such form.
std::string number_of(const addrinfo& address) {
  char host[NI_MAXHOST];
  if (::getnameinfo(address.ai_addr, address.ai_addrlen, host, sizeof host, nullptr, 0,
                    NI_NUMERICHOST) != 0)
    return "";
  return host;
}

bool is_number(const std::string& host) {
  in6_addr ignored;
  return ::inet_pton(AF_INET, host.c_str(), &ignored) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), &ignored) == 1;
}

bool is_loopback(std::string_view number) { return number.starts_with("127.") || number == "::1"; }

// Brackets keep the colons of an IPv6 address apart from that before the port.
std::string with_port(const std::string& number, std::string_view port) {
  return number.find(':') == std::string::npos ? cat(number, ":", port)
                                               : cat("[", number, "]:", port);
}

// Returns the first address that others can dial, or the first of all if the data port is on
// loopback.
Result<std::string> look_up(const std::string& host, bool may_be_loopback) {
  addrinfo hints{}, *first = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  const int error = ::getaddrinfo(host.c_str(), nullptr, &hints, &first);
  if (error != 0) {
    return unavailable(
        cat("data_address: expected a name that is known on this machine, received '", host,
            "': ", ::gai_strerror(error)));
  }
  const Addresses found(first, &::freeaddrinfo);
  for (const addrinfo* each = first; each != nullptr; each = each->ai_next) {
    std::string number = number_of(*each);
    if (!number.empty() && (may_be_loopback || !is_loopback(number))) return number;
  }
  return failed_precondition(cat("data_address: expected a name whose address others can dial, '",
                                 host, "' is ", number_of(*first), " on this machine"));
}

}  // namespace

Result<std::string> advertised_address(const std::string& configured, const std::string& bound) {
  if (configured.empty()) return bound;
  // The configuration may name a host alone; then the port is the one that was bound.
  const auto own = split_host_port(bound), given = split_host_port(configured);
  const std::string port(std::string_view(bound).substr(bound.rfind(':') + 1));
  std::string host = given ? given->host : configured;
  if (!given && host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  // A name is looked up here and not by the peers, which may have another idea of it.
  if (!is_number(host)) {
    LEAT_ASSIGN_OR_RETURN(host, look_up(host, own && is_loopback(own->host)));
  }
  return with_port(host, given ? std::to_string(given->port) : port);
}

}  // namespace leat
