// The options of one training, apart from its job.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "daemon/checkpoint/signing_key.h"
#include "daemon/hosts/local_hosts.h"
#include "devices/base/status.h"

namespace leat {

// Whether a training should end before its last step, so that another training continues from the
// memory of the hosts (kept), or from a checkpoint (saved).
enum class TrainYield : uint8_t { no, kept, saved };

struct TrainOptions {
  std::string folder;    // of the run; made if it is not there
  bool resume = false;   // continues from the folder's newest checkpoint
  int threads = 0;       // of each host; 0: the usable cores shared out evenly
  bool profile = false;  // times the kernels of the training steps
  // The time that the hosts may take after `stop` to reach a common step, where they write a last
  // checkpoint. After that time they are aborted, and the steps since the newest checkpoint are
  // lost. 0: no limit.
  std::chrono::milliseconds stop_grace{0};
  // Decides about a checkpoint that is due while another one is being written. True: it is left
  // out. False: the steps wait for the other one.
  bool skip_checkpoints = true;
  // The hosts may hold variables that an earlier attempt at this very job left. If these are as far
  // as the newest checkpoint, or farther, the training continues from them and does not read the
  // checkpoint. Without a checkpoint and without such hosts the training begins at step 0.
  bool survivors = false;
  // If no checkpoint of the folder is whole, and no host holds a step, the job begins again. It
  // ends with the same weights unless they depend on timing. Damaged checkpoints are set aside.
  // `first_checkpoint` puts the checkpoint that the job was submitted with into the folder, and
  // returns whether there was one.
  bool begin_anew = false;
  std::function<Result<bool>()> first_checkpoint = {};
  // Removes the files that the graph saved, when the job begins again; empty: the training removes
  // their folder.
  std::function<Status()> forget_saved = {};
  int workers = 0;  // the number of hosts that it trains on; 0: the job's num_workers
  // Makes the accelerators of each host, where Trainer::create() makes the hosts; empty: they have
  // none.
  MakeAccelerators accelerators = {};
  // Likewise: records steps of the training; may be null.
  std::shared_ptr<RecordedSteps> recorded = nullptr;
  // Called often, on the thread of Trainer::run(); may be empty. A yield after the last step has no
  // effect.
  std::function<TrainYield()> yields = {};
  // The number of checkpoints that were asked for so far, besides those that are due: when it
  // grows, one is written after the next step. Called often, on the thread of Trainer::run(); may
  // be empty.
  std::function<uint64_t()> checkpoints_asked = {};
  // A training that is to save its variables before it yields, but finds no room for a checkpoint,
  // trains on and tries again after this time.
  std::chrono::milliseconds save_again{10000};
  // The id that its checkpoints give the run (Provenance::run), and the key that signs them; both
  // may be empty, as in `leat train`.
  std::string run = {};
  std::shared_ptr<const SigningKey> key = nullptr;
  // False: no host writes its part of a checkpoint to the disk, since the files of the training
  // change the bytes on their way (daemon/checkpoint/sealed_files.h).
  bool hosts_write_parts = true;
  // Why no step of a job with audits is audited, for people; empty: nothing is in the way.
  std::string no_audit = {};
  // When a step has taken this long, the observer gets a warning that names the hosts that wait.
  // The training continues to wait.
  std::chrono::milliseconds slow_step{120000};
};

// The folder of the files that the graph saves (leat.Save).
inline std::string saved_folder(const TrainOptions& options) { return options.folder + "/saved"; }

}  // namespace leat
