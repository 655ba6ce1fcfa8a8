// The commands of `leat` for checkpoints: a struct with the arguments of each, and the function
// that runs it, as in commands.h. A name is the folder of a run, the folder of its checkpoints, or
// the folder of one checkpoint; or it is a job of the cluster.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "daemon/base/json_line.h"
#include "daemon/checkpoint/manifest.h"
#include "daemon/cli/cluster_commands.h"

namespace leat {

// The bytes of all parts.
uint64_t bytes_of(const Manifest& manifest);
// Adds the facts of a checkpoint that every list of them has.
JsonLine& add_checkpoint(JsonLine& line, const Manifest& manifest);

// Lists checkpoints. Prints a table, the newest first, from the manifests alone; with --json one
// object for each. A damaged manifest is an error on stderr and in the exit code, and the others
// are listed all the same.
struct CheckpointLsCommand {
  ClusterOptions cluster;
  std::string name;
};
int run_checkpoint_ls(const CheckpointLsCommand& command);

// Reads checkpoints and compares their bytes with their hashes. Also checks their origin: that each
// names the one before it with the right hash, that they are of this run, and by which key they are
// signed (daemon/checkpoint/origin_check.h); and prints by what each was made from what. Copies all
// files of a job's checkpoints to a temporary folder first.
struct CheckpointVerifyCommand {
  ClusterOptions cluster;
  std::string name;
  // The public key that has to have signed them, or a file with it; empty: the one that the run's
  // folder names, if it does.
  std::string key;
  bool gaps = false;  // checkpoints between two may be missing
};
// Returns kExitInvalid if any checkpoint is damaged, or is not what it should be.
int run_checkpoint_verify(const CheckpointVerifyCommand& command);

// Compares the variables of two checkpoints. Prints a line for each variable that differs; both
// checkpoints are read into memory.
struct CheckpointDiffCommand {
  ClusterOptions cluster;
  std::string first, second;  // of each, the newest checkpoint that verifies
};
// Returns kExitFailed if they differ.
int run_checkpoint_diff(const CheckpointDiffCommand& command);

// Writes the model of a checkpoint, or its variables, to a file for other programs. The newest
// checkpoint that verifies is written, as a whole or not at all.
struct CheckpointExportCommand {
  ClusterOptions cluster;
  std::string name;
  // The file; empty: one with the name of the job, or the id of the cluster's, in this folder.
  std::string output;
  // "onnx", "safetensors" or "npz"; empty: the extension of `output` decides.
  std::string format;
  bool all = false;              // include the optimizer's state
  std::optional<int64_t> opset;  // of an ONNX file; unset: that of the model's file
  // The run's folder, whose graph an ONNX file needs; empty: the one that has the checkpoint.
  std::string run;
  bool of_cluster = false;  // `name` is a job of the cluster, whatever folders are here
};
int run_checkpoint_export(const CheckpointExportCommand& command);

// Copies a run with its newest checkpoint that is whole to a folder here, from which `leat train
// --resume` and `leat submit --resume` go on. `from`: the folder of a run, or the copy of one in a
// store. Prints the folder and the step.
struct CheckpointCopyCommand {
  ClusterOptions cluster;
  std::string from, to;
};
int run_checkpoint_copy(const CheckpointCopyCommand& command);

// Has a job of the cluster write a checkpoint after its next step. With `wait` it returns when the
// checkpoint is on the master's disk, and prints its step. Exit code 6 if the job does not train.
struct CheckpointSaveCommand {
  ClusterOptions cluster;
  std::string id;
  bool wait = false;
  std::optional<std::chrono::milliseconds> timeout;
};
int run_checkpoint_save(const CheckpointSaveCommand& command);

}  // namespace leat
