#include "daemon/authority/key_file.h"

#include <random>

#include "daemon/base/private_file.h"
#include "devices/base/files.h"
#include "devices/base/text.h"

namespace leat {

// Under a name of its own first, which rename() or link() then makes the file's.
Status write_key_file(const std::string& path, std::string_view text, bool replace) {
  std::random_device random;
  const std::string temporary = cat(path, ".", random(), random(), ".tmp");
  const auto publish = [&]() -> Status {
    LEAT_RETURN_IF_ERROR(make_private_file(temporary, text));
    if (replace) {
      LEAT_RETURN_IF_ERROR(real_files().rename(temporary, path));
    } else if (const Status linked = real_files().link(temporary, path); !linked.ok()) {
      const auto there = real_files().exists(path);
      if (!there.ok() || !*there) return linked;
      return invalid_argument(cat("'", path, "': expected a file that does not exist yet"));
    }
    return real_files().sync_directory(directory_of(path));
  };
  const Status published = publish();
  if (!replace || !published.ok()) (void)real_files().remove_all(temporary);
  return published;
}

}  // namespace leat
