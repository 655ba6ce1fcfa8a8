#include "daemon/cli/data_ledger.h"

#include <algorithm>
#include <iostream>
#include <span>
#include <vector>

#include "daemon/base/json_line.h"
#include "daemon/cli/row_memory.h"
#include "daemon/spec/job.h"
#include "daemon/training/train_specs.h"
#include "devices/base/counted.h"
#include "devices/base/sha256.h"
#include "devices/base/text.h"
#include "ops/data/dataset.h"
#include "ops/data/epoch_order.h"

namespace leat {
namespace {

// Adds the bytes of a row's columns, which a training reads with this key.
class ContentHash {
 public:
  explicit ContentHash(const Dataset& data) : data_(data), memory_(data.info()) {}
  Status add(int64_t row, const RowKey& key) {
    LEAT_RETURN_IF_ERROR(data_.read_row(row, key, memory_.outs));
    for (const Bytes& bytes : memory_.rows) hash_.update(bytes);
    return {};
  }
  std::string finish() { return to_hex(hash_.finish()); }

 private:
  const Dataset& data_;
  RowMemory memory_;
  Sha256 hash_;
};

std::string text_of_ledger(const EpochLedger& ledger, int64_t epoch) {
  std::string out = cat("epoch ", epoch, ": ", counted(ledger.rows, "row"));
  if (ledger.shards > 1) out += cat(" of ", ledger.shards, " shards");
  out += ledger.missing == 0 && ledger.repeated == 0
             ? std::string(ledger.shards > 1 ? ", each once in its shard\n" : ", each once\n")
             : cat(", ", ledger.missing, " missing, ", ledger.repeated, " repeated\n");
  out += cat("order   sha256 ", ledger.order, "\n");
  if (!ledger.content.empty()) out += cat("content sha256 ", ledger.content, "\n");
  return out;
}

std::string json_of_ledger(const EpochLedger& ledger, int64_t epoch) {
  JsonLine line;
  line.add("apiVersion", "leat/v1").add("kind", "EpochLedger").add("epoch", epoch);
  if (ledger.shards > 1) line.add("shards", ledger.shards);
  line.add("rows", ledger.rows).add("missing", ledger.missing).add("repeated", ledger.repeated);
  line.add("orderSha256", ledger.order);
  if (!ledger.content.empty()) line.add("contentSha256", ledger.content);
  return line.text();
}

}  // namespace

Result<EpochLedger> read_epoch_ledger(Files& files, const DatasetFiles& names,
                                      const TrainingOrder& order, int64_t epoch, bool reads_rows) {
  constexpr int64_t kMostRows = int64_t{1} << 33;
  LEAT_ASSIGN_OR_RETURN(const auto data, Dataset::open(files, names, /*large_array=*/0));
  const DatasetInfo& info = data->info();
  LEAT_RETURN_IF_ERROR(check_sharding(info, order.sharding, order.shards));
  const bool shared = order.sharding == Sharding::data;
  EpochLedger out;
  out.shards = shared ? 1 : order.shards;
  if (info.count > kMostRows / out.shards || epoch > INT64_MAX / (info.count * out.shards)) {
    return resource_exhausted(cat("expected at most ", kMostRows, " rows for a ledger, received ",
                                  info.count, " for each of ", out.shards));
  }
  ContentHash content(*data);
  Sha256 numbers;
  for (int64_t shard = 0; shard < out.shards; ++shard) {
    const ShardRows rows(info, order.sharding, shard, order.shards);
    EpochOrder places(rows.count(), order.shuffle, order.seed,
                      shared ? 0 : static_cast<uint32_t>(shard) + 1);
    std::vector<bool> seen(static_cast<size_t>(rows.count()), false);
    for (int64_t i = 0; i < rows.count(); ++i) {
      const int64_t position = (epoch - 1) * rows.count() + i;
      const int64_t place = places.record(position), row = rows.row(place);
      if (seen[static_cast<size_t>(place)]) ++out.repeated;
      seen[static_cast<size_t>(place)] = true;
      numbers.update(std::as_bytes(std::span(&row, 1)));
      const auto key = static_cast<uint64_t>(position * out.shards + shard);
      if (reads_rows) LEAT_RETURN_IF_ERROR(content.add(row, {order.seed, key}));
    }
    out.rows += rows.count();
    out.missing += std::count(seen.begin(), seen.end(), false);
  }
  out.order = to_hex(numbers.finish());
  if (reads_rows) out.content = content.finish();
  return out;
}

int run_data_ledger(const DataLedgerCommand& command) {
  if (report_missing("job file", command.job, command.color)) return kExitNoSuch;
  const auto job = load_job(command.job);
  if (!job.ok()) return report(job.status(), command.color);
  if (!job->has_data()) {
    return report(
        failed_precondition(cat("'", command.job, "': expected a job with data, received none")),
        command.color);
  }
  const auto ledger =
      read_epoch_ledger(real_files(), dataset_files(*job, job->data.train),
                        {job->data.shuffle, job->seed, job->data.sharding, job->shards},
                        command.epoch, !command.order_alone);
  if (!ledger.ok()) return report(ledger.status(), command.color);
  std::cout << (command.json ? json_of_ledger(*ledger, command.epoch)
                             : text_of_ledger(*ledger, command.epoch))
            << std::flush;
  return ledger->repeated == 0 ? kExitOk : kExitFailed;
}

}  // namespace leat
