#include "daemon/process/secret_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "daemon/process/state_folder.h"
#include "devices/base/text.h"
#include "transport/io/descriptor.h"
#include "transport/rpc/grant.h"

namespace leat {
namespace {

constexpr size_t kMostSmallBytes = 1u << 20;

// Nobody but the owner may read a secret, and nobody but this user and root may have written it.
Status check_owner_and_mode(const std::string& path, const struct stat& info, FileOf whose) {
  if ((info.st_mode & 022) != 0 && whose == FileOf::everyone)
    return invalid_argument(cat("'", path, "': expected a file that its owner alone may write, ",
                                "received mode ", permission_text(info.st_mode)));
  if (whose == FileOf::owner && (info.st_mode & 077) != 0) {
    return invalid_argument(cat("'", path, "': expected a file that its owner alone may read ",
                                "(chmod 0400), received mode ", permission_text(info.st_mode)));
  }
  if (info.st_uid != ::geteuid() && info.st_uid != 0) {
    return invalid_argument(cat("'", path, "': expected a file of user ", ::geteuid(),
                                " or of root, received one of user ", info.st_uid));
  }
  return {};
}

// Returns at most `limit` bytes; fewer if the file is shorter.
Result<std::string> read_up_to(int fd, const std::string& path, size_t limit) {
  std::string text(limit, '\0');
  size_t size = 0;
  while (size < limit) {
    const ssize_t got = ::read(fd, text.data() + size, limit - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return invalid_argument(cat("'", path, "': ", std::strerror(errno)));
    if (got == 0) break;
    size += static_cast<size_t>(got);
  }
  text.resize(size);
  return text;
}

}  // namespace

namespace {

// Opens a regular file whose owner and mode are right. A credential of systemd has a mode that
// shows an ACL and would be refused.
Result<Descriptor> open_checked(const std::string& path, const std::string& credentials,
                                FileOf whose) {
  // Non-blocking, because opening a pipe would wait for a writer.
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) return invalid_argument(cat("'", path, "': ", std::strerror(errno)));
  struct stat info {};
  if (::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return invalid_argument(cat("'", path, "': expected a regular file"));
  }
  const bool credential = !credentials.empty() && path.starts_with(credentials + "/");
  if (!credential) LEAT_RETURN_IF_ERROR(check_owner_and_mode(path, info, whose));
  return file;
}

}  // namespace

Result<std::string> read_small_file(const std::string& path, const std::string& credentials,
                                    FileOf whose) {
  LEAT_ASSIGN_OR_RETURN(const Descriptor file, open_checked(path, credentials, whose));
  LEAT_ASSIGN_OR_RETURN(std::string text, read_up_to(file.get(), path, kMostSmallBytes + 1));
  if (text.size() <= kMostSmallBytes) return text;
  return invalid_argument(
      cat("'", path, "': expected at most ", kMostSmallBytes, " bytes, received more"));
}

Result<std::string> read_secret_file(const std::string& path, const std::string& credentials) {
  LEAT_ASSIGN_OR_RETURN(const Descriptor file, open_checked(path, credentials, FileOf::owner));
  // Room for the newline, and for one byte more, by which a file that is too long shows.
  LEAT_ASSIGN_OR_RETURN(std::string text, read_up_to(file.get(), path, kMostSecretBytes + 2));
  if (text.ends_with('\n')) text.pop_back();
  if (text.size() < kLeastSecretBytes || text.size() > kMostSecretBytes) {
    return invalid_argument(cat("'", path, "': expected from ", kLeastSecretBytes, " to ",
                                kMostSecretBytes, " bytes, received ",
                                text.size() > kMostSecretBytes ? "more" : cat(text.size())));
  }
  return text;
}

Status reload_secrets(const SecurityConfig& config, const std::string& credentials) {
  if (!config.secrets) return {};
  LEAT_ASSIGN_OR_RETURN(std::string current, read_secret_file(config.secret_file, credentials));
  LEAT_ASSIGN_OR_RETURN(const Credential now, read_credential(current));
  LEAT_ASSIGN_OR_RETURN(const Credential then, read_credential(config.secrets->current()));
  // A master has a secret, and a worker has what it had at its start: either the one or the other.
  if ((now.grant.right == Right::member) != (then.grant.right == Right::member)) {
    return invalid_argument(cat("'", config.secret_file, "': expected ",
                                then.grant.right == Right::member ? "a secret" : "a token",
                                " as at the start of this daemon, received ",
                                now.grant.right == Right::member ? "a secret" : "a token"));
  }
  std::string previous;
  const std::string& before = config.previous_secret_file;
  if (!before.empty() && (::access(before.c_str(), F_OK) == 0 || errno != ENOENT)) {
    LEAT_ASSIGN_OR_RETURN(previous, read_secret_file(before, credentials));
  }
  config.secrets->set(std::move(current), std::move(previous));
  return {};
}

}  // namespace leat
