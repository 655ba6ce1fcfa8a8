// The files of a process's certificate, which are read again when they change.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "devices/base/status.h"
#include "transport/seal/certificates.h"

namespace leat {

// All PEM. One file may have everything: an empty path stands for that of the certificate, except
// for `revoked`.
struct CertificatePaths {
  std::string certificate = {};  // empty: this process has none
  std::string key = {};
  std::string authority = {};
  std::string revoked = {};  // empty: no list
};

// Reads the files. invalid_argument, with the path, as Certificates::read() and for a file that is
// not there or is larger than 1 MiB, and for a key that others may read or may have written;
// `credentials` is as in read_secret_file().
Result<std::shared_ptr<const Certificates>> read_certificates(const CertificatePaths& paths,
                                                              const std::string& credentials);

// The certificates of a daemon for as long as it lives.
// Threads: any.
class CertificateFiles {
 public:
  static Result<std::shared_ptr<CertificateFiles>> open(CertificatePaths paths,
                                                        std::string credentials);

  const std::shared_ptr<CurrentCertificates>& current() const { return current_; }
  const CertificatePaths& paths() const { return paths_; }

  // Reads the files again in any case, or if they have changed and were the same at the last two
  // calls. True if current() has others now. An error leaves those from before in use, also the
  // lists of revoked certificates; so do certificates of another name, since a daemon does not
  // change what it is while it runs. The same error again is told once.
  Result<bool> read_again(bool in_any_case);

 private:
  CertificateFiles(CertificatePaths paths, std::string credentials)
      : paths_(std::move(paths)), credentials_(std::move(credentials)) {}
  // The times and sizes of all files as a text.
  std::string look() const;

  const CertificatePaths paths_;
  const std::string credentials_;
  std::shared_ptr<CurrentCertificates> current_;
  Status take();

  std::mutex mutex_;       // of the rest
  std::string seen_;       // look() before the files were read
  std::string last_look_;  // of the last call
  std::string complaint_;  // the last error
};

}  // namespace leat
