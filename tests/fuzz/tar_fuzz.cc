// Finds the files of a tar archive. Each lies in the archive, and they come in its order.
#include "ops/formats/tar.h"
#include "tests/fuzz/fuzz.h"
#include "tests/memory_files.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace leat;
  MemoryFiles files(bytes_of_input(data, size));
  const auto file = files.open("input");
  uint64_t end = 0;
  const Status status = read_tar(**file, [&](const TarMember& member) -> Status {
    require(member.offset >= end + 512, "a file is behind a header of its own");
    require(member.size <= size && member.offset <= size - member.size, "a file is in the archive");
    require(member.name.size() <= kTarName, "a name has a limit");
    end = member.offset + member.size;
    return {};
  });
  if (!status.ok()) require_message(status);
  return 0;
}
