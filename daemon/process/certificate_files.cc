#include "daemon/process/certificate_files.h"

#include <utility>

#include "daemon/base/file_stamp.h"
#include "daemon/process/secret_file.h"
#include "devices/base/text.h"

namespace leat {
namespace {

// Reads a file of one of the parts.
Status read_part(const std::string& path, const std::string& credentials, FileOf whose,
                 std::string& out) {
  if (path.empty()) return {};
  LEAT_ASSIGN_OR_RETURN(out, read_small_file(path, credentials, whose));
  return {};
}

// The path of the part that a message begins with.
std::string path_of(const CertificatePaths& paths, std::string_view message) {
  if (message.starts_with("key")) return paths.key;
  if (message.starts_with("authority")) return paths.authority;
  return message.starts_with("revoked") ? paths.revoked : paths.certificate;
}

CertificatePaths completed(CertificatePaths paths) {
  if (paths.key.empty()) paths.key = paths.certificate;
  if (paths.authority.empty()) paths.authority = paths.certificate;
  return paths;
}

}  // namespace

Result<std::shared_ptr<const Certificates>> read_certificates(const CertificatePaths& given,
                                                              const std::string& credentials) {
  const CertificatePaths paths = completed(given);
  CertificateTexts texts;
  LEAT_RETURN_IF_ERROR(read_part(paths.key, credentials, FileOf::owner, texts.key));
  LEAT_RETURN_IF_ERROR(
      read_part(paths.certificate, credentials, FileOf::everyone, texts.certificate));
  LEAT_RETURN_IF_ERROR(read_part(paths.authority, credentials, FileOf::everyone, texts.authority));
  LEAT_RETURN_IF_ERROR(read_part(paths.revoked, credentials, FileOf::everyone, texts.revoked));
  // An empty text would mean that no lists are wanted.
  if (!paths.revoked.empty() && texts.revoked.empty())
    return invalid_argument(cat("'", paths.revoked, "': expected a list, received an empty file"));
  auto read = Certificates::read(texts);
  if (read.ok()) return read;
  return invalid_argument(
      cat("'", path_of(paths, read.status().message()), "': ", read.status().message()));
}

Result<std::shared_ptr<CertificateFiles>> CertificateFiles::open(CertificatePaths paths,
                                                                 std::string credentials) {
  std::shared_ptr<CertificateFiles> files(
      new CertificateFiles(completed(std::move(paths)), std::move(credentials)));
  files->seen_ = files->look();
  LEAT_ASSIGN_OR_RETURN(auto read, read_certificates(files->paths_, files->credentials_));
  files->current_ = std::make_shared<CurrentCertificates>(std::move(read));
  return files;
}

std::string CertificateFiles::look() const {
  return cat(file_stamp(paths_.certificate), ", ", file_stamp(paths_.key), ", ",
             file_stamp(paths_.authority), ", ", file_stamp(paths_.revoked));
}

Result<bool> CertificateFiles::read_again(bool in_any_case) {
  const std::lock_guard lock(mutex_);
  const std::string now = look();
  if (!in_any_case) {
    if (now == seen_) return false;
    // A file that somebody still writes changes between two looks.
    if (std::exchange(last_look_, now) != now) return false;
  }
  const Status taken = take();
  if (taken.ok()) {
    seen_ = now;
    complaint_.clear();
    return true;
  }
  // The next look tries again, and tells it only if it is another error.
  if (std::exchange(complaint_, taken.message()) == taken.message() && !in_any_case) return false;
  return taken;
}

Status CertificateFiles::take() {
  LEAT_ASSIGN_OR_RETURN(auto read, read_certificates(paths_, credentials_));
  const PeerName& before = current_->get()->own().name;
  if (read->own().name != before)
    return invalid_argument(cat("'", paths_.certificate, "': expected a certificate of ",
                                uri_of(before), ", received one of ", uri_of(read->own().name)));
  current_->set(std::move(read));
  return {};
}

}  // namespace leat
