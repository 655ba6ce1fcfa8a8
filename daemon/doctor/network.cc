#include "daemon/doctor/network.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <strings.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>

#include "devices/base/text.h"

namespace leat {
namespace {

namespace fs = std::filesystem;

// The first line of a file; "" if it cannot be read.
std::string line_of(const fs::path& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

// The names in a folder, in order; none if there is no such folder.
std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    names.push_back(at->path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

// "4: ACTIVE" is "ACTIVE".
std::string state_of(const std::string& line) {
  const size_t colon = line.find(": ");
  return colon == std::string::npos ? line : line.substr(colon + 2);
}

// A list of NCCL_IB_HCA or NCCL_SOCKET_IFNAME: names with commas between them. A name stands for
// all that begin with it, "=" before the list for itself alone, and "^" for all others. Devices may
// have a port, "mlx5_0:1". A list without names has all, and "^" before it none.
class NameList {
 public:
  explicit NameList(std::string_view text) {
    if (text.starts_with('^')) {
      excludes_ = true;
      text.remove_prefix(1);
    }
    if (text.starts_with('=')) {
      exact_ = true;
      text.remove_prefix(1);
    }
    while (!text.empty()) {
      const size_t end = std::min(text.find(','), text.size());
      std::string_view name = text.substr(0, end);
      text.remove_prefix(std::min(end + 1, text.size()));
      const size_t colon = name.find(':');
      Name read{std::string(name.substr(0, colon)), std::nullopt};
      if (colon != std::string_view::npos)
        read.port = std::atoi(std::string(name.substr(colon + 1)).c_str());
      if (!read.name.empty()) names_.push_back(std::move(read));
    }
  }

  // Without a port, a name that is listed with one is had, too.
  bool has(std::string_view name, std::optional<int> port = std::nullopt) const {
    const auto is = [&](const Name& each) {
      return (exact_ ? name == each.name : name.starts_with(each.name)) &&
             (!each.port || !port || *each.port == *port);
    };
    const bool listed = names_.empty() || std::any_of(names_.begin(), names_.end(), is);
    return listed != excludes_;
  }

 private:
  struct Name {
    std::string name;
    std::optional<int> port;
  };
  bool excludes_ = false, exact_ = false;
  std::vector<Name> names_;
};

// The interfaces of TCP. Without a list NCCL takes those that begin with "ib", else all but those
// of Docker, of virtual machines and the loopback, else these. A list of one character is none.
std::vector<std::string> tcp_interfaces(const NetworkFacts& facts) {
  const auto those = [&](std::string_view list) {
    const NameList wanted(list);
    std::vector<std::string> names;
    for (const std::string& each : facts.interfaces) {
      if (wanted.has(each)) names.push_back(each);
    }
    return names;
  };
  if (facts.socket_ifname.size() > 1) return those(facts.socket_ifname);
  for (const char* list : {"ib", "^docker,lo,virbr", "docker", "lo", "virbr"}) {
    if (auto names = those(list); !names.empty()) return names;
  }
  return {};
}

// Why NCCL cannot reach the ports, and what to do.
struct Obstacle {
  std::string found, advice;
};
std::optional<Obstacle> obstacle_to_rdma(const NetworkFacts& facts) {
  if (!facts.verbs_error.empty())
    return Obstacle{facts.verbs_error, "NCCL reaches RDMA by libibverbs.so.1: install it"};
  if (facts.verbs_devices.empty()) {
    return Obstacle{"no /dev/infiniband/uverbs* that this process may open",
                    "give this user, or the container, the devices in /dev/infiniband"};
  }
  return std::nullopt;
}

bool is_named(const std::string& net, const char* name) {
  return ::strcasecmp(net.c_str(), name) == 0;
}

std::string describe(const NetworkFacts::RdmaPort& port) {
  const bool is_roce = port.link_layer == "Ethernet";
  return cat(port.device, ":", port.port, " ", port.link_layer, is_roce ? " (RoCE)" : "", ", ",
             port.state, port.rate.empty() ? "" : ", ", port.rate);
}

// "; NCCL_IB_HCA is 'mlx5_0'" for each variable that is set.
std::string variables(const NetworkFacts& facts) {
  std::string text;
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) text += cat("; ", name, " is '", value, "'");
  };
  add("NCCL_NET", facts.net);
  add("NCCL_IB_DISABLE", facts.ib_disable);
  add("NCCL_IB_HCA", facts.ib_hca);
  add("NCCL_SOCKET_IFNAME", facts.socket_ifname);
  return text;
}

}  // namespace

NetworkFacts read_networks(const std::string& root,
                           const std::function<std::string(const char*)>& environment) {
  NetworkFacts facts;
  const fs::path devices = fs::path(root) / "sys/class/infiniband";
  for (const std::string& device : names_in(devices)) {
    for (const std::string& port : names_in(devices / device / "ports")) {
      const fs::path at = devices / device / "ports" / port;
      facts.ports.push_back({device, std::atoi(port.c_str()), state_of(line_of(at / "state")),
                             line_of(at / "link_layer"), line_of(at / "rate")});
    }
  }
  const fs::path verbs = fs::path(root) / "dev/infiniband";
  for (const std::string& name : names_in(verbs)) {
    if (name.starts_with("uverbs") && ::access((verbs / name).c_str(), R_OK | W_OK) == 0)
      facts.verbs_devices.push_back(name);
  }
  facts.net = environment("NCCL_NET");
  facts.ib_disable = environment("NCCL_IB_DISABLE");
  facts.ib_hca = environment("NCCL_IB_HCA");
  facts.socket_ifname = environment("NCCL_SOCKET_IFNAME");
  return facts;
}

std::vector<std::string> interfaces_with_address() {
  std::vector<std::string> names;
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return names;
  for (const ifaddrs* each = first; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || (each->ifa_flags & IFF_UP) == 0) continue;
    const int family = each->ifa_addr->sa_family;
    if (family == AF_INET6) {
      const auto* address = reinterpret_cast<const sockaddr_in6*>(each->ifa_addr);
      if (IN6_IS_ADDR_LOOPBACK(&address->sin6_addr)) continue;
    } else if (family != AF_INET) {
      continue;
    }
    if (std::find(names.begin(), names.end(), each->ifa_name) == names.end())
      names.emplace_back(each->ifa_name);
  }
  ::freeifaddrs(first);
  return names;
}

Finding judge_networks(const NetworkFacts& facts) {
  Finding finding{"GPU network", FindingVerdict::fine, "", ""};
  const auto note = [&](std::string advice) {
    finding.verdict = FindingVerdict::note;
    finding.advice = std::move(advice);
    return finding;
  };
  const bool by_socket = is_named(facts.net, "Socket"), by_ib = is_named(facts.net, "IB");
  if (!facts.net.empty() && !by_socket && !by_ib) {
    finding.found = cat("by a plugin of NCCL", variables(facts));
    return note("NCCL_NET names a network that is not NCCL's own: look whether it is there");
  }
  const bool disabled = by_socket || std::atoi(facts.ib_disable.c_str()) != 0;
  const auto obstacle = obstacle_to_rdma(facts);
  const NameList wanted(facts.ib_hca);
  std::vector<std::string> used, idle;
  bool has_port = false;  // that NCCL would use, were there no obstacle
  for (const NetworkFacts::RdmaPort& port : facts.ports) {
    const bool usable = !disabled && port.state == "ACTIVE" && wanted.has(port.device, port.port);
    has_port = has_port || usable;
    (usable && !obstacle ? used : idle).push_back(describe(port));
  }
  const std::string unused = idle.empty() ? "" : cat("; not used: ", join(idle, "; "));
  if (!used.empty()) {
    finding.found = cat("RDMA by ", join(used, "; "), unused, variables(facts));
    return finding;
  }
  const auto interfaces = tcp_interfaces(facts);
  finding.found = cat("no RDMA", has_port && obstacle ? cat(" (", obstacle->found, ")") : "",
                      by_ib ? ", and NCCL would end"
                            : cat(": NCCL would use TCP over ",
                                  interfaces.empty() ? "no interface" : join(interfaces, ", ")),
                      unused, variables(facts));
  if (has_port && obstacle) return note(obstacle->advice);
  if (by_ib) return note("NCCL_NET asks for RDMA alone");
  if (interfaces.empty()) return note("no interface is up that NCCL_SOCKET_IFNAME allows");
  if (!facts.ports.empty() && !disabled)
    return note("no port for RDMA is ACTIVE and allowed by NCCL_IB_HCA: see 'ibstat'");
  return finding;
}

}  // namespace leat
