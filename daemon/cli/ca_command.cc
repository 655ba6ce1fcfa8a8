// leat ca: makes an authority, and issues, lists, revokes and rotates certificates.
#include <algorithm>
#include <chrono>
#include <iostream>
#include <optional>
#include <span>

#include "daemon/authority/authority.h"
#include "daemon/base/json_line.h"
#include "daemon/base/private_file.h"
#include "daemon/cli/ca_commands.h"
#include "daemon/cli/cluster_connection.h"
#include "daemon/cli/table.h"
#include "daemon/status/status_json.h"
#include "devices/base/clock.h"
#include "devices/base/files.h"
#include "devices/base/text.h"
#include "devices/base/utf8.h"

namespace leat {
namespace {

constexpr uint64_t kMostRequest = 64 << 10;

int64_t unix_seconds(const Clock& clock) {
  return std::chrono::floor<std::chrono::seconds>(clock.now().time_since_epoch()).count();
}

std::string day_and_time(int64_t seconds) { return iso_time(seconds * 1000).substr(0, 19) + "Z"; }

std::string folder_of(const CaCommand& command) {
  if (!command.folder.empty()) return command.folder;
  const std::string set = real_environment("LEAT_CA_DIR");
  return set.empty() ? "leat-ca" : set;
}

std::string describe_certificate(const IssuedCertificate& each) {
  return cat("certificate ", each.serial, " of ", each.role, " ", each.name);
}

std::string_view state_of_certificate(const Authority& authority, const IssuedCertificate& each,
                                      int64_t now) {
  if (each.revoked) return "REVOKED";
  if (each.until <= now) return "EXPIRED";
  return authority.trusts(each.authority) ? "GOOD" : "UNTRUSTED";
}

// Runs one of the commands on the authority of `folder`.
struct RunCa {
  const std::string folder;
  const RealClock clock{};

  Status operator()(const CaInit& init) const {
    LEAT_RETURN_IF_ERROR(Authority::make(folder, init.cluster, init.lasts, clock));
    LEAT_ASSIGN_OR_RETURN(const Authority authority, Authority::open(folder, clock));
    std::cout << "the authority of cluster " << authority.cluster() << " is in "
              << printable(folder) << ", until " << day_and_time(authority.until())
              << "; keep this folder secret\n";
    return {};
  }

  Status operator()(const CaIssue& issue) const {
    CertificateOrder order = issue.order;
    const std::string path = issue.output.empty() ? cat(order.name, ".pem") : issue.output;
    if (!issue.request_file.empty()) {
      LEAT_ASSIGN_OR_RETURN(const Bytes request,
                            read_file(real_files(), issue.request_file, kMostRequest));
      order.request.assign(reinterpret_cast<const char*>(request.data()), request.size());
      if (order.request.empty())
        return invalid_argument(
            cat("'", issue.request_file, "': expected a certificate request, received nothing"));
    }
    LEAT_ASSIGN_OR_RETURN(Authority authority, Authority::open(folder, clock));
    if (!issue.renew) {
      LEAT_ASSIGN_OR_RETURN(const bool there, real_files().exists(path));
      if (there)
        return invalid_argument(
            cat("'", path, "': expected a file that does not exist yet, or --renew"));
    }
    LEAT_ASSIGN_OR_RETURN(const MadeCertificate made, authority.issue(order));
    const Status written =
        write_private_file(path, made.pem, issue.renew ? IfThere::replace : IfThere::refuse);
    if (!written.ok()) {
      // A certificate that was lost must not stay good.
      (void)authority.revoke(made.issued.serial);
      return written;
    }
    std::cout << describe_certificate(made.issued) << " is in " << printable(path) << ", until "
              << day_and_time(made.issued.until) << "\n";
    return {};
  }

  Status operator()(const CaList& list) const {
    LEAT_ASSIGN_OR_RETURN(const Authority authority, Authority::open(folder, clock));
    const int64_t now = unix_seconds(clock);
    if (list.json) {
      for (const IssuedCertificate& each : authority.issued()) {
        std::optional<std::string> revoked;
        if (each.revoked) revoked = iso_time(*each.revoked * 1000);
        JsonLine line;
        std::cout << line.add("apiVersion", kApiVersion)
                         .add("kind", "Certificate")
                         .add("serial", each.serial)
                         .add("role", each.role)
                         .add("name", each.name)
                         .add("hosts", each.hosts)
                         .add("state", state_of_certificate(authority, each, now))
                         .add("from", iso_time(each.from * 1000))
                         .add("until", iso_time(each.until * 1000))
                         .add("authority", each.authority)
                         .add("revoked", revoked)
                         .text();
      }
      return {};
    }
    std::vector<std::vector<std::string>> rows;
    for (const IssuedCertificate& each : authority.issued()) {
      const std::string_view state = state_of_certificate(authority, each, now);
      rows.push_back({each.serial, each.role, each.name, std::string(state),
                      state == "GOOD" ? format_age((each.until - now) * 1000) : "-",
                      each.authority.substr(0, 16), or_dash(join(each.hosts, ","))});
    }
    std::cout << format_table({"SERIAL", "ROLE", "NAME", "STATE", "LASTS", "AUTHORITY", "HOSTS"},
                              rows, !list.no_headers,
                              {stdout_columns(), {{"HOSTS", 12}, {"AUTHORITY", 0}, {"HOSTS", 0}}});
    return {};
  }

  Status operator()(const CaRevoke& revoke) const {
    LEAT_ASSIGN_OR_RETURN(Authority authority, Authority::open(folder, clock));
    LEAT_ASSIGN_OR_RETURN(const auto revoked, authority.revoke(revoke.which));
    for (const IssuedCertificate& each : revoked)
      std::cout << describe_certificate(each) << " is revoked\n";
    std::cout << "give " << printable(folder) << "/revoked.pem to all daemons\n";
    return {};
  }

  Status operator()(const CaExport& out) const {
    LEAT_ASSIGN_OR_RETURN(const Authority authority, Authority::open(folder, clock));
    LEAT_ASSIGN_OR_RETURN(const bool there, real_files().exists(out.output));
    if (there)
      return invalid_argument(cat("'", out.output, "': expected a file that does not exist yet"));
    // For everyone to read, unless the umask forbids it.
    const std::string text = authority.certificates();
    LEAT_RETURN_IF_ERROR(
        write_file_atomically(real_files(), out.output, std::as_bytes(std::span(text))));
    std::cout << printable(out.output) << "\n";
    return {};
  }

  Status operator()(const CaRotate& rotate) const {
    LEAT_ASSIGN_OR_RETURN(Authority authority, Authority::open(folder, clock));
    if (!rotate.finish) {
      LEAT_RETURN_IF_ERROR(authority.rotate());
      std::cout << "a new authority issues certificates, until " << day_and_time(authority.until())
                << "; the old one is trusted, too. Next:\n"
                << "  1. give " << printable(folder) << "/authority.pem to all daemons and people\n"
                << "  2. then issue new files for all of them: leat ca issue --renew\n"
                << "  3. when they have them: leat ca rotate --finish\n";
      return {};
    }
    const std::vector<IssuedCertificate> good = authority.good_of_old();
    for (const IssuedCertificate& each : good) {
      const bool is_renewed =
          std::any_of(authority.issued().begin(), authority.issued().end(), [&](const auto& other) {
            return other.role == each.role && other.name == each.name &&
                   other.authority == authority.id() && other.is_good(unix_seconds(clock));
          });
      std::cout << describe_certificate(each) << " of the old authority ends on "
                << day_and_time(each.until) << (is_renewed ? " and has been renewed" : "") << "\n";
    }
    LEAT_RETURN_IF_ERROR(authority.finish_rotation(rotate.force));
    std::cout << "the old authority is not trusted any more: give " << printable(folder)
              << "/authority.pem and revoked.pem to all daemons and people\n";
    return {};
  }
};

}  // namespace

int run_ca(const CaCommand& command) {
  const Status status = std::visit(RunCa{folder_of(command)}, command.action);
  if (status.ok()) return kExitOk;
  const int code = report(status, command.color);
  return status.code() == Code::failed_precondition ? int{kExitState} : code;
}

}  // namespace leat
