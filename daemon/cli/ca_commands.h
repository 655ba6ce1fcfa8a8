// The commands of `leat ca`, the certificate authority of a cluster that has no other one. They
// need no cluster.
#pragma once

#include <chrono>
#include <string>
#include <variant>
#include <vector>

#include "daemon/authority/authority.h"
#include "daemon/base/terminal.h"

namespace leat {

struct CaInit {
  std::string cluster = "leat";
  std::chrono::seconds lasts = std::chrono::hours(24 * 3650);
};
struct CaIssue {
  CertificateOrder order;
  std::string output;        // empty: NAME.pem
  std::string request_file;  // a certificate request; empty: a new key is made
  bool renew = false;        // the output may replace a file
};
struct CaList {
  bool json = false;
  bool no_headers = false;
};
struct CaRevoke {
  std::string which;
};
struct CaExport {
  std::string output;
};
struct CaRotate {
  bool finish = false;
  bool force = false;
};

struct CaCommand {
  std::string folder;  // empty: LEAT_CA_DIR, or else leat-ca
  std::variant<CaInit, CaIssue, CaList, CaRevoke, CaExport, CaRotate> action;
  ColorMode color = ColorMode::automatic;
};
int run_ca(const CaCommand& command);

}  // namespace leat
