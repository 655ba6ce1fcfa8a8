// Conversions of what a master and a runner tell each other about runs, for both sides of a
// connection. Includes Cap'n Proto: for .cc files.
//
// Messages come from a peer, so the readers check them: invalid_argument with the wrong value.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/hosts/host_handle.h"
#include "daemon/wire/cluster.capnp.h"
#include "daemon/wire/run_report.h"
#include "daemon/wire/run_setup.h"
#include "daemon/wire/run_standing.h"
#include "devices/base/status.h"
#include "ops/data/dataset.h"

namespace leat {

void write_optional(std::optional<uint64_t> number, wire::OptionalNumber::Builder out);
std::optional<uint64_t> read_optional(wire::OptionalNumber::Reader in);

void write_setup(const RunSetup& setup, wire::RunSetup::Builder out);
Result<RunSetup> read_setup(wire::RunSetup::Reader in);

// The steps that a runner holds of a job. The reader checks that rows ascend, and that they are not
// too many or too long.
void write_held(const Held& held, wire::Held::Builder out);
Result<Held> read_held(wire::Held::Reader in);

// A report of a run. The rows of what was read are copies.
void write_report(const RunReport& report, wire::RunReport::Builder out);
RunReport read_report(wire::RunReport::Reader in);

// The standing of a run. The other fields of the state are the caller's to write.
void write_standing(const RunStanding& standing, wire::RunState::Builder out);
Result<RunStanding> read_standing(wire::RunState::Reader in);

void write_dataset_files(const DatasetFiles& names, wire::DatasetFiles::Builder out);
DatasetFiles read_dataset_files(wire::DatasetFiles::Reader in);
void write_class_check(const ClassCheck& check, wire::ClassCheck::Builder out);
ClassCheck read_class_check(wire::ClassCheck::Reader in);
void write_dataset(const DatasetReport& report, wire::DatasetView::Builder out);
Result<DatasetReport> read_dataset(wire::DatasetView::Reader in);

}  // namespace leat
