// CPU kernels of ops/definitions/input.cc.
#include "ops/definitions/input.h"

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>

#include "devices/base/text.h"
#include "ops/cpu/cpu_kernels.h"
#include "ops/data/dataset.h"
#include "ops/data/epoch_order.h"
#include "ops/data/read_ahead.h"
#include "ops/data/sharding.h"
#include "ops/graph/op.h"
#include "ops/graph/reading_kernel.h"
#include "ops/state/resources.h"

namespace leat {
namespace {

// The number of times that the calling thread has slept, as it does for bytes of a disk or a store.
int64_t sleeps_of_thread() {
  rusage usage{};
  return ::getrusage(RUSAGE_THREAD, &usage) == 0 ? usage.ru_nvcsw : 0;
}

// Reads rows of batch number `index` (input 0): the columns, then the weights. Its tiles are
// independent, and nothing that it keeps between steps changes a row.
class ReadBatchKernel final : public Kernel, public ReadingKernel {
 public:
  ReadBatchKernel(const KernelSetup& setup, const Dataset& dataset)
      : dataset_(dataset),
        subject_(setup.subject),
        global_batch_(attr_int(setup.attrs(), "global_batch")),
        rows_(attr_int(setup.attrs(), "rows")),
        first_row_(setup.node ? setup.node->first_row : 0),
        tile_rows_(setup.tile_rows > 0 ? setup.tile_rows
                                       : default_tile_rows(rows_, elements_of(dataset.info()))),
        seed_(static_cast<uint64_t>(attr_int(setup.attrs(), "seed"))),
        shuffle_(attr_int(setup.attrs(), "shuffle") != 0),
        wrap_(attr_int(setup.attrs(), "wrap") != 0),
        shares_order_(sharding_of(setup) == Sharding::data),
        shard_(first_row_ / rows_),
        shards_(global_batch_ / rows_),
        own_(dataset.info(), sharding_of(setup), shard_, shards_),
        end_(end_of_rows(attr_int(setup.attrs(), "limit"), dataset.info().count)),
        outputs_(setup.types.outputs.size()) {
    if (dataset_.reads_files()) dataset_.add_reader(rows_);
  }
  ~ReadBatchKernel() override {
    ahead_ = nullptr;
    if (dataset_.reads_files()) dataset_.remove_reader(rows_);
  }

  int64_t steps_ahead() const override {
    const ReadAhead* ahead = shown_ahead_.load(std::memory_order_acquire);
    return ahead ? ahead->depth() : 0;
  }

  int tiles(int) const override { return tile_count(rows_, tile_rows_); }

  Progress run(KernelContext& context, int, int tile) override {
    const int64_t index = *context.in<int64_t>(0);
    // The first position of the batch. The products are checked, because the index is a value of
    // the graph.
    const auto batch = checked_mul(index, global_batch_);
    if (index < 0 || !batch || !checked_add(*batch, global_batch_)) {
      context.step->fail(
          context.instruction,
          invalid_argument(cat(subject_, ": index: expected 0 to ", INT64_MAX / global_batch_ - 1,
                               ", received ", index)));
      return Progress::failed;
    }
    const int64_t begin = tile * tile_rows_, end = std::min(rows_, begin + tile_rows_);
    const Status read = dataset_.reads_files() ? read_files(context, index, begin, end)
                                               : write_rows(context, index, begin, end);
    if (read.ok()) return Progress::done;
    context.step->fail(context.instruction, read.while_doing(cat("reading for ", subject_)));
    return Progress::failed;
  }

 private:
  // Writes the rows from `begin` to `end`, and watches whether the thread had to wait for them.
  Status read_files(KernelContext& context, int64_t index, int64_t begin, int64_t end) {
    // The limits need all readers of the data set, which are made before the first step.
    std::call_once(made_ahead_, [&] { make_ahead(); });
    ahead_->begins(index);
    const int64_t sleeps = sleeps_of_thread();
    LEAT_RETURN_IF_ERROR(write_rows(context, index, begin, end));
    if (sleeps_of_thread() != sleeps) ahead_->waited();
    return {};
  }

  void make_ahead() {
    const ReadAhead::Limits limits{dataset_.most_steps_ahead(), rows_, dataset_.ahead().threads};
    ahead_ = std::make_unique<ReadAhead>(limits, [this](int64_t index, int64_t begin, int64_t end) {
      EpochOrder order = order_of_rows();
      for (int64_t row = begin; row < end; ++row) {
        const int64_t record = place_of(index, row, order).record;
        if (record >= 0) dataset_.advise(record, ReadAdvice::will_need);
      }
    });
    shown_ahead_.store(ahead_.get(), std::memory_order_release);
  }

  EpochOrder order_of_rows() const {
    return EpochOrder(own_.count(), shuffle_, seed_,
                      shares_order_ ? 0 : static_cast<uint32_t>(shard_) + 1);
  }
  struct RowPlace {
    int64_t key;     // RowKey::position
    int64_t record;  // -1: none
  };
  RowPlace place_of(int64_t index, int64_t row, EpochOrder& order) const {
    const int64_t position = index * global_batch_ + first_row_ + row;
    // A shard with an order of its own counts its own rows. The keys of all shards differ.
    const int64_t place = shares_order_ ? position : index * rows_ + row;
    const int64_t key = shares_order_ ? position : place * shards_ + shard_;
    const bool real = wrap_ || position < end_;
    return {key, real ? own_.row(order.record(place)) : -1};
  }

  Status write_rows(KernelContext& context, int64_t index, int64_t begin, int64_t end) const {
    EpochOrder order = order_of_rows();
    for (int64_t row = begin; row < end; ++row) {
      const RowPlace place = place_of(index, row, order);
      LEAT_RETURN_IF_ERROR(write_row(context, row, place.key, place.record));
      if (dataset_.ahead().drops_rows && place.record >= 0)
        dataset_.advise(place.record, ReadAdvice::done_with);
    }
    return {};
  }

  // The gate has checked the name.
  static Sharding sharding_of(const KernelSetup& setup) {
    return sharding_from_name(attr_string(setup.attrs(), "sharding")).value_or(Sharding::data);
  }
  static int64_t end_of_rows(int64_t limit, int64_t count) {
    return limit > 0 ? std::min(limit, count) : count;
  }
  // Elements of the longest row: it decides how many rows a tile has.
  static int64_t elements_of(const DatasetInfo& info) {
    int64_t most = 1;
    for (const ColumnInfo& column : info.columns) most = std::max(most, column.shape.elements());
    return most;
  }

  // A record of -1 means none: weight 0. The row gets the first record, because a model may compute
  // NaN from zeros, and NaN times weight 0 is still NaN.
  Status write_row(KernelContext& context, int64_t row, int64_t key_position,
                   int64_t record) const {
    const int64_t shown = std::max<int64_t>(0, record);
    const size_t columns = dataset_.info().columns.size();
    // The columns that are not in memory. A record is parsed once for all of them.
    std::array<std::byte*, kMostColumns> outs{};
    bool reads = false;
    for (size_t c = 0; c < columns; ++c) {
      const auto bytes = static_cast<size_t>(dataset_.info().columns[c].row_bytes());
      std::byte* out = row_of(context, c, row, bytes);
      if (!out) continue;
      if (const std::byte* memory = dataset_.in_memory(c, shown)) {
        std::memcpy(out, memory, bytes);
      } else {
        outs[c] = out;
        reads = true;
      }
    }
    const RowKey key{seed_, static_cast<uint64_t>(key_position)};
    if (reads) LEAT_RETURN_IF_ERROR(dataset_.read_row(shown, key, std::span(outs).first(columns)));
    const float weight = record >= 0 ? 1.0f : 0.0f;
    if (std::byte* out = row_of(context, columns, row, sizeof weight))
      std::memcpy(out, &weight, sizeof weight);
    return {};
  }
  // One row of an output; null if it is not wanted or has no bytes.
  std::byte* row_of(KernelContext& context, size_t output, int64_t row, size_t bytes) const {
    if (output >= outputs_ || !context.outputs[output] || bytes == 0) return nullptr;
    return static_cast<std::byte*>(context.outputs[output]) + static_cast<size_t>(row) * bytes;
  }

  const Dataset& dataset_;
  const std::string subject_;
  const int64_t global_batch_, rows_, first_row_, tile_rows_;
  const uint64_t seed_;
  const bool shuffle_, wrap_;
  const bool shares_order_;  // with the other shards
  const int64_t shard_, shards_;
  const ShardRows own_;
  const int64_t end_;     // without wrap: no row from this position on
  const size_t outputs_;  // the last ones may be absent
  std::once_flag made_ahead_;
  std::unique_ptr<ReadAhead> ahead_;  // once the first tile began, of rows in files
  std::atomic<const ReadAhead*> shown_ahead_{nullptr};
};

// The attributes gave inference the types of the columns. This compares them with the files.
Status expect_types(const KernelSetup& setup, const DatasetInfo& info) {
  LEAT_ASSIGN_OR_RETURN(const auto columns, reader_columns(setup.attrs()));
  for (size_t c = 0; c < columns.size(); ++c) {
    if (columns[c] == info.columns[c]) continue;
    return failed_precondition(
        cat(setup.subject, ": ", columns[c].name, ": expected ", column_type_text(columns[c]),
            " as the attributes say, the files hold ", column_type_text(info.columns[c])));
  }
  return {};
}

Result<std::unique_ptr<Kernel>> make_read_batch(const KernelSetup& setup) {
  if (!setup.resources) {
    return failed_precondition(cat(setup.subject, ": expected a job's resources, there are none"));
  }
  const Attrs& attrs = setup.attrs();
  const int64_t first_row = setup.node ? setup.node->first_row : 0, rows = attr_int(attrs, "rows");
  // The rows of this shard must be in the batch; each shard has its own first_row.
  if (first_row < 0 || first_row > attr_int(attrs, "global_batch") - rows) {
    return invalid_argument(cat(setup.subject, ": rows: expected to lie in the global batch of ",
                                attr_int(attrs, "global_batch"), ", received ", rows,
                                " rows from row ", first_row));
  }
  // All readers of a data set in these resources share it, so its files are read once.
  const auto dataset =
      Dataset::find_or_open(*setup.resources, reader_files(attrs, setup.resources->data_root()));
  if (!dataset.ok())
    return dataset.status().while_doing(cat("opening the data of ", setup.subject));
  LEAT_RETURN_IF_ERROR(expect_types(setup, (*dataset)->info()));
  const auto sharding = sharding_from_name(attr_string(attrs, "sharding"));
  if (sharding) {
    LEAT_RETURN_IF_ERROR(
        check_sharding((*dataset)->info(), *sharding, attr_int(attrs, "global_batch") / rows)
            .while_doing(cat("opening the data of ", setup.subject)));
  }
  return std::unique_ptr<Kernel>(std::make_unique<ReadBatchKernel>(setup, **dataset));
}

}  // namespace

void add_input_kernels(Catalogue& catalogue) {
  catalogue.add_kernel("leat.ReadBatch", "cpu", make_read_batch);
}

}  // namespace leat
