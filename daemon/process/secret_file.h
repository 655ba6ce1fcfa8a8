// Files that hold credentials: the secret of a cluster, the token of its HTTP ports.
#pragma once

#include <string>

#include "daemon/process/daemon_config.h"
#include "devices/base/status.h"

namespace leat {

inline constexpr size_t kLeastSecretBytes = 32;
inline constexpr size_t kMostSecretBytes = 4096;

// Returns the content of the file without a newline at its end. Returns invalid_argument if the
// file does not exist, is not a regular file, can be read or written by its group or others,
// belongs to a user other than root and this one, or has too few or too many bytes. The message
// never contains the bytes.
//
// `credentials` is systemd's $CREDENTIALS_DIRECTORY, or empty. Owner and mode of files in it are
// not checked: they appear to be readable by a group, which stands for an ACL of the service's
// user.
Result<std::string> read_secret_file(const std::string& path, const std::string& credentials);

// The users that may have the content of a file, and so the owners and modes that it may have.
enum class FileOf : uint8_t {
  owner,     // it is secret: nobody else may read it
  everyone,  // its owner alone may have written it
};
// Returns the content of a regular file of at most 1 MiB. Errors as of read_secret_file().
Result<std::string> read_small_file(const std::string& path, const std::string& credentials,
                                    FileOf whose);

// Reads the files of `secret_file` and `previous_secret_file` again, and puts what they have into
// `config.secrets`: connections that follow use it, and a master ends those of a secret that it no
// longer accepts. A previous file that was removed is no error: the secret before is no longer
// accepted. Errors leave all as it was. Nothing to do without a secret.
Status reload_secrets(const SecurityConfig& config, const std::string& credentials);

}  // namespace leat
