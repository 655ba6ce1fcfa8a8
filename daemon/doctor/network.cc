#include "daemon/doctor/network.h"

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
// have a port, "mlx5_0:1".
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

  bool has(std::string_view name, int port = 0) const {
    const bool listed = std::any_of(names_.begin(), names_.end(), [&](const Name& each) {
      return (exact_ ? name == each.name : name.starts_with(each.name)) &&
             (!each.port || *each.port == port);
    });
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
// of Docker and the loopback, else these.
std::vector<std::string> tcp_interfaces(const NetworkFacts& facts) {
  const auto those = [&](std::string_view list) {
    const NameList wanted(list);
    std::vector<std::string> names;
    for (const NetworkFacts::Interface& each : facts.interfaces) {
      if (each.is_up && wanted.has(each.name)) names.push_back(each.name);
    }
    return names;
  };
  if (!facts.socket_ifname.empty()) return those(facts.socket_ifname);
  for (const char* list : {"ib", "^docker,lo", "docker", "lo"}) {
    if (auto names = those(list); !names.empty()) return names;
  }
  return {};
}

std::string describe(const NetworkFacts::RdmaPort& port) {
  const bool is_roce = port.link_layer == "Ethernet";
  return cat(port.device, ":", port.port, " ", port.link_layer, is_roce ? " (RoCE)" : "", ", ",
             port.state, port.rate.empty() ? "" : ", ", port.rate);
}

std::string joined(const std::vector<std::string>& texts, std::string_view between) {
  std::string all;
  for (const std::string& each : texts) all += cat(all.empty() ? "" : between, each);
  return all;
}

// "; NCCL_IB_HCA is 'mlx5_0'" for each variable that is set.
std::string variables(const NetworkFacts& facts) {
  std::string text;
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) text += cat("; ", name, " is '", value, "'");
  };
  add("NCCL_IB_DISABLE", facts.ib_disable);
  add("NCCL_IB_HCA", facts.ib_hca);
  add("NCCL_SOCKET_IFNAME", facts.socket_ifname);
  return text;
}

}  // namespace

NetworkFacts read_networks(const std::string& sysfs,
                           const std::function<std::string(const char*)>& environment) {
  NetworkFacts facts;
  const fs::path devices = fs::path(sysfs) / "class/infiniband";
  for (const std::string& device : names_in(devices)) {
    for (const std::string& port : names_in(devices / device / "ports")) {
      const fs::path at = devices / device / "ports" / port;
      facts.ports.push_back({device, std::atoi(port.c_str()), state_of(line_of(at / "state")),
                             line_of(at / "link_layer"), line_of(at / "rate")});
    }
  }
  const fs::path interfaces = fs::path(sysfs) / "class/net";
  for (const std::string& name : names_in(interfaces)) {
    // The loopback and tunnels are "unknown" while they are up.
    const std::string state = line_of(interfaces / name / "operstate");
    facts.interfaces.push_back({name, state == "up" || state == "unknown"});
  }
  facts.ib_disable = environment("NCCL_IB_DISABLE");
  facts.ib_hca = environment("NCCL_IB_HCA");
  facts.socket_ifname = environment("NCCL_SOCKET_IFNAME");
  return facts;
}

Finding judge_networks(const NetworkFacts& facts) {
  Finding finding{"GPU network", FindingVerdict::fine, "", ""};
  const bool disabled = std::atoi(facts.ib_disable.c_str()) != 0;
  const NameList wanted(facts.ib_hca.empty() ? "^" : facts.ib_hca);
  std::vector<std::string> used, idle;
  for (const NetworkFacts::RdmaPort& port : facts.ports) {
    const bool usable = !disabled && port.state == "ACTIVE" && wanted.has(port.device, port.port);
    (usable ? used : idle).push_back(describe(port));
  }
  const std::string unused = idle.empty() ? "" : cat("; not used: ", joined(idle, "; "));
  if (!used.empty()) {
    finding.found = cat("RDMA by ", joined(used, "; "), unused, variables(facts));
    return finding;
  }
  const auto interfaces = tcp_interfaces(facts);
  finding.found =
      cat("no RDMA: NCCL would use TCP over ",
          interfaces.empty() ? "no interface" : joined(interfaces, ", "), unused, variables(facts));
  if (interfaces.empty()) {
    finding.verdict = FindingVerdict::note;
    finding.advice = "no interface is up that NCCL_SOCKET_IFNAME allows";
  } else if (!facts.ports.empty() && !disabled) {
    finding.verdict = FindingVerdict::note;
    finding.advice = "no port for RDMA is ACTIVE and allowed by NCCL_IB_HCA: see 'ibstat'";
  }
  return finding;
}

}  // namespace leat
