#include "daemon/doctor/confinement.h"

#include <string>

namespace leat {
namespace {

std::string advice_for(ConfineLayer layer) {
  switch (layer) {
    case ConfineLayer::user:
      return "a worker beyond loopback starts no runner without it, unless runner.confine says so: "
             "run it by its unit, or as root in a container";
    case ConfineLayer::calls:
      return "the kernel needs CONFIG_SECCOMP_FILTER";
    case ConfineLayer::files:
      return "Linux 5.13 has it: add landlock to the kernel's list 'lsm='";
    case ConfineLayer::root:
    case ConfineLayer::processes:
    case ConfineLayer::ipc:
      return "runners see the names of what they cannot open";
    default:
      return "";
  }
}

}  // namespace

Findings judge_confinement(const std::vector<LayerState>& layers) {
  Findings findings;
  for (const LayerState& layer : layers) {
    Finding finding{std::string(name_of(layer.layer)), FindingVerdict::fine,
                    layer.how.empty() ? "can be had" : layer.how, ""};
    // The network of runners is that of the machine everywhere, and nothing here would change it.
    const bool nowhere =
        layer.layer == ConfineLayer::network || layer.layer == ConfineLayer::cgroup;
    if (!layer.active) {
      finding.verdict = nowhere ? FindingVerdict::fine : FindingVerdict::note;
      finding.found = "not had: " + layer.how;
      finding.advice = advice_for(layer.layer);
    }
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace leat
