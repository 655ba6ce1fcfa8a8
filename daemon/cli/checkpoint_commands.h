// The commands of `leat` that look at checkpoints: what each was asked for, and the function that
// does it, as in commands.h. A name is the folder of a run, of its checkpoints, or of one of them;
// or a job of the cluster.
#pragma once

#include <string>

#include "daemon/cli/cluster_commands.h"

namespace leat {

struct CheckpointLsCommand {
  ClusterOptions cluster;
  std::string name;
};
int run_checkpoint_ls(const CheckpointLsCommand& command);

struct CheckpointVerifyCommand {
  ClusterOptions cluster;
  std::string name;
};
// kExitInvalid if a byte of any is not what was written.
int run_checkpoint_verify(const CheckpointVerifyCommand& command);

struct CheckpointDiffCommand {
  ClusterOptions cluster;
  std::string first, second;  // the newest that is whole, of each
};
// kExitFailed if they differ.
int run_checkpoint_diff(const CheckpointDiffCommand& command);

struct CheckpointExportCommand {
  ClusterOptions cluster;
  std::string name;
  std::string output;  // .safetensors or .npz
  bool all = false;    // with the optimizer's state
};
int run_checkpoint_export(const CheckpointExportCommand& command);

}  // namespace leat
