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

// Makes the folder with a new authority in it. A folder that has files is refused.
struct CaInit {
  std::string cluster = "leat";  // the name of the cluster, in the authority's own certificate
  std::chrono::seconds lasts = std::chrono::hours(24 * 3650);  // how long that one is good
};
// Issues a certificate, and writes it to a file that its owner alone may read: with the private key
// if one is made, and with the certificates of the trusted authorities.
struct CaIssue {
  CertificateOrder order;
  std::string output;        // empty: NAME.pem
  std::string request_file;  // a certificate request; empty: a new key is made
  bool renew = false;        // the output may replace a file
};
// Prints all certificates that were issued, also those that have expired or were revoked: a table,
// or with `json` one object on each line.
struct CaList {
  bool json = false;
  bool no_headers = false;
};
// Revokes certificates. A daemon trusts them until it has the new revoked.pem.
struct CaRevoke {
  std::string which;  // a serial number, or a name: then all certificates of that name
};
// Writes the certificates of the trusted authorities, and no key, to a new file for everyone to
// read.
struct CaExport {
  std::string output;
};
// Makes a new authority, which issues from then on, beside the old one, which stays trusted. With
// `finish` it removes the old one; that is refused while the old one has good certificates.
struct CaRotate {
  bool finish = false;
  bool force = false;  // with `finish`: although there are such
};

struct CaCommand {
  std::string folder;  // empty: LEAT_CA_DIR, or else leat-ca
  std::variant<CaInit, CaIssue, CaList, CaRevoke, CaExport, CaRotate> action;
  ColorMode color = ColorMode::automatic;
};
// Carries the command out, and returns the exit code of the process. It has printed the outcome, or
// the error.
int run_ca(const CaCommand& command);

}  // namespace leat
