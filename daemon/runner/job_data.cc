#include "daemon/runner/job_data.h"

#include "daemon/base/background.h"
#include "devices/base/failpoint.h"
#include "devices/base/text.h"
#include "ops/formats/safetensors.h"

namespace leat {
namespace {

// Shorter than the 60 s after which the caller stops waiting for the answer.
constexpr std::chrono::seconds kInspectDeadline{55};

}  // namespace

JobData::JobData(RunnerParts& parts, RunTable& runs, ControlThreads& control,
                 ControlThreads::Strand job_strand)
    : parts_(parts), runs_(runs), control_(control), job_strand_(std::move(job_strand)) {}

void JobData::read_variables(std::function<void(Result<Bytes>)> done) {
  job_strand_.post([this, done = std::move(done)] {
    // No kernel may write a variable while this thread reads it.
    if (const Status settled = runs_.settle(); !settled.ok()) return done(settled);
    auto variables = leat::read_variables(tables());
    if (!variables.ok()) return done(variables.status());
    SafeTensors file;
    file.tensors = std::move(*variables);
    done(format_safetensors(file));
  });
}

void JobData::write_variables(Bytes file, Restore what, std::optional<uint64_t> step, Done done) {
  // A std::function is copied, and the file may be large: the copies share it.
  const auto held = std::make_shared<const Bytes>(std::move(file));
  job_strand_.post([this, held, what, step, done = std::move(done)] {
    if (const Status settled = runs_.settle(); !settled.ok()) return done(settled);
    const auto read = parse_safetensors(*held, "variables");
    if (!read.ok()) return done(read.status());
    done(leat::write_variables(tables(), read->tensors, what, step));
  });
}

void JobData::held(std::function<void(Result<Held>)> done) {
  job_strand_.post([this, done = std::move(done)] {
    // The commits mean something only when no run can add another one.
    const auto left = runs_.runs();
    if (left.empty()) return done(held_by(tables()));
    done(failed_precondition(cat("run ", left[0]->part().run, ": expected it to be released")));
  });
}

void JobData::take_snapshot(int64_t step, std::vector<std::string> names, Done done) {
  job_strand_.post([this, step, names = std::move(names), done = std::move(done)] {
    if (const Status settled = runs_.settle(); !settled.ok()) return done(settled);
    done(snapshot_.take(tables(), step, names));
  });
}

Status JobData::take_snapshot_in_passing(const RunPart& run, int64_t step,
                                         std::vector<std::string> names) {
  LEAT_RETURN_IF_ERROR(LEAT_FAILPOINT("runner/snapshot_in_passing"));
  LEAT_ASSIGN_OR_RETURN(const auto found, runs_.find_live(run));
  // The run calls this between two steps, so nothing writes the variables meanwhile.
  const auto take = [this, step, names = std::move(names)] {
    const Status taken = snapshot_.take(tables(), step, names);
    if (!taken.ok()) parts_.log.warning("no snapshot after step ", step, ": ", taken.message());
  };
  return found->between_steps(static_cast<uint64_t>(step), take);
}

void JobData::read_snapshot(int64_t step, std::function<void(Result<Bytes>)> done) {
  background_.strand().post([this, step, done = std::move(done)] {
    // The thread keeps the low priority, which is why these calls have threads of their own.
    work_in_background();
    const auto values = snapshot_.read(step);
    if (!values.ok()) return done(values.status());
    Bytes bytes;
    // The part is put together in memory, because it leaves as one blob.
    const Status formatted = format_part(**values, step, [&](std::span<const std::byte> piece) {
      bytes.insert(bytes.end(), piece.begin(), piece.end());
      return Status();
    });
    if (!formatted.ok()) return done(formatted);
    done(std::move(bytes));
  });
}

void JobData::write_snapshot(int64_t step, PartPlace place,
                             std::function<void(Result<CheckpointPart>)> done) {
  background_.strand().post([this, step, place = std::move(place), done = std::move(done)] {
    work_in_background();
    const auto values = snapshot_.read(step);
    if (!values.ok()) return done(values.status());
    done(write_part_at(real_files(), place, **values, step));
  });
}

void JobData::inspect_dataset(DatasetFiles files, ClassCheck check,
                              std::function<void(Result<DatasetReport>)> done) {
  // On a strand of its own: the files may be slow, and no step waits for them.
  control_.strand().post(
      [this, files = std::move(files), check = std::move(check), done = std::move(done)] {
        // A format without files has no root.
        auto root = files.root.empty() ? Result<std::string>(parts_.config.directory)
                                       : find_dataset(parts_.config, files.root);
        if (!root.ok()) return done(root.status());
        DatasetFiles there = files;
        there.root = *root;
        const Deadline deadline = std::chrono::steady_clock::now() + kInspectDeadline;
        done(report_dataset(real_files(), there, check,
                            parts_.reading(deadline, runs_.assembly().number)));
      });
}

}  // namespace leat
