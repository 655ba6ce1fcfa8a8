// The list of the certificates that an authority has issued, as its file holds it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "devices/base/status.h"

namespace leat {

// One certificate. Times are in seconds since 1970. A value.
struct IssuedCertificate {
  std::string serial;              // 32 lower-case hexadecimal digits
  std::string role;                // what its holder may do: see docs/certificates.md
  std::string name;                // of the person or daemon; several certificates may have it
  std::vector<std::string> hosts;  // by which browsers and Prometheus call its holder
  int64_t from = 0;
  int64_t until = 0;               // it is good before this second
  std::string authority;           // the identifier of the key that has signed it
  std::optional<int64_t> revoked;  // when

  // Its authority has to be trusted as well: see Authority::trusts().
  bool is_good(int64_t now) const { return !revoked && until > now; }
  friend bool operator==(const IssuedCertificate&, const IssuedCertificate&) = default;
};

// A line of JSON for each, and a last one with their number, by which a text that was cut is found.
std::string text_of(const std::vector<IssuedCertificate>& issued);
// Reads that text; invalid_argument, beginning with `subject`, for any other.
Result<std::vector<IssuedCertificate>> read_issued(std::string_view text,
                                                   const std::string& subject);

}  // namespace leat
