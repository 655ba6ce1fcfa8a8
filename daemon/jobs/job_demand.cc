#include "daemon/jobs/job_demand.h"

#include <algorithm>
#include <ctime>

#include "devices/base/counted.h"
#include "devices/base/text.h"

namespace leat {
namespace {

constexpr std::chrono::milliseconds kLeftOut{500}, kLongestLeftOut{60'000};
// A worker that was left out counts as new after this time.
constexpr std::chrono::minutes kForgotten{10};

// "2026-11-27 12:40 UTC"
std::string clock_time(int64_t unix_ms) {
  const std::time_t seconds = unix_ms / 1000;
  std::tm date{};
  ::gmtime_r(&seconds, &date);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &date);
  return text;
}

bool has_name(const std::vector<std::string>& workers, const std::string& worker) {
  return std::find(workers.begin(), workers.end(), worker) != workers.end();
}

}  // namespace

size_t JobDemand::wanted() const { return least() - std::min(least(), assembly_.kept()); }

size_t JobDemand::usable() const {
  const std::vector<std::string> unfit = this->unfit();
  // The kept workers of the job are usable workers of the cluster, but the job has them already.
  size_t own = 0;
  for (const WorkerRef& worker : assembly_.workers()) {
    const bool kept = assembly_.kept() > 0 && assembly_.has_place(worker);
    const bool fit = !has_name(unfit, worker.name);
    if (kept && fit && !context_.leases.is_draining(worker.name)) ++own;
  }
  return context_.leases.usable_but(unfit) - own;
}

size_t JobDemand::free_but(const std::vector<std::string>& names) const {
  std::vector<std::string> but = unfit();
  but.insert(but.end(), names.begin(), names.end());
  return context_.leases.free_but(but, job_.number, share());
}

std::vector<std::string> JobDemand::unfit() const {
  std::vector<std::string> names;
  if (!job_.dataset.empty()) names = context_.leases.without(job_.dataset);
  const auto add = [&](std::vector<std::string> more) {
    for (std::string& name : more) {
      if (!has_name(names, name)) names.push_back(std::move(name));
    }
  };
  if (job_.gpus > 0) add(context_.leases.with_fewer_gpus(job_.gpus));
  if (!share().is_whole()) add(context_.leases.without_share(share()));
  return names;
}

std::string JobDemand::wanted_text() const {
  std::vector<std::string> wants;
  if (!job_.dataset.empty()) wants.push_back(cat("data set '", job_.dataset, "'"));
  if (job_.gpus > 0) wants.push_back("a GPU");
  if (job_.terms.cpu > 0) wants.push_back(counted(static_cast<size_t>(job_.terms.cpu), "core"));
  if (job_.terms.memory > 0) wants.push_back(human_bytes(job_.terms.memory));
  return wants.empty() ? "" : cat(" with ", join(wants, " and "));
}

void JobDemand::leave_out(const std::string& worker, bool for_its_own) {
  // The first time costs nothing but the last place in the choice: `until` is now. From the second
  // time on there is a wait: 0.5 s, 1 s, 2 s, ... up to 60 s.
  const auto [at, first] = left_out_.try_emplace(worker);
  LeftOut& left = at->second;
  const bool again = !first && context_.now.steady < left.until + kForgotten;
  left.time = !again ? Clock::Steady::duration(0)
              : left.time == left.time.zero()
                  ? kLeftOut
                  : std::min<Clock::Steady::duration>(2 * left.time, kLongestLeftOut);
  left.until = context_.now.steady + left.time;
  left.for_its_own = for_its_own;
}

bool JobDemand::leaves_out_now() const {
  return std::any_of(left_out_.begin(), left_out_.end(),
                     [this](const auto& each) { return each.second.until > context_.now.steady; });
}

// If other workers keep the job in memory, they have what a new one lacks. Otherwise a worker is
// passed over only if its own input failed.
std::vector<std::string> JobDemand::left_out(bool some_kept, bool all) const {
  std::vector<std::string> names = unfit();
  for (const auto& [name, left] : left_out_) {
    if (!some_kept && !(all && left.for_its_own)) continue;
    // With `all` a worker counts as left out for ten minutes after its time.
    const auto until = all ? left.until + kForgotten : left.until;
    if (until > context_.now.steady) names.push_back(name);
  }
  return names;
}

std::string JobDemand::unusable_text() const {
  // A cluster has up to hundreds of workers; the text names four of each kind.
  constexpr size_t kNamed = 4;
  std::string text;
  const auto add = [&](std::vector<std::string> names, const char* of_one, const char* of_many) {
    if (names.empty()) return;
    const size_t more = names.size() - std::min(names.size(), kNamed);
    const char* does = names.size() == 1 ? of_one : of_many;
    names.resize(names.size() - more);
    text += cat("; '", join(names, "', '"), "'", more > 0 ? cat(" and ", more, " more") : "", does);
  };
  const std::vector<std::string> unfit = this->unfit();
  // A worker without the data set is not named again for its GPUs.
  std::vector<std::string> poor = unfit;
  if (job_.gpus > 0 && !job_.dataset.empty()) {
    std::vector<std::string> lacking = context_.leases.without(job_.dataset);
    std::erase_if(poor, [&](const std::string& name) { return has_name(lacking, name); });
    add(std::move(lacking), " lacks the data set", " lack the data set");
    add(std::move(poor), " has no GPU", " have no GPU");
  } else if (job_.gpus > 0) {
    add(std::move(poor), " has none", " have none");
  } else {
    add(std::move(poor), " lacks it", " lack it");
  }
  std::vector<std::string> drained = context_.leases.draining();
  // Each worker is named once, with the cause that lasts longer.
  std::erase_if(drained, [&](const std::string& name) { return has_name(unfit, name); });
  add(std::move(drained), " is drained", " are drained");
  return text;
}

std::string JobDemand::text(bool some_kept) const {
  const size_t kept = assembly_.kept(), wanted = this->wanted(), usable = this->usable();
  const auto unfit = this->unfit();
  std::string wants = "waits for " + counted(wanted, "worker");
  if (!unfit.empty() || wanted > usable) wants += wanted_text();
  if (kept > 0) wants += cat(" more, ", kept, kept == 1 ? " keeps" : " keep", " the job in memory");
  // First case: workers are missing, so only a new or a returning one helps.
  if (wanted > usable) {
    return cat(wants, kept > 0 ? "" : cat(", ", usable, " there"), unusable_text());
  }
  const auto left_out = this->left_out(some_kept);
  const size_t free = this->free();
  // Second case: enough are free, but some are left out for a while. left_out() begins with the
  // unfit ones, which are not named here.
  if (wanted > free_but(left_out) && wanted <= free) {
    const std::vector<std::string> names(left_out.begin() + static_cast<ptrdiff_t>(unfit.size()),
                                         left_out.end());
    return cat(wants, ", and leaves '", join(names, "', '"), "' out for now");
  }
  // Third case: the workers are there, but other jobs have them, or a job before this one waits.
  return cat(wants, ", ", free, " free", unusable_text(), queue_text());
}

std::string JobDemand::queue_text() const {
  const auto& head = context_.head;
  const auto position = [&](uint64_t number) {
    const auto found = context_.positions.find(number);
    return found == context_.positions.end() ? 0 : found->second;
  };
  if (head && head->number != job_.number && position(head->number) < position(job_.number))
    return cat("; '", head->id, "' is before it");
  // The jobs that have the workers that this one could use.
  constexpr size_t kNamed = 3;
  std::map<uint64_t, size_t> held;
  for (const std::string& name : fit()) {
    for (const uint64_t holder : context_.leases.jobs_of(name)) {
      if (holder != job_.number) ++held[holder];
    }
  }
  std::vector<std::string> texts;
  for (const auto& [number, count] : held) {
    const auto holder = context_.holders.find(number);
    if (holder == context_.holders.end() || texts.size() == kNamed) continue;
    const auto& [id, until_ms] = holder->second;
    texts.push_back(
        cat("'", id, "'",
            until_ms ? cat(", which runs until ", clock_time(*until_ms), " at most,") : "", " has ",
            count));
  }
  std::string text = texts.empty() ? "" : "; " + join(texts, ", ");
  if (held.size() > texts.size() && !texts.empty())
    text += cat(", ", counted(held.size() - texts.size(), "other job"), " the rest");
  if (head && head->number == job_.number && head->by_ms)
    text += cat("; it starts by ", clock_time(*head->by_ms));
  return text;
}

}  // namespace leat
