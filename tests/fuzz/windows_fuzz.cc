// Cuts a file of tokens into windows. The first three bytes of an input are the window, the stride
// and the kind of file: bit 0 makes it an NPY file, and the others choose the type of a token.
#include <cstring>

#include "ops/data/dataset.h"
#include "tests/fuzz/fuzz.h"
#include "tests/memory_files.h"

namespace {

using namespace leat;

// In a file without a header, row i has the bytes from token i x stride on.
void check_window(std::span<const std::byte> tokens, const DatasetFiles& names, int64_t row,
                  const Bytes& window) {
  const uint64_t at =
      static_cast<uint64_t>(row) * static_cast<uint64_t>(names.stride) * dtype_size(names.element);
  require(at <= tokens.size() && window.size() <= tokens.size() - at, "a window is in the file");
  require(std::memcmp(window.data(), tokens.data() + at, window.size()) == 0,
          "a window has the tokens of its place");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 3) return 0;
  const auto tokens = bytes_of_input(data, size).subspan(3);
  constexpr DType kTypes[] = {DType::u8, DType::u16, DType::u32, DType::i64};
  DatasetFiles names;
  names.format = "tokens";
  const bool npy = (data[2] & 1) != 0;
  names.files = {npy ? "input.npy" : "input.bin"};
  names.window = data[0];
  names.stride = data[1];
  names.element = kTypes[data[2] >> 1 & 3];
  MemoryFiles files(tokens);
  const auto set = Dataset::open(files, names);
  const ClassCheck check{"window", 7, 100};
  const Status classes = check_classes(files, names, check);
  if (!set.ok()) {
    require_message(set.status());
    require(!classes.ok(), "tokens that cannot be read have no classes");
    return 0;
  }
  if (!classes.ok()) require_message(classes);
  Bytes window(static_cast<size_t>((*set)->info().columns.at(0).row_bytes()));
  for (int64_t row = (*set)->info().count - 1; row >= 0; --row) {
    require((*set)->read(0, row, window).ok(), "a window that was counted can be read");
    if (!npy) check_window(tokens, names, row, window);
  }
  return 0;
}
