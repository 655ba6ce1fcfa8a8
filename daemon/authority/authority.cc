#include "daemon/authority/authority.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>

#include "daemon/base/json_line.h"
#include "daemon/base/private_file.h"
#include "devices/base/files.h"
#include "devices/base/text.h"
#include "transport/rpc/grant.h"

namespace leat {
namespace {

constexpr const char* kKeys = "authority.key";
constexpr const char* kCertificates = "authority.pem";
constexpr const char* kLists = "revoked.pem";
constexpr const char* kIssued = "issued.jsonl";
constexpr const char* kFiles[] = {kKeys, kCertificates, kLists, kIssued};
constexpr uint64_t kMostBytes = 256 << 20;

// The clock of another machine may be so late.
constexpr int64_t kClockSkew = 300;
// The time that other commands may take, and the pause between two tries, in milliseconds.
constexpr std::chrono::seconds kLockDeadline{30};
constexpr int kLockLook = 20;
constexpr int64_t kListLasts = int64_t{3650} * 24 * 3600;

constexpr std::array<std::string_view, 6> kRoles = {"master",   "viewer", "submitter",
                                                    "operator", "admin",  "worker"};

std::string date(int64_t seconds) { return iso_time(seconds * 1000).substr(0, 19) + "Z"; }

// The blocks of a file, which has their number in its first line.
template <typename Range, typename Pem>
std::string with_number(const Range& range, Pem pem) {
  std::string text;
  size_t number = 0;
  for (const auto& each : range) {
    text += pem(each);
    ++number;
  }
  return cat("# blocks: ", number, "\n", text);
}

Result<std::string> read_text(const std::string& path) {
  LEAT_ASSIGN_OR_RETURN(const Bytes bytes, read_file(real_files(), path, kMostBytes));
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

// Reads a file that with_number() has written.
template <typename T>
Result<std::vector<T>> read_numbered(const std::string& path,
                                     Result<std::vector<T>> (*read)(std::string_view,
                                                                    std::string_view)) {
  LEAT_ASSIGN_OR_RETURN(const std::string text, read_text(path));
  const std::string subject = cat("'", path, "'");
  LEAT_ASSIGN_OR_RETURN(std::vector<T> items, read(text, subject));
  if (text.starts_with(cat("# blocks: ", items.size(), "\n"))) return items;
  return invalid_argument(
      cat(subject, ": expected a first line with the number of blocks, received ", items.size(),
          " blocks and the first line '", text.substr(0, std::min<size_t>(text.find('\n'), 80)),
          "': the file was cut or changed"));
}

// Only its user may have anything of it.
Status check_private(int fd, const std::string& path) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return system_error(cat("'", path, "'"), errno);
  if ((info.st_mode & 077) == 0 && (info.st_uid == ::geteuid() || info.st_uid == 0)) return {};
  std::array<char, 8> mode;
  std::snprintf(mode.data(), mode.size(), "%04o", info.st_mode & 07777u);
  return invalid_argument(cat("'", path, "': expected it to be of user ", ::geteuid(),
                              " or of root, and of no use to others (chmod go=), received user ",
                              info.st_uid, " and mode ", mode.data()));
}

// Whether write_private_file() has left the file: FILE.tmp.XXXXXX.
bool is_leftover(std::string_view name) {
  constexpr std::string_view kTemporary = ".tmp.";
  constexpr size_t kRandom = 6;
  return std::any_of(std::begin(kFiles), std::end(kFiles), [&](std::string_view file) {
    return name.starts_with(cat(file, kTemporary)) &&
           name.size() == file.size() + kTemporary.size() + kRandom;
  });
}

}  // namespace

std::string Authority::path_of(std::string_view file) const { return cat(folder_, "/", file); }

int64_t Authority::now() const {
  return std::chrono::floor<std::chrono::seconds>(clock_->now().time_since_epoch()).count();
}

bool Authority::trusts(const std::string& id) const {
  return std::any_of(trusted_.begin(), trusted_.end(),
                     [&](const Trusted& each) { return each.id == id; });
}

std::string Authority::certificates() const {
  std::string text;
  for (const Trusted& each : trusted_) text += pem_of(each.certificate);
  return text;
}

Result<Authority::Trusted> Authority::make_trusted(const std::string& cluster, int64_t from,
                                                   int64_t until) {
  Trusted made;
  LEAT_ASSIGN_OR_RETURN(made.key, make_key());
  LEAT_ASSIGN_OR_RETURN(made.certificate, make_authority(made.key, cluster, from, until));
  made.id = id_of(made.certificate);
  return made;
}

// The whole folder is made under another name first: two processes cannot both make it, and none
// can see a part of it.
Status Authority::make(const std::string& folder, const std::string& cluster,
                       std::chrono::seconds lasts, const Clock& clock) {
  LEAT_RETURN_IF_ERROR(check(PeerName{cluster, "master", "x"}));
  if (lasts.count() < 1) return invalid_argument("lasts: expected a time to come, received 0");
  std::string temporary = folder;
  while (temporary.size() > 1 && temporary.ends_with('/')) temporary.pop_back();
  const std::string path = temporary;
  temporary += ".XXXXXX";
  if (::mkdtemp(temporary.data()) == nullptr)
    return system_error(cat("making the folder '", path, "'"), errno);
  const auto fill = [&]() -> Status {
    Authority authority(temporary, clock);
    const int64_t now = authority.now();
    LEAT_ASSIGN_OR_RETURN(Trusted made,
                          make_trusted(cluster, now - kClockSkew, now + lasts.count()));
    LEAT_RETURN_IF_ERROR(authority.renew_list(made));
    authority.trusted_.push_back(std::move(made));
    LEAT_RETURN_IF_ERROR(authority.write_keys());
    LEAT_RETURN_IF_ERROR(authority.write_lists());
    LEAT_RETURN_IF_ERROR(authority.write_issued());
    LEAT_RETURN_IF_ERROR(authority.write_certificates());
    if (::rename(temporary.c_str(), path.c_str()) == 0)
      return real_files().sync_directory(directory_of(path));
    if (errno != EEXIST && errno != ENOTEMPTY && errno != ENOTDIR)
      return system_error(cat("making the folder '", path, "'"), errno);
    return invalid_argument(
        cat("'", path, "': expected a folder that is empty or not there, received one with files"));
  };
  const Status filled = fill();
  if (!filled.ok()) (void)real_files().remove_all(temporary);
  return filled;
}

Result<Authority> Authority::open(const std::string& folder, const Clock& clock) {
  Authority authority(folder, clock);
  LEAT_RETURN_IF_ERROR(authority.lock());
  authority.clear_leftovers();
  LEAT_RETURN_IF_ERROR(authority.read());
  return authority;
}

Status Authority::lock() {
  lock_ = Descriptor(::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!lock_ && (errno == ENOENT || errno == ENOTDIR)) {
    return failed_precondition(cat("'", folder_,
                                   "': expected the folder of an authority, as `leat "
                                   "ca init` makes it, received none"));
  }
  if (!lock_) return system_error(cat("opening '", folder_, "'"), errno);
  LEAT_RETURN_IF_ERROR(check_private(lock_.get(), folder_));
  const auto until = std::chrono::steady_clock::now() + kLockDeadline;
  while (::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR)
      return system_error(cat("locking '", folder_, "'"), errno);
    if (std::chrono::steady_clock::now() >= until)
      return deadline_exceeded(cat("'", folder_, "': expected other commands to be done with it ",
                                   "within ", kLockDeadline.count(), " s"));
    ::poll(nullptr, 0, kLockLook);
  }
  return {};
}

// Removes what a process that was killed has left beside the files: it may have private keys.
void Authority::clear_leftovers() const {
  std::error_code error;
  std::vector<std::filesystem::path> leftovers;
  for (std::filesystem::directory_iterator each(folder_, error), end; !error && each != end;
       each.increment(error)) {
    if (is_leftover(each->path().filename().string())) leftovers.push_back(each->path());
  }
  for (const auto& each : leftovers) std::filesystem::remove(each, error);
}

Status Authority::read() {
  const Descriptor key_file(::open(path_of(kKeys).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (key_file) LEAT_RETURN_IF_ERROR(check_private(key_file.get(), path_of(kKeys)));
  LEAT_ASSIGN_OR_RETURN(auto keys, read_numbered(path_of(kKeys), read_keys));
  const std::string path = path_of(kCertificates);
  LEAT_ASSIGN_OR_RETURN(auto certificates, read_numbered(path, read_certificates));
  for (Certificate& certificate : certificates) {
    LEAT_ASSIGN_OR_RETURN(const std::string cluster, cluster_of(certificate, cat("'", path, "'")));
    if (cluster_.empty()) cluster_ = cluster;
    if (cluster != cluster_)
      return invalid_argument(cat("'", path, "': expected authorities of the cluster '", cluster_,
                                  "' alone, received one of '", cluster, "'"));
    const auto key = std::find_if(keys.begin(), keys.end(), [&](const CertificateKey& each) {
      return each != nullptr && belongs_to(each, certificate);
    });
    const std::string id = id_of(certificate);
    if (key == keys.end())
      return invalid_argument(cat("'", path_of(kKeys), "': expected the key of the authority ", id,
                                  ", which is in '", path, "', received others"));
    trusted_.push_back({std::move(certificate), std::move(*key), nullptr, id});
  }
  std::copy_if(std::make_move_iterator(keys.begin()), std::make_move_iterator(keys.end()),
               std::back_inserter(other_keys_),
               [](const CertificateKey& key) { return key != nullptr; });
  LEAT_RETURN_IF_ERROR(read_lists());
  LEAT_ASSIGN_OR_RETURN(const std::string text, read_text(path_of(kIssued)));
  LEAT_ASSIGN_OR_RETURN(issued_, read_issued(text, cat("'", path_of(kIssued), "'")));
  return check_issued();
}

Status Authority::read_lists() {
  LEAT_ASSIGN_OR_RETURN(auto lists, read_numbered(path_of(kLists), read_revocation_lists));
  for (Trusted& trusted : trusted_) {
    const auto list = std::find_if(lists.begin(), lists.end(), [&](const RevocationList& each) {
      return each != nullptr && is_of(each, trusted.certificate);
    });
    if (list == lists.end())
      return invalid_argument(cat("'", path_of(kLists), "': expected the list of the authority ",
                                  trusted.id, ", signed by it, received others"));
    trusted.list = std::move(*list);
  }
  return {};
}

// A certificate that only the list calls revoked was so when a revocation was interrupted.
Status Authority::check_issued() {
  for (const Trusted& trusted : trusted_) {
    for (const Revoked& revoked : revoked_in(trusted.list)) {
      const auto found =
          std::find_if(issued_.begin(), issued_.end(), [&](const IssuedCertificate& each) {
            return each.serial == revoked.serial && each.authority == trusted.id;
          });
      if (found == issued_.end())
        return invalid_argument(cat("'", path_of(kIssued), "': expected the certificate ",
                                    revoked.serial, ", which '", path_of(kLists),
                                    "' has as revoked, received others: the file is older"));
      if (!found->revoked) found->revoked = revoked.at;
    }
  }
  return check_lists();
}

// An older list would be given to the daemons, which would trust a revoked certificate again.
Status Authority::check_lists() const {
  std::map<std::string, std::set<std::string>> listed;
  for (const Trusted& trusted : trusted_) {
    std::set<std::string>& serials = listed[trusted.id];
    for (const Revoked& revoked : revoked_in(trusted.list)) serials.insert(revoked.serial);
  }
  for (const IssuedCertificate& each : issued_) {
    const auto trusted = listed.find(each.authority);
    if (!each.revoked || trusted == listed.end() || trusted->second.contains(each.serial)) continue;
    return invalid_argument(cat("'", path_of(kLists), "': expected the certificate ", each.serial,
                                ", which '", path_of(kIssued),
                                "' has as revoked, received others: the file is older"));
  }
  return {};
}

Status Authority::renew_list(Trusted& trusted) const {
  std::vector<Revoked> all;
  for (const IssuedCertificate& each : issued_)
    if (each.revoked && each.authority == trusted.id) all.push_back({each.serial, *each.revoked});
  const int64_t number = trusted.list == nullptr ? 1 : number_of(trusted.list) + 1;
  LEAT_ASSIGN_OR_RETURN(
      trusted.list,
      make_revocation_list({trusted.certificate, trusted.key}, all, number, now() - kClockSkew,
                           std::max(now() + kListLasts, until_of(trusted.certificate))));
  return {};
}

Status Authority::write_keys() const {
  std::vector<std::string> keys;
  for (const Trusted& each : trusted_) keys.push_back(pem_of(each.key));
  for (const CertificateKey& key : other_keys_) keys.push_back(pem_of(key));
  return write_private_file(path_of(kKeys),
                            with_number(keys, [](const std::string& pem) { return pem; }),
                            IfThere::replace);
}

Status Authority::write_lists() const {
  const auto pem = [](const Trusted& each) { return pem_of(each.list); };
  return write_private_file(path_of(kLists), with_number(trusted_, pem), IfThere::replace);
}

Status Authority::write_certificates() const {
  const auto pem = [](const Trusted& each) { return pem_of(each.certificate); };
  return write_private_file(path_of(kCertificates), with_number(trusted_, pem), IfThere::replace);
}

Status Authority::write_issued() const {
  return write_private_file(path_of(kIssued), text_of(issued_), IfThere::replace);
}

Result<MadeCertificate> Authority::issue(const CertificateOrder& order) {
  if (std::find(kRoles.begin(), kRoles.end(), order.role) == kRoles.end())
    return invalid_argument(
        cat("role: expected ", join(kRoles, ", "), ", received '", order.role, "'"));
  CertificateFields fields{{cluster_, order.role, order.name},
                           order.hosts,
                           now() - kClockSkew,
                           now() + order.lasts.count()};
  LEAT_RETURN_IF_ERROR(check(fields.name));
  LEAT_RETURN_IF_ERROR(check_name(order.name));  // a token could have it, too
  for (const std::string& host : order.hosts) LEAT_RETURN_IF_ERROR(check_host(host));
  if (order.lasts.count() < 1)
    return invalid_argument("lasts: expected a time to come, received 0");
  if (fields.until > until())
    return invalid_argument(cat("lasts: expected a certificate that ends with its authority on ",
                                date(until()), " or before, received one until ",
                                date(fields.until), "; `leat ca rotate` makes a new authority"));
  CertificateKey key;
  if (order.request.empty()) {
    LEAT_ASSIGN_OR_RETURN(key, make_key());
  } else {
    LEAT_ASSIGN_OR_RETURN(key, read_request(order.request, "certificate request"));
  }
  const Trusted& by = trusted_.front();
  LEAT_ASSIGN_OR_RETURN(const Certificate made,
                        make_certificate({by.certificate, by.key}, key, fields));
  issued_.push_back({serial_of(made), order.role, order.name, order.hosts, from_of(made),
                     until_of(made), by.id, std::nullopt});
  // Before the certificate leaves this function, so that each one that is known can be revoked.
  LEAT_RETURN_IF_ERROR(write_issued());
  const std::string private_key = order.request.empty() ? pem_of(key) : "";
  return MadeCertificate{issued_.back(), cat(private_key, pem_of(made), certificates())};
}

// The lists come first: if the second write fails, the next open() learns of it from them.
Result<std::vector<IssuedCertificate>> Authority::revoke(std::string_view which) {
  std::vector<IssuedCertificate> revoked;
  for (IssuedCertificate& each : issued_) {
    const bool is_named = each.serial == which || each.name == which;
    if (!is_named || each.revoked || !trusts(each.authority)) continue;
    each.revoked = now();
    revoked.push_back(each);
  }
  if (revoked.empty())
    return failed_precondition(cat("certificate '", which,
                                   "': expected the serial number or the name of certificates that "
                                   "are not revoked, as `leat ca list` shows them"));
  for (Trusted& trusted : trusted_) LEAT_RETURN_IF_ERROR(renew_list(trusted));
  LEAT_RETURN_IF_ERROR(write_lists());
  LEAT_RETURN_IF_ERROR(write_issued());
  return revoked;
}

Status Authority::rotate() {
  const Certificate& present = trusted_.front().certificate;
  const int64_t lasts = until_of(present) - from_of(present);
  const int64_t from = now() - kClockSkew;
  LEAT_ASSIGN_OR_RETURN(Trusted made, make_trusted(cluster_, from, from + lasts));
  LEAT_RETURN_IF_ERROR(renew_list(made));
  trusted_.insert(trusted_.begin(), std::move(made));
  // The certificate comes last: only then the key and the list are of use.
  LEAT_RETURN_IF_ERROR(write_keys());
  LEAT_RETURN_IF_ERROR(write_lists());
  return write_certificates();
}

std::vector<IssuedCertificate> Authority::good_of_old() const {
  std::vector<IssuedCertificate> good;
  for (const IssuedCertificate& each : issued_)
    if (each.is_good(now()) && each.authority != id() && trusts(each.authority))
      good.push_back(each);
  return good;
}

Status Authority::finish_rotation(bool force) {
  if (trusted_.size() == 1 && other_keys_.empty())
    return failed_precondition(
        cat("rotation of '", folder_,
            "': expected an older authority beside the present one, received "
            "none"));
  const size_t good = good_of_old().size();
  if (good > 0 && !force)
    return failed_precondition(
        cat("rotation of '", folder_,
            "': expected no good certificates of older authorities, received ", good,
            "; --force makes them useless"));
  trusted_.resize(1);
  other_keys_.clear();
  LEAT_RETURN_IF_ERROR(write_certificates());
  LEAT_RETURN_IF_ERROR(write_lists());
  return write_keys();
}

}  // namespace leat
