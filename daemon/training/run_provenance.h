// The origin that the checkpoints of a training tell.
#pragma once

#include <string>

#include "daemon/checkpoint/job_checkpoints.h"
#include "daemon/checkpoint/provenance.h"
#include "daemon/training/training_parts.h"

namespace leat {

// The provenance of the checkpoints that this training is about to write, without what their
// parents add to it. Notes in the run's folder that they belong to it. `checkpoints` knows already
// which checkpoint the training goes on from. Reads the file of first weights, if the job has one
// and begins; one that cannot be read any more has an empty hash. Blocks on the disk.
Result<Provenance> keep_provenance(const TrainingParts& parts, const JobCheckpoints& checkpoints,
                                   const std::string& job_sha256);

}  // namespace leat
