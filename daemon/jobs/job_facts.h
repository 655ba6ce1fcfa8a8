// Every fact of a job that people and programs see, once. The messages of the control plane, the
// status endpoint's JSON, its metrics and the tables of `leat` are visitors of this list, so that a
// new fact is a field of its struct, a line here and a field of JobView in
// daemon/wire/cluster.capnp.
//
// A visitor has one member for each kind of fact:
//
//   count(fact, n)     an unsigned integer
//   known(fact, n)     the same, or a text; 0 or "" means that it is not known
//   integer(fact, n)   an integer, which may be negative
//   option(fact, n)    an unsigned integer that is left out where it is 0
//   text(fact, s)      a text, which may be empty
//   names(fact, list)  names of workers
//   flag(fact, b)      true or false
//   choice(fact, e)    an enumerant, by its name_of()
//   date(fact, ms)     milliseconds of Unix time
//   span(fact, ms)     how long something took; -1 means that it is not known
//   steps(fact, n)     steps of the job; -1 means that they are not known
//   number(fact, x)    a number that the training computed; see epoch_result.h
//   numbers(fact, list)  numbers by their names, which are left out where there are none
//   rate(fact, x)      a number that the master computed; NaN means that there is none
//   derived(fact, x)   an optional number that follows from the others
//   group(there, f)    facts that mean something only if `there`
//   record(key, f)     facts below a key of their own
//   list(key, all)     a list of records; only a job that is shown by itself has it
#pragma once

#include <string_view>
#include <vector>

#include "daemon/jobs/events.h"

namespace leat {

// How programs know a fact.
struct Fact {
  // In JSON. The message's field is the same in camelCase; dates and spans have "Ms" behind it
  // there, and spans "_seconds" in JSON.
  std::string_view key;
  std::string_view label = {};     // of its line in `leat show`; "": it has none of its own
  std::string_view metric = {};    // its name in /metrics; "": it is none
  std::string_view help = {};      // of the metric
  std::string_view old = {};       // the key of the version before, which JSON has as well
  bool shown = true;               // false: messages have it, JSON does not
  std::string_view by = "metric";  // of numbers: the label in /metrics that has their names
};

template <typename Visitor, typename Result>
void visit_epoch_result(Visitor& v, Result& epoch) {
  v.count({"epoch"}, epoch.epoch);
  v.count({"step"}, epoch.step);
  v.number({"loss"}, epoch.loss);
  v.number({"accuracy"}, epoch.accuracy);
  v.number({"val_loss"}, epoch.val_loss);
  v.number({"val_accuracy"}, epoch.val_accuracy);
  v.rate({"seconds"}, epoch.seconds);
  v.rate({"samples_per_second"}, epoch.samples_per_second);
  v.numbers({"metrics"}, epoch.more);
}

template <typename Visitor, typename Lost>
void visit_lost_assembly(Visitor& v, Lost& lost) {
  v.count({"number"}, lost.number);
  v.count({.key = "assembly", .old = "epoch"}, lost.assembly);
  v.text({"cause"}, lost.cause);
  v.known({"culprit"}, lost.culprit);
  v.known({"fault"}, lost.fault);
  v.date({"began"}, lost.began_ms);
  v.date({"failed"}, lost.failed_ms);
  v.span({"detection"}, lost.detected_after);
  v.span({"recovery"}, lost.recovered_after);
  v.steps({"stopped_at"}, lost.stopped_at);
  v.steps({"went_on_from"}, lost.went_on_from);
  v.choice({"source"}, lost.source);
  v.derived({"steps_recomputed"}, lost.recomputed());
}

template <typename Visitor, typename Progress>
void visit_progress(Visitor& v, Progress& progress) {
  auto& last = progress.last;
  v.count({"step", "", "leat_job_step", "Steps that the job has done"}, last.step);
  v.known({"steps", "", "leat_job_steps", "Steps that the job is to do, 0 if that is not known"},
          last.steps);
  v.count({"epoch", "", "leat_job_epoch", "Passes over the data that the job has done"},
          last.epoch);
  v.known({"epochs"}, last.epochs);
  v.number({"loss", "", "leat_job_loss", "Mean loss over the steps of the epoch so far"},
           last.loss);
  v.number(
      {"accuracy", "", "leat_job_accuracy", "Mean accuracy over the steps of the epoch so far"},
      last.accuracy);
  v.number({"val_loss", "", "leat_job_val_loss", "Loss of the last validation"}, last.val_loss);
  v.number({"val_accuracy", "", "leat_job_val_accuracy", "Accuracy of the last validation"},
           last.val_accuracy);
  v.numbers({"metrics", "", "leat_job_metric",
             "The job's other numbers, of the last epoch that has ended"},
            last.ended.more);
  v.numbers({.key = "input_wait_seconds",
             .metric = "leat_job_input_wait_seconds",
             .help = "Time for which the steps of each worker have waited for rows of the data",
             .by = "worker"},
            last.input_wait);
  v.numbers({.key = "read_ahead_steps",
             .metric = "leat_job_read_ahead_steps",
             .help = "Steps ahead for which each worker asks for rows of the data",
             .by = "worker"},
            last.steps_ahead);
  v.numbers({.key = "audits",
             .metric = "leat_job_audits",
             .help = "Audited steps of the job, pairs of a step and a shard, and differences",
             .by = "of"},
            last.audits);
  v.rate({"steps_per_second", "", "leat_job_steps_per_second",
          "Steps a second, over the last 20 seconds"},
         progress.steps_per_second);
  v.rate({"samples_per_second", "", "leat_job_samples_per_second",
          "Samples a second, over the last 20 seconds"},
         progress.samples_per_second);
  v.known({"samples_per_step"}, last.samples_per_step);
  v.rate({"eta_seconds", "", "leat_job_eta_seconds",
          "Time that the steps to come will take at that rate"},
         progress.eta_seconds);
  v.known({"validated_step"}, last.validated_step);
  v.known({"checkpoint_step"}, last.checkpoint_step);
  v.count({"steps_skipped"}, last.steps_skipped);
  v.count({"metrics_missing_rows"}, last.metrics_missing);
  v.known({"metrics_changed_until"}, last.metrics_changed_until);
  v.count({.key = "rows_per_epoch", .shown = false}, last.rows_per_epoch);
  v.count({.key = "rows_per_step", .shown = false}, last.rows_per_step);
  v.list("results", progress.epochs,
         [](auto& each, auto& epoch) { visit_epoch_result(each, epoch); });
}

template <typename Visitor, typename Condition>
void visit_result(Visitor& v, Condition& condition) {
  auto& result = condition.result;
  v.known({"weights_sha256"}, result.weights_sha256);
  v.group(result.shards > 0, [&] {
    v.count({"shards"}, result.shards);
    v.count({"seed"}, result.seed);
    v.text({"cpu"}, result.cpu);
    v.flag({"depends_on_timing"}, result.depends_on_timing);
    v.text({"precision"}, result.precision);
  });
}

template <typename Visitor, typename View>
void visit_job(Visitor& v, View& job) {
  auto& condition = job.condition;
  v.text({"id"}, job.id);
  v.count({"number"}, job.number);
  v.text({"name"}, job.name);
  v.choice({"state"}, condition.state);
  v.text({"reason"}, condition.reason);
  v.date({"since"}, condition.since_ms);
  v.date({"submitted"}, job.submitted_ms);
  v.span({"queued", "Time queued", "leat_job_queued_seconds",
          "Time until the first runners of the job were there"},
         job.times.queued);
  v.span({"running", "Time running", "leat_job_running_seconds",
          "Time that the job has spent with all of its runners"},
         job.times.running);
  v.span({"recovering", "Time recovering", "leat_job_recovering_seconds",
          "Time that the job has spent without all of its runners after a failure"},
         job.times.recovering);
  v.integer({"priority", "Priority"}, job.priority);
  v.known({"user", "User"}, job.user);
  v.option({"position", "Position", "leat_job_queue_position",
            "Position of the job in the queue, from 1; 0 if it does not wait there"},
           job.position);
  v.span({"max_run_time", "Longest run"}, job.max_run_time_ms);
  v.flag({"preemptible"}, job.preemptible);
  v.option({"cores", "Cores"}, job.cores);
  v.option({"memory_bytes"}, job.memory_bytes);
  v.count({"num_workers", "", "leat_job_workers", "Workers that the job asks for"},
          job.num_workers);
  v.option({"min_workers"}, job.min_workers);
  v.names({"workers"}, condition.workers);
  v.count({"restarts", "Recoveries", "leat_job_restarts_total", "Recoveries of the job so far"},
          condition.restarts);
  v.count({"assemblies", "Assemblies"}, condition.assembly);
  v.count({.key = "lost_assemblies", .old = "lost_epochs"}, job.history.count);
  v.record("progress", [&](auto& below) { visit_progress(below, job.progress); });
  visit_result(v, condition);
  v.count({"version"}, job.version);
  v.list("history", job.history.last,
         [](auto& each, auto& lost) { visit_lost_assembly(each, lost); });
}

}  // namespace leat
