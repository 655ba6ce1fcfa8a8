#include "daemon/training/job_variables.h"

#include <algorithm>
#include <set>
#include <utility>

#include "daemon/metrics/metrics_extent.h"
#include "daemon/training/initial_weights.h"
#include "devices/base/text.h"

namespace leat {

// Sets the variables that hosts hold of an earlier attempt to zero, as new variables are.
Status JobVariables::clear() {
  for (HostHandle* host : parts_.hosts.hosts()) {
    LEAT_ASSIGN_OR_RETURN(Variables held, host->read_variables(parts_.job.name));
    if (held.empty()) continue;
    for (auto& [name, value] : held) value = Tensor(value.dtype(), value.shape());
    LEAT_RETURN_IF_ERROR(host->write_variables(parts_.job.name, held, Restore::everything, {}));
  }
  return {};
}

Status JobVariables::make(bool fill, int64_t step) {
  const Job& job = parts_.job;
  // Hosts that an earlier attempt used keep their variables. These must begin like new ones, so
  // that each attempt gives the same weights.
  if (parts_.options.survivors && fill && step == 0)
    LEAT_RETURN_IF_ERROR(clear().while_doing("clearing what workers held"));
  if (plans_.init() && (fill || !plans_.training_makes_variables())) {
    LEAT_ASSIGN_OR_RETURN(auto run,
                          parts_.hosts.run(plans_.init(), job.name, {"init", job.seed, 0}));
    // Without `fill` the registration alone makes the variables, and a checkpoint or another host
    // fills them.
    if (fill) {
      run->extend(1);
      LEAT_RETURN_IF_ERROR(
          run->wait(0, last_moment(), true).while_doing("initializing the variables"));
    }
  }
  if (job.model.weights.empty() || step > 0) return {};
  return load_weights().while_doing(cat("loading ", job.model.weights));
}

// Variables that the file lacks get the values that they have.
Status JobVariables::load_weights() {
  LEAT_ASSIGN_OR_RETURN(InitialWeights weights, read_initial_weights(parts_.files, parts_.job.model,
                                                                     parts_.input.model.training));
  if (!weights.missing.empty()) {
    LEAT_ASSIGN_OR_RETURN(Variables initial, read());
    for (const std::string& name : weights.missing) {
      if (const auto found = initial.find(name); found != initial.end())
        weights.values.insert(*found);
    }
  }
  notes_ = std::move(weights.notes);
  return write(weights.values, Restore::weights, {});
}

Status JobVariables::write(const Variables& values, Restore what, std::optional<uint64_t> step) {
  const std::set<std::string> held = plans_.held_by_any();
  bool first = true;
  for (HostHandle* host : parts_.hosts.hosts()) {
    const std::set<std::string>& names = plans_.held_by(*host);
    Variables own;
    for (const auto& [name, value] : values) {
      // The first host gets the values that no host holds, and refuses them.
      if (names.contains(name) || (first && !held.contains(name))) own.emplace(name, value);
    }
    first = false;
    if (what == Restore::some && own.empty()) continue;
    LEAT_RETURN_IF_ERROR(host->write_variables(parts_.job.name, own, what, step));
  }
  return {};
}

Result<Variables> JobVariables::read() { return gather(false); }
Result<Variables> JobVariables::lend() { return gather(true); }

Result<Variables> JobVariables::gather(bool lends) {
  Variables all;
  for (HostHandle* host : parts_.hosts.hosts()) {
    const std::set<std::string>& names = plans_.held_by(*host);
    // A replicated job is read from one host only.
    if (std::all_of(names.begin(), names.end(), [&](auto& name) { return all.contains(name); }))
      continue;
    LEAT_ASSIGN_OR_RETURN(auto here, lends ? host->lend_variables(parts_.job.name)
                                           : host->read_variables(parts_.job.name));
    all.merge(here);
  }
  return all;
}

// --- The memory of hosts.

// `there`: the names of the variables that some host holds at that step.
HeldStep JobVariables::held_at(int64_t step, const std::vector<Held>& held,
                               std::set<std::string>& there) const {
  const auto& hosts = parts_.hosts.hosts();
  HeldStep out{step, "", std::vector<bool>(hosts.size(), false), {}};
  for (size_t h = 0; h < hosts.size(); ++h) {
    const std::set<std::string>& names = plans_.held_by(*hosts[h]);
    out.holds[h] = held[h].whole && static_cast<int64_t>(held[h].step) == step;
    if (!out.holds[h] || names.empty()) continue;
    if (out.holder.empty()) out.holder = hosts[h]->name();
    there.insert(names.begin(), names.end());
    for (const Held::Row& row : held[h].rows)
      out.rows.emplace(static_cast<int64_t>(row.step), row.values);
  }
  return out;
}

// Every row of the metrics up to the step is in the log or in the memory of a host, or a return to
// the checkpoint of step `least` would not bring it back either.
Result<bool> JobVariables::has_metrics(const HeldStep& held, int64_t least) const {
  LEAT_ASSIGN_OR_RETURN(const MetricsExtent logged,
                        read_metrics_extent(parts_.files, parts_.metrics_path()));
  const TrainingLength& length = parts_.length;
  for (int64_t epoch = 1; length.end_of(epoch) < held.step; ++epoch) {
    // The log lost the end of an epoch. Only training it again evaluates it again.
    const int64_t end = length.end_of(epoch);
    if (end >= logged.last_step && end > least && !logged.epochs.contains({epoch, end}))
      return false;
  }
  // The same for the evaluations between epochs.
  const int64_t every = parts_.job.has_validation_rows() ? parts_.job.validation.every_steps : 0;
  const int64_t from = std::max<int64_t>({logged.last_step, least + 1, 1});
  for (int64_t step = every > 0 ? (from + every - 1) / every * every : held.step; step < held.step;
       step += every) {
    if (!logged.validations.contains(step)) return false;
  }
  int64_t known = held.step;
  while (known > logged.last_step && held.rows.contains(known - 1)) --known;
  return known <= std::max(logged.last_step, least);
}

Result<std::optional<HeldStep>> JobVariables::find_held(int64_t least) {
  const std::optional<HeldStep> none;
  if (!parts_.options.survivors || !parts_.rules.has_common_steps()) return none;
  const auto& hosts = parts_.hosts.hosts();
  std::vector<Held> held(hosts.size());
  std::set<int64_t> steps;
  for (size_t h = 0; h < hosts.size(); ++h) {
    auto answer = hosts[h]->held(parts_.job.name);  // a host that does not answer holds nothing
    if (answer.ok()) held[h] = std::move(*answer);
    if (held[h].whole) steps.insert(static_cast<int64_t>(held[h].step));
  }
  const std::set<std::string> all = plans_.held_by_any();
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    // Step 0 is no progress, and a step beyond the job's end belongs to a longer version of it.
    if (*step == 0 || *step < least || *step > parts_.length.steps) continue;
    std::set<std::string> there;
    HeldStep found = held_at(*step, held, there);
    // Some variable of that step is nowhere any more.
    if (there != all) continue;
    LEAT_ASSIGN_OR_RETURN(const bool has_all, has_metrics(found, least));
    if (has_all) return std::optional(std::move(found));
  }
  return none;
}

Status JobVariables::copy(const HeldStep& held) {
  const auto& hosts = parts_.hosts.hosts();
  const auto here = [&](size_t h) -> const std::set<std::string>& {
    return plans_.held_by(*hosts[h]);
  };
  const auto lacks = [&](size_t h) { return !held.holds[h] && !here(h).empty(); };
  // Only the values that some host lacks are read, each from one holder.
  std::set<std::string> wanted;
  for (size_t h = 0; h < hosts.size(); ++h) {
    if (lacks(h)) wanted.insert(here(h).begin(), here(h).end());
  }
  Variables values;
  for (size_t h = 0; h < hosts.size(); ++h) {
    const bool helps = std::any_of(here(h).begin(), here(h).end(), [&](const std::string& name) {
      return wanted.contains(name) && !values.contains(name);
    });
    if (!held.holds[h] || !helps) continue;
    LEAT_ASSIGN_OR_RETURN(auto read, hosts[h]->read_variables(parts_.job.name));
    values.merge(read);
  }
  for (size_t h = 0; h < hosts.size(); ++h) {
    if (!lacks(h)) continue;
    Variables own;
    for (const std::string& name : here(h)) {
      if (const auto found = values.find(name); found != values.end()) own.insert(*found);
    }
    LEAT_RETURN_IF_ERROR(hosts[h]->write_variables(parts_.job.name, own, Restore::everything,
                                                   static_cast<uint64_t>(held.step)));
  }
  return {};
}

}  // namespace leat
