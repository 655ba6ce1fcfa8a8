#include "ops/data/source.h"

#include <algorithm>

#include "devices/base/text.h"
#include "ops/data/dataset.h"

namespace leat {

Status ClassCheck::refuse(const std::string& row, int64_t label) const {
  return invalid_argument(cat(row, ": expected in [0, ", classes - 1, "], received ", label));
}

uint64_t Source::memory(const std::vector<bool>&) const { return 0; }

Status Source::load(Files&, const std::vector<bool>&) { return {}; }

Status Source::attach(Files&) { return {}; }

const std::byte* Source::in_memory(size_t, int64_t) const { return nullptr; }

Status Source::read_drawn(int64_t row, const RowKey&, std::span<const RowPart> parts) const {
  return read(row, parts);
}

void Source::advise(int64_t, std::span<const size_t>, ReadAdvice) const {}

std::vector<std::string> Source::class_names(size_t) const { return {}; }

std::string Source::row_name(int64_t row) const { return cat("row ", row); }

Status Source::check_classes(Files& files, const ClassCheck& check, size_t column,
                             const ColumnPart& view) {
  std::vector<bool> wanted(info_.columns.size(), false);
  wanted[column] = true;
  LEAT_RETURN_IF_ERROR(load(files, wanted));
  LEAT_RETURN_IF_ERROR(attach(files));
  const Tensor labels(view.info.dtype, view.info.shape);
  const RowPart part{column,
                     view.offset,
                     {static_cast<std::byte*>(labels.raw()), static_cast<size_t>(labels.bytes())}};
  // The rows behind these are checked by the steps that read them: a job of very many records must
  // begin in time.
  constexpr int64_t kMostChecked = int64_t{1} << 22;
  for (int64_t row = 0; row < std::min(info_.count, kMostChecked); ++row) {
    LEAT_RETURN_IF_ERROR(read(row, {&part, 1}));
    for (int64_t i = 0; i < labels.elements(); ++i) {
      if (!check.allows(labels.int_at(i)))
        return check.refuse(cat(row_name(row), ": label"), labels.int_at(i));
    }
  }
  return {};
}

Status SourceFormat::check(const DatasetFiles&, const SourceOptions&) const { return {}; }

Result<std::string> SourceFormat::print(Files& files, const std::string& path) const {
  return fingerprint(files, path);
}

}  // namespace leat
