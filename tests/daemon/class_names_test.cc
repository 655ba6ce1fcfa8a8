// The names of classes in a run's folder.
#include "daemon/training/class_names.h"

#include "tests/catch.h"
#include "tests/must.h"
#include "tests/temporary_directory.h"

namespace leat {
namespace {

TEST_CASE("names of classes are read back as they were written") {
  const TemporaryDirectory folder;
  CHECK(must(read_class_names(real_files(), folder.path())).empty());
  must(keep_class_names(real_files(), folder.path(), {}));
  CHECK(!must(real_files().exists(folder / "classes.txt")));
  const std::vector<std::string> names = {"cat", "", "a\\n b", "two\nlines", "käfer"};
  must(keep_class_names(real_files(), folder.path(), names));
  CHECK(must(read_class_names(real_files(), folder.path())) == names);
  must(keep_class_names(real_files(), folder.path(), {"dog"}));
  CHECK(must(read_class_names(real_files(), folder.path())) == std::vector<std::string>{"dog"});
}

}  // namespace
}  // namespace leat
