#include "ops/data/source_formats.h"

#include <algorithm>
#include <array>

#include "devices/base/text.h"

namespace leat {

std::span<const SourceFormat* const> source_formats() {
  static const auto table = std::to_array<const SourceFormat*>({
      &idx_source(),
      &npy_source(),
      &npz_source(),
      &tokens_source(),
      &synthetic_source(),
      &csv_source(),
      &tsv_source(),
      &jsonl_source(),
      &safetensors_source(),
      &sqlite_source(),
      &mixture_source(),
      &image_folder_source(),
      &webdataset_source(),
      &tfrecord_source(),
  });
  return table;
}

const SourceFormat* find_source_format(std::string_view name) {
  const auto all = source_formats();
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const SourceFormat* each) { return each->name() == name; });
  return found == all.end() ? nullptr : *found;
}

std::string source_format_names() {
  const auto all = source_formats();
  std::string out;
  for (size_t i = 0; i < all.size(); ++i) {
    out += cat(i == 0 ? "" : i + 1 == all.size() ? " or " : ", ", "'", all[i]->name(), "'");
  }
  return out;
}

}  // namespace leat
