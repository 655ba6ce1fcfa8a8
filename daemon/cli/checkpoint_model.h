// The model that a checkpoint belongs to, for commands that write it for other programs.
#pragma once

#include <string>
#include <string_view>

#include "daemon/checkpoint/manifest.h"
#include "daemon/cli/checkpoint_source.h"
#include "daemon/training/model.h"
#include "devices/base/status.h"

namespace leat {

// Reads the model from the folder `run`, or if that is "" from the run that the checkpoint belongs
// to. failed_precondition if that is not known; errors as of load_run_job() and load_model().
// `catalogue` must outlive the model.
Result<Model> model_of(CheckpointSource& source, const CheckpointSource::Found& found,
                       const Manifest& manifest, std::string run, const Catalogue& catalogue);

// True for the variables of the model. Those of the optimizer have a prefix of their own.
bool is_weight(std::string_view name);

}  // namespace leat
