// The account of uploaded files against the quotas of their bytes (quotas.h). The bytes of an
// upload are reserved when it begins, with the size that it declares, so that uploads that run at
// the same time cannot pass a quota together; they are released when it ends in any way. Then a
// file that has arrived counts by itself, as long as it is there. An upload of a file that is there
// counts as well while it is under way, since its bytes are written once more.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "daemon/jobs/blobs.h"
#include "daemon/jobs/quotas.h"
#include "daemon/jobs/records.h"
#include "devices/base/status.h"

namespace leat {

// A file that a client wants to upload.
struct BlobUpload {
  Sha256Digest sha256 = {};
  uint64_t size = 0;      // as the client declares it
  std::string user = {};  // "": a client without a name
  std::string by = {};    // the client's address, for the audit log
};

// Threads: any. Calls block on the disk, and on `named`.
class UploadAccount : public std::enable_shared_from_this<UploadAccount> {
 public:
  // Files by their SHA-256 in hexadecimal: their bytes.
  using Sizes = std::map<std::string, uint64_t>;
  // Returns the files that the jobs of that user name.
  using Named = std::function<Result<Sizes>(const std::string& user)>;

  // `blobs` outlives it. Uploads that arrived before this object was made, and that no job names,
  // count for no user.
  UploadAccount(const Quotas& quotas, Blobs& blobs, Named named)
      : quotas_(quotas), blobs_(blobs), named_(std::move(named)) {}

  // Reserves the bytes of an upload until the returned object is destroyed. resource_exhausted if
  // they would pass a quota; an upload of a file that counts already, with the size that it has,
  // is not refused, unless another one of it is under way.
  Result<std::shared_ptr<void>> reserve(const BlobUpload& upload);
  // Counts these files of a submit for the user until the returned object is destroyed, when the
  // user's job names them. resource_exhausted if, with those that the user has, they would pass the
  // quota of the user.
  Result<std::shared_ptr<void>> reserve_named(const std::string& user,
                                              std::span<const AttachedFile> files);

 private:
  struct UnderWay {
    std::string name;  // the SHA-256 in hexadecimal
    uint64_t size = 0;
    std::string user;
  };
  struct Submit {
    std::string user;
    Sizes files;
  };
  class Reservation;
  // The bytes of uploads under way, all or those of one user.
  uint64_t under_way(const std::string* user) const;
  bool takes_no_more(const Sizes& there, const UnderWay& upload) const;
  Status check_all(const UnderWay& upload, const Sizes& there) const;
  Status check_user(const UnderWay& upload, const Sizes& there);
  // The files that the user has uploaded and that are there, and those that the user's jobs and
  // submits name.
  Result<Sizes> files_of(const std::string& user, const Sizes& there);
  void end(uint64_t number);

  const Quotas quotas_;
  Blobs& blobs_;
  const Named named_;
  std::mutex mutex_;
  uint64_t begun_ = 0;
  std::map<uint64_t, UnderWay> under_way_;
  // Those that are not decided yet. Their owners may release them on any thread, also on one that
  // `named` waits for, so that takes no lock.
  std::vector<std::weak_ptr<const Submit>> submits_;
  std::map<std::string, Sizes> uploaded_;  // by user
};

}  // namespace leat
