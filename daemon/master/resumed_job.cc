#include "daemon/master/resumed_job.h"

#include "daemon/checkpoint/checkpoint_store.h"

namespace leat {
namespace {

constexpr uint64_t kMaxMetrics = uint64_t{1} << 30;

}  // namespace

Result<bool> take_checkpoint(Files& files, const std::string& submitted,
                             const std::string& folder) {
  const std::string own = folder + "/checkpoints";
  LEAT_ASSIGN_OR_RETURN(const auto there, list_checkpoints(files, own));
  if (!there.empty()) return true;
  const std::string from = submitted + "/resume";
  LEAT_ASSIGN_OR_RETURN(const auto came, list_checkpoints(files, from + "/checkpoints"));
  if (came.empty()) return false;
  LEAT_ASSIGN_OR_RETURN(const Checkpoint checkpoint, read_checkpoint(files, came.front()));
  // Before the checkpoint, with which it is done.
  LEAT_ASSIGN_OR_RETURN(const bool has_metrics, files.exists(from + "/metrics.jsonl"));
  if (has_metrics) {
    LEAT_ASSIGN_OR_RETURN(const Bytes rows, read_file(files, from + "/metrics.jsonl", kMaxMetrics));
    LEAT_RETURN_IF_ERROR(write_file_atomically(files, folder + "/metrics.jsonl", rows));
  }
  LEAT_RETURN_IF_ERROR(write_checkpoint(files, own, checkpoint).status());
  return true;
}

}  // namespace leat
