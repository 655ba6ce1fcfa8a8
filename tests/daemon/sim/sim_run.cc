// The master's side of an assembly's runners. It makes them resume from the newest variables, lets
// them step from fence to fence, and writes checkpoints.
#include "tests/daemon/sim/sim_run.h"

#include <algorithm>

#include "devices/base/text.h"

namespace leat::sim {
namespace {

constexpr Ms kCall = 10'000;

Variables variables_of(const Weights& weights) {
  Variables out;
  out.emplace("chain", Tensor::scalar(static_cast<int64_t>(weights.chain)));
  out.emplace("samples", Tensor::scalar(static_cast<int64_t>(weights.samples)));
  return out;
}

Weights weights_of(const Variables& variables) {
  const auto number = [&](const char* name) {
    return static_cast<uint64_t>(*variables.at(name).data<int64_t>());
  };
  return {number("chain"), number("samples")};
}

}  // namespace

void SimMaster::perform(const RunJob& action) {
  const auto before = life_->runs.find(action.job);
  if (before != life_->runs.end() && !before->second->ended)
    world_.broken(action.job, " runs twice");
  const auto last = before == life_->runs.end() ? nullptr : before->second;
  const auto run = std::make_shared<Run>(*this, action);
  life_->runs[action.job] = run;
  // The run's thread begins once the last assembly's thread has released the folder.
  const auto wait = std::make_shared<Task>();
  *wait = [this, run, last, again = std::weak_ptr(wait)] {
    if (last == nullptr || !last->writing) return begin(run);
    world_.after(process, 5, [keep = again.lock()] { (*keep)(); });
  };
  world_.after(process, world_.between(0, 5), [wait] { (*wait)(); });
}

void SimMaster::perform(const YieldRun& action) {
  const auto found = life_->runs.find(action.job);
  if (found == life_->runs.end() || found->second->action.assembly != action.assembly ||
      found->second->ended)
    return world_.broken(action.job, " yields a run that is none");
  const auto run = found->second;
  world_.trace("run of ", action.job, " assembly ", action.assembly,
               " is to yield: ", action.reason);
  run->saves = run->saves || action.save;
  if (!std::exchange(run->yields, true) && run->steps && !run->at_fence) hold(run);
}

// Stops all runners at the end of the latest step that any of them has begun.
void SimMaster::hold(const std::shared_ptr<Run>& run) {
  run->limits.assign(run->runners.size(), 0);
  ask_all(
      run, "hold",
      [run](SimRunner& runner, const auto& reply) {
        run->limits[runner.task] = runner.hold();
        reply(Status());
      },
      [run] {
        if (run->at_fence) return;
        run->limit = *std::max_element(run->limits.begin(), run->limits.end());
        for (size_t task = 0; task < run->runners.size(); ++task) {
          run->ends[task]->send(
              [runner = run->runners[task], limit = run->limit] { runner->fence(limit); });
        }
      });
}

void SimMaster::yielded(Run& run, bool saved) {
  if (run.ended || std::exchange(run.told, true)) return;
  ++(saved ? saved_yields : yields);
  world_.trace("run of ", run.action.job, " yields at step ", run.limit);
  handle(RunYielded{run.action.job, run.action.assembly, run.limit, saved});
}

void SimMaster::perform(const EndRun& action) {
  const auto found = life_->runs.find(action.job);
  if (found == life_->runs.end() || found->second->action.assembly != action.assembly)
    return world_.broken(action.job, " ends a run that is none");
  const auto run = found->second;
  run->ended = true;
  // The run's thread notices it between two steps, and reports it.
  world_.after(process, world_.between(0, 300), [this, run] {
    if (!std::exchange(run->told, true))
      handle(JobBroke{run->action.job, run->action.assembly, cancelled("it was told to end")});
  });
}

void SimMaster::broke(Run& run, const Status& cause) {
  if (std::exchange(run.told, true)) return;
  world_.trace("run of ", run.action.job, " assembly ", run.action.assembly,
               " broke: ", cause.message());
  world_.after(process, 0, [this, job = run.action.job, assembly = run.action.assembly, cause] {
    handle(JobBroke{job, assembly, cause});
  });
}

void SimMaster::begin(const std::shared_ptr<Run>& run) {
  if (run->ended) return;
  const auto slots = life_->slots.find({run->action.job, run->action.assembly});
  for (uint64_t task = 0; task < run->action.workers.size(); ++task) {
    const Slot* slot = nullptr;
    if (slots != life_->slots.end() && slots->second.contains(task)) slot = &slots->second[task];
    if (slot == nullptr || slot->runner == nullptr || !slot->end->is_open())
      return broke(*run, unavailable(cat("the runner of task ", task, " is gone")));
    run->runners.push_back(slot->runner);
    run->ends.push_back(slot->end);
  }
  ask_held(run);
}

void SimMaster::ask_all(const std::shared_ptr<Run>& run, const char* what, Ask ask,
                        std::function<void()> then) {
  const auto left = std::make_shared<size_t>(run->runners.size());
  for (size_t task = 0; task < run->runners.size(); ++task) {
    SimRunner* runner = run->runners[task];
    run->ends[task]->send([this, run, runner, left, ask, then] {
      const auto reply = [this, run, back = runner->master, left, then](const Status& status) {
        back->send([this, run, left, then, status] {
          if (run->ended || run->told) return;
          if (!status.ok()) return broke(*run, status);
          if (--*left == 0) then();
        });
      };
      ask(*runner, reply);
    });
  }
  world_.after(process, kCall, [this, run, left, what] {
    if (*left > 0 && !run->ended)
      broke(*run, deadline_exceeded(cat(what, " was not answered in time")));
  });
}

// Variables that surviving runners hold in memory take precedence over those on disk.
void SimMaster::ask_held(const std::shared_ptr<Run>& run) {
  run->held.resize(run->runners.size());
  ask_all(
      run, "held",
      [this, run](SimRunner& runner, const auto& reply) {
        runner.release();
        const bool counts =
            runner.whole || (cluster_.mutation == Mutation::torn_weights_used && runner.turns > 0);
        run->held[runner.task] = {counts, runner.step};
        reply(Status());
      },
      [this, run] { choose(run); });
}

void SimMaster::choose(const std::shared_ptr<Run>& run) {
  size_t newest = 0;
  for (size_t i = 0; i < run->held.size(); ++i)
    if (run->held[i] > run->held[newest]) newest = i;
  const auto on_disk = resume(*run);
  if (!on_disk.ok()) return broke(*run, on_disk.status());
  if (run->held[newest].first && run->held[newest].second >= on_disk->first) {
    ++from_memory;
    SimRunner* from = run->runners[newest];
    run->ends[newest]->send([this, run, from] {
      from->master->send([this, run, step = from->step, weights = from->weights] {
        if (!run->ended) load(run, step, weights);
      });
    });
    return;
  }
  load(run, on_disk->first, on_disk->second);
}

Result<std::pair<uint64_t, Weights>> SimMaster::resume(Run& run) {
  Request& request = run.request;
  std::vector<std::string> passed_over;
  uint64_t step = 0;
  Weights weights;
  LEAT_ASSIGN_OR_RETURN(const auto paths, list_checkpoints(*disk_, folder(run.action.job)));
  if (!paths.empty()) {
    const auto from = run.checkpoints.resume(passed_over);
    for (const std::string& each : passed_over) world_.trace("passed over: ", each);
    refused += passed_over.size();
    if (!from.ok()) {
      world_.broken(run.action.job, ": no checkpoint can be read: ", from.status().message());
      return from.status();
    }
    step = static_cast<uint64_t>(from->manifest.step);
    weights = weights_of(from->variables);
    ++resumed;
  }
  for (const std::string& each : passed_over) {
    const bool known = std::any_of(request.damaged.begin(), request.damaged.end(),
                                   [&](const auto& name) { return each.find(name) < each.size(); });
    if (!known) world_.broken(run.action.job, ": no fault has damaged ", each);
  }
  if (step < request.committed && passed_over.empty())
    world_.broken(run.action.job, " goes on from step ", step, ", step ", request.committed,
                  " was said to be on disk");
  request.committed = step;
  if (cluster_.mutation == Mutation::resumed_behind && step > 0) ++step;
  return std::pair(step, weights);
}

void SimMaster::load(const std::shared_ptr<Run>& run, uint64_t step, const Weights& weights) {
  world_.trace(run->action.job, " assembly ", run->action.assembly, " goes on from step ", step);
  cluster_.check_weights(run->request, step, weights, "what the job goes on from");
  run->limit = step;
  ask_all(
      run, "writeVariables",
      [step, weights](SimRunner& runner, const auto& reply) {
        runner.write(weights, step);
        reply(Status());
      },
      [this, run] { connect(run); });
}

void SimMaster::connect(const std::shared_ptr<Run>& run) {
  SimRunner::Setup setup{run->number, run->action.assembly, run->limit, run->runners, {}};
  for (const SimRunner* runner : run->runners) setup.incarnations.push_back(runner->incarnation);
  ask_all(
      run, "connect",
      [setup](SimRunner& runner, const auto& reply) { runner.connect(setup, reply); },
      [this, run] { extend(run); });
}

void SimMaster::extend(const std::shared_ptr<Run>& run) {
  if (run->limit >= run->request.tiny.steps) return fence(run);  // only the last report is left
  if (run->yields) return fence(run);
  run->steps = true;
  const uint64_t next = run->checkpoints.next(static_cast<int64_t>(run->limit)).value();
  run->limit = std::min(run->request.tiny.steps, next);
  run->reached.clear();
  run->at_fence = false;
  for (size_t task = 0; task < run->runners.size(); ++task) {
    run->ends[task]->send(
        [runner = run->runners[task], limit = run->limit] { runner->extend(limit); });
  }
}

void SimMaster::reported(const std::string& job, uint64_t assembly, uint64_t task, uint64_t step) {
  const auto found = life_->runs.find(job);
  if (found == life_->runs.end()) return;
  const auto run = found->second;
  const bool checks = cluster_.mutation != Mutation::assembly_unchecked;
  if ((checks && run->action.assembly != assembly) || run->ended || run->told) return;
  run->reached[task] = std::max(run->reached[task], step);
  if (task == 0)
    handle(ProgressMade{job, assembly, {.step = step, .steps = run->request.tiny.steps}});
  const bool all = run->reached.size() == run->runners.size() &&
                   std::all_of(run->reached.begin(), run->reached.end(),
                               [&](const auto& each) { return each.second >= run->limit; });
  if (!all || std::exchange(run->at_fence, true)) return;
  fence(run);
}

void SimMaster::link_failed(const LinkFailed& event) { handle(event); }

void SimMaster::run_failed(const std::string& job, uint64_t assembly, const std::string& how) {
  const auto found = life_->runs.find(job);
  if (found == life_->runs.end() || found->second->action.assembly != assembly) return;
  if (!found->second->ended) broke(*found->second, unavailable(how));
}

// All runners stand after the same step. One of them sends its variables.
void SimMaster::fence(const std::shared_ptr<Run>& run) {
  SimRunner* first = run->runners[0];
  run->ends[0]->send([this, run, first] {
    first->master->send([this, run, step = first->step, weights = first->weights] {
      if (run->ended || run->told) return;
      if (step != run->limit) return world_.broken(run->action.job, " stands at another step");
      cluster_.check_weights(run->request, step, weights, "a checkpoint");
      if (run->yields && !run->saves && step < run->request.tiny.steps) return yielded(*run, false);
      checkpoint(run, weights);
    });
  });
}

// Writes one checkpoint at a time, while the following steps run.
void SimMaster::checkpoint(const std::shared_ptr<Run>& run, const Weights& weights) {
  if (run->writing) {
    return world_.after(process, 5, [this, run, weights] {
      if (!run->ended && !run->told) checkpoint(run, weights);
    });
  }
  const uint64_t step = run->limit;
  run->writing = {step, weights};
  world_.after(process, world_.between(5, 40) + health.slow, [this, run, step, weights] {
    const bool is_there = run->checkpoints.last_step() == static_cast<int64_t>(step);
    const Status written = is_there ? Status() : write_checkpoint(*run, step, weights);
    run->writing.reset();
    if (written.ok()) {
      ++checkpoints;
      run->request.committed = std::max(run->request.committed, step);
      run->request.damaged.erase(checkpoint_name(static_cast<int64_t>(step)));
      world_.trace(run->action.job, ": checkpoint of step ", step);
    } else {
      world_.trace(run->action.job, ": no checkpoint: ", written.message());
    }
    if (step < run->request.tiny.steps && step == run->limit && run->yields) {
      if (written.ok()) return yielded(*run, true);
      if (written.code() != Code::resource_exhausted) return broke(*run, written);
      return world_.after(process, 50, [this, run, weights] {  // the run waits for room
        if (!run->ended && !run->told) checkpoint(run, weights);
      });
    }
    if (step < run->request.tiny.steps || run->ended || std::exchange(run->told, true)) return;
    handle(JobFinished{run->action.job, run->action.assembly, result_of(weights)});
  });
  if (step < run->request.tiny.steps && !run->yields) extend(run);
}

Status SimMaster::write_checkpoint(Run& run, uint64_t step, const Weights& weights) {
  Manifest manifest;
  manifest.step = static_cast<int64_t>(step);
  manifest.job = run.action.job;
  manifest.graph = std::string(64, 'a');
  manifest.strategy = "mirrored";
  return run.checkpoints.write(std::move(manifest), variables_of(weights));
}

bool SimMaster::flip_bit(const std::string& job) {
  const auto paths = list_checkpoints(*files_, folder(job));
  std::set<std::string>& damaged = cluster_.request_of(job).damaged;
  if (!paths.ok() || paths->size() < 2 || !damaged.empty()) return false;
  for (const auto& [name, size] : files_->sizes()) {
    if (name.find(paths->front()) == std::string::npos || world_.chance(50)) continue;
    files_->flip(name, world_.pick(size), static_cast<int>(world_.pick(8)));
    world_.trace("a bit of ", name, " goes bad");
    damaged.insert(paths->front().substr(folder(job).size() + 1));
    return true;
  }
  return false;
}

}  // namespace leat::sim
