// Reads JSON lines. Each line is read or refused with a message, and on_bad_record: skip keeps the
// lines that can be read.
#include "ops/data/dataset.h"
#include "tests/fuzz/fuzz.h"
#include "tests/memory_files.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace leat;
  if (size > 65536) return 0;
  MemoryFiles files(bytes_of_input(data, size));
  DatasetFiles names;
  names.format = "jsonl";
  names.files = {"input"};
  names.options = {"columns:x=",       "columns:x:field=a.x", "columns:x:shape=2",
                   "columns:x:fill=0", "columns:n=",          "columns:n:dtype=uint8",
                   "columns:n:fill=0", "columns:t=",          "columns:t:field=a.t",
                   "columns:t:bytes=5"};
  int64_t kept = 0;
  for (const bool skip : {false, true}) {
    if (skip) names.options.push_back("on_bad_record=skip");
    const auto lines = Dataset::open(files, names);
    if (!lines.ok()) {
      require_message(lines.status());
      require(kept == 0, "lines that can be read are kept");
      continue;
    }
    int64_t good = 0;
    for (int64_t row = 0; row < (*lines)->info().count; ++row) {
      float x[2];
      std::byte n, text[5];
      std::byte* const outs[] = {reinterpret_cast<std::byte*>(x), &n, text};
      const Status read = (*lines)->read_row(row, outs);
      good += read.ok();
      if (!read.ok()) require_message(read);
      if (skip) require(read.ok(), "a line that was kept can be read");
    }
    if (skip) require(good == kept, "skip keeps the lines that can be read");
    kept = good;
  }
  return 0;
}
