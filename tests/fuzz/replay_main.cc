// Runs every file of a directory through a fuzz target once, in the order of names.
#include "devices/base/files.h"
#include "tests/fuzz/fuzz.h"

using namespace leat;

namespace {

Status replay(const std::string& directory) {
  LEAT_ASSIGN_OR_RETURN(const auto names, real_files().list(directory));
  if (names.empty()) return failed_precondition("'" + directory + "': expected files, it is empty");
  for (const std::string& name : names) {
    std::printf("%s\n", name.c_str());
    std::fflush(stdout);  // so that a crash shows the file
    LEAT_ASSIGN_OR_RETURN(const Bytes bytes,
                          read_file(real_files(), directory + "/" + name, uint64_t{64} << 20));
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  }
  return {};
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) {
    std::fprintf(stderr, "usage: %s <directory of inputs>\n", arguments[0]);
    return 2;
  }
  const Status status = replay(arguments[1]);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.to_string().c_str());
  return status.ok() ? 0 : 1;
}
