#include "transport/seal/peer_name.h"

#include <algorithm>

#include "devices/base/text.h"
#include "devices/base/utf8.h"

namespace leat {
namespace {

constexpr std::string_view kScheme = "spiffe://";
constexpr size_t kMostCluster = 32;
constexpr size_t kMostRole = 16;
constexpr size_t kMostName = 64;

bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_mark(char c) { return c == '-' || c == '_' || c == '.'; }
bool is_of_cluster(char c) { return is_lower(c) || is_digit(c) || is_mark(c); }
bool is_of_name(char c) { return is_of_cluster(c) || (c >= 'A' && c <= 'Z'); }

bool has_only(std::string_view text, size_t most, bool (*fits)(char)) {
  return !text.empty() && text.size() <= most && std::all_of(text.begin(), text.end(), fits);
}

}  // namespace

std::string uri_of(const PeerName& name) {
  return cat(kScheme, name.cluster, "/", name.role, "/", name.name);
}

Result<PeerName> read_peer_name(std::string_view uri) {
  const auto wrong = [&] {
    return invalid_argument(cat("name of a certificate: expected spiffe://CLUSTER/ROLE/NAME, ",
                                "received '", printable(uri.substr(0, 160)), "'"));
  };
  if (!uri.starts_with(kScheme)) return wrong();
  std::string_view rest = uri.substr(kScheme.size());
  const size_t first = rest.find('/');
  if (first == std::string_view::npos) return wrong();
  const size_t second = rest.find('/', first + 1);
  if (second == std::string_view::npos) return wrong();
  PeerName name{std::string(rest.substr(0, first)),
                std::string(rest.substr(first + 1, second - first - 1)),
                std::string(rest.substr(second + 1))};
  if (!check(name).ok()) return wrong();
  return name;
}

Status check(const PeerName& name) {
  if (!has_only(name.cluster, kMostCluster, is_of_cluster))
    return invalid_argument(cat("cluster: expected 1 to ", kMostCluster,
                                " lower-case letters, digits, '-', '_' and '.', received '",
                                printable(name.cluster.substr(0, kMostCluster + 1)), "'"));
  if (!has_only(name.role, kMostRole, is_lower))
    return invalid_argument(cat("role: expected lower-case letters, received '",
                                printable(name.role.substr(0, kMostRole + 1)), "'"));
  if (!has_only(name.name, kMostName, is_of_name) || is_mark(name.name[0]))
    return invalid_argument(cat("name: expected 1 to ", kMostName,
                                " letters, digits, '-', '_' and '.', the first a letter or a "
                                "digit, received '",
                                printable(name.name.substr(0, kMostName + 1)), "'"));
  return {};
}

}  // namespace leat
