// `leat data ledger`: which rows an epoch of a job has, in their order.
#pragma once

#include <cstdint>
#include <string>

#include "daemon/base/terminal.h"
#include "devices/base/files.h"
#include "devices/base/status.h"
#include "ops/data/dataset_files.h"
#include "ops/data/sharding.h"

namespace leat {

// Prints the number of rows, whether each is there once, and the hashes of their order and of their
// bytes. They depend on the data, `seed` and `data.shuffle` of the job, and not on its workers.
struct DataLedgerCommand {
  std::string job;           // the job file
  int64_t epoch = 1;         // from 1: a pass over the training data
  bool order_alone = false;  // read no rows
  bool json = false;
  ColorMode color = ColorMode::automatic;
};
int run_data_ledger(const DataLedgerCommand& command);

// The order in which a job reads its training data.
struct TrainingOrder {
  bool shuffle = true;
  uint64_t seed = 0;
  Sharding sharding = Sharding::data;
  int64_t shards = 1;
};

struct EpochLedger {
  int64_t shards = 1;                 // that have an order of their own: 1 if all share one
  int64_t rows = 0;                   // of all of these shards
  int64_t missing = 0, repeated = 0;  // rows that the epoch of a shard lacks, and has once more
  std::string order;                  // SHA-256 of the numbers of the rows, as int64 little-endian
  std::string content;                // of the bytes of all columns, row by row; empty: not read
};
// Goes over the rows of an epoch as the readers of a training do. Shards with an order of their own
// come one after the other, each with its own pass of that number. A bit of memory for each row of
// the data: resource_exhausted for more than 2^33 rows; the errors of check_sharding() and of
// reading.
Result<EpochLedger> read_epoch_ledger(Files& files, const DatasetFiles& names,
                                      const TrainingOrder& order, int64_t epoch, bool reads_rows);

}  // namespace leat
