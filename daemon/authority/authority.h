// The certificate authority of a cluster that has no other one: a folder with the files
//
//   authority.key   the private key of the present authority, and behind it those of older ones
//   authority.pem   the certificates of the authorities that are trusted, the present one first
//   revoked.pem     for each of them the list of what it has revoked
//   issued.jsonl    the certificates that were issued, one JSON object on each line
//
// The first line of the .key and .pem files has the number of their blocks, by which a file that
// was cut is found. Each file is replaced at once, in an order in which the folder is good between
// any two: keys and lists of an authority that authority.pem does not have are ignored.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/authority/issued_certificate.h"
#include "daemon/authority/x509.h"
#include "devices/base/clock.h"
#include "devices/base/status.h"
#include "transport/io/descriptor.h"

namespace leat {

// A certificate to issue.
struct CertificateOrder {
  std::string role;
  std::string name;
  std::vector<std::string> hosts;
  std::chrono::seconds lasts{};
  // A certificate request with the public key, in PEM form; empty: a new key is made.
  std::string request;
};

struct MadeCertificate {
  IssuedCertificate issued;
  // The private key, if one was made, the certificate, and those of the trusted authorities.
  std::string pem;
};

// An open authority. No other process can open it meanwhile. After an error the files are as before
// or as after the call, and this object is no longer used.
// Threads: one.
class Authority {
 public:
  // Makes the folder, which may only exist if it is empty, and an authority in it.
  static Status make(const std::string& folder, const std::string& cluster,
                     std::chrono::seconds lasts, const Clock& clock);
  // Waits for another process that has it open, 30 s at most. An error if a file is missing,
  // damaged, or of another authority, or if other users may read the folder or the key. `clock`
  // outlives it.
  static Result<Authority> open(const std::string& folder, const Clock& clock);

  // Of the present authority.
  const std::string& cluster() const { return cluster_; }
  const std::string& id() const { return trusted_.front().id; }
  int64_t until() const { return until_of(trusted_.front().certificate); }
  const std::vector<IssuedCertificate>& issued() const { return issued_; }
  bool trusts(const std::string& id) const;
  // The certificates of the trusted authorities, in PEM form.
  std::string certificates() const;

  // invalid_argument for a role, name or host that is none, or a time beyond the authority's end.
  Result<MadeCertificate> issue(const CertificateOrder& order);
  // Revokes the certificate of that serial number, or all of that name; failed_precondition if
  // there is none that is trusted and not revoked.
  Result<std::vector<IssuedCertificate>> revoke(std::string_view which);
  // Makes a new present authority, which lasts for as long as the one before did.
  Status rotate();
  // Good certificates of authorities before the present one.
  std::vector<IssuedCertificate> good_of_old() const;
  // Trusts the present authority alone. failed_precondition if there is no other one or, unless
  // `force`, if they have good certificates.
  Status finish_rotation(bool force);

 private:
  struct Trusted {
    Certificate certificate;
    CertificateKey key;
    RevocationList list;
    std::string id;
  };
  Authority(std::string folder, const Clock& clock) : folder_(std::move(folder)), clock_(&clock) {}

  static Result<Trusted> make_trusted(const std::string& cluster, int64_t from, int64_t until);
  std::string path_of(std::string_view file) const;
  int64_t now() const;
  Status lock();
  void clear_leftovers() const;
  Status read();
  Status read_lists();
  Status check_issued();
  Status check_lists() const;
  // All entries of an authority's list, as the issued certificates have them.
  Status renew_list(Trusted& trusted) const;
  Status write_keys() const;
  Status write_lists() const;
  Status write_certificates() const;
  Status write_issued() const;

  std::string folder_;
  const Clock* clock_;
  Descriptor lock_;
  std::string cluster_;
  std::vector<Trusted> trusted_;  // the present one first
  // Keys of no trusted authority, which an interrupted rotation has left.
  std::vector<CertificateKey> other_keys_;
  std::vector<IssuedCertificate> issued_;
};

}  // namespace leat
