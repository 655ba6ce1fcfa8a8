#include "daemon/process/own_secret.h"

#include <sys/random.h>

#include <array>

#include "daemon/base/private_file.h"
#include "daemon/process/secret_file.h"
#include "devices/base/files.h"
#include "devices/base/sha256.h"

namespace leat {

Result<std::string> open_or_make_secret(const std::string& path) {
  LEAT_ASSIGN_OR_RETURN(const bool there, real_files().exists(path));
  if (there) return read_secret_file(path, "");
  std::array<uint8_t, 32> random{};
  if (::getrandom(random.data(), random.size(), 0) != static_cast<ssize_t>(random.size()))
    return unavailable("the kernel gives no random numbers for a secret");
  LEAT_RETURN_IF_ERROR(write_private_file(path, to_hex(random) + "\n", IfThere::keep)
                           .while_doing("making the master's own secret"));
  return read_secret_file(path, "");
}

}  // namespace leat
