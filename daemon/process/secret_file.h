// Files that hold what authenticates: the secret of a cluster, the token of its HTTP ports.
#pragma once

#include <string>

#include "devices/base/status.h"

namespace leat {

inline constexpr size_t kLeastSecretBytes = 32;
inline constexpr size_t kMostSecretBytes = 4096;

// What stands in the file, without a newline at its end. invalid_argument if there is no such file,
// if it is no regular file, its group or others may read or write it, it belongs to another user
// (but root), or has too few or too many bytes. The message never has the bytes.
//
// `credentials` is systemd's $CREDENTIALS_DIRECTORY, or empty: files in there are shown with a
// group that may read, which stands for an ACL of the service's user, and are not judged by it.
Result<std::string> read_secret_file(const std::string& path, const std::string& credentials);

}  // namespace leat
