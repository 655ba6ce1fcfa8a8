#include "daemon/master/visible_jobs.h"

#include <algorithm>
#include <set>

#include "devices/base/text.h"

namespace leat {
namespace {

// True for the characters of a job's id.
bool is_of_id(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; }

}  // namespace

std::optional<std::string> sees_only(const Grant& grant, bool own_jobs_alone) {
  if (!own_jobs_alone || includes(grant.right, Right::operate)) return std::nullopt;
  return grant.name;
}

// The messages are those of JobIndex::look_up(), so that no answer tells whether it looked at all
// jobs or at some.
Result<std::string> find_job_of(const std::vector<JobView>& jobs, std::string_view user,
                                std::string_view named) {
  std::vector<std::string> ids;
  for (const JobView& job : jobs) {
    if (job.user != user) continue;
    if (job.id == named) return job.id;
    if (job.id.starts_with(named) && !named.empty()) ids.push_back(job.id);
  }
  if (ids.size() == 1) return ids.front();
  if (ids.empty()) return failed_precondition(cat("there is no job '", named, "'"));
  const size_t count = ids.size();
  std::sort(ids.begin(), ids.end());
  if (ids.size() > 5) ids.resize(5), ids.push_back("...");
  return invalid_argument(
      cat("'", named, "' begins the ids of ", count, " jobs, expected one: ", join(ids, ", ")));
}

// The ids of the jobs that a client does not see, which texts about its own jobs may name.
class VisibleJobs::Others {
 public:
  Others(const std::vector<JobView>& jobs, const std::string& only) {
    for (const JobView& job : jobs) {
      if (job.user != only) ids_.insert(job.id);
    }
  }

  // Whether the text named one of them.
  bool hide(std::string& text) const {
    std::string shown;
    bool named = false;
    for (size_t at = 0; at < text.size();) {
      const auto begin = text.begin() + static_cast<ptrdiff_t>(at);
      const std::string word(begin, std::find_if_not(begin, text.end(), is_of_id));
      const bool other = ids_.contains(word);
      shown += other ? "another job" : word;
      named = named || other;
      at += word.size();
      if (at < text.size()) shown += text[at++];
    }
    text = std::move(shown);
    return named;
  }

 private:
  std::set<std::string> ids_;
};

Result<std::string> VisibleJobs::id_of(const std::string& named) const {
  return only_ ? find_job_of(status_.jobs(), *only_, named) : Result<std::string>(named);
}

std::vector<JobView> VisibleJobs::jobs() const {
  std::vector<JobView> jobs = status_.jobs();
  if (!only_) return jobs;
  const Others others(jobs, *only_);
  std::erase_if(jobs, [&](const JobView& job) { return job.user != *only_; });
  for (JobView& job : jobs) others.hide(job.condition.reason);
  return jobs;
}

std::vector<NodeView> VisibleJobs::nodes() const {
  std::vector<NodeView> nodes = status_.nodes();
  if (!only_) return nodes;
  const std::vector<JobView> jobs = status_.jobs();
  const Others others(jobs, *only_);
  std::set<std::string> own;
  for (const JobView& job : jobs) {
    if (job.user == *only_) own.insert(job.id);
  }
  for (NodeView& node : nodes) {
    std::erase_if(node.jobs, [&](const std::string& id) { return !own.contains(id); });
    node.job = node.jobs.empty() ? "" : node.jobs.front();
    others.hide(node.worker.reason);
  }
  return nodes;
}

JobView VisibleJobs::shown(JobView view) const {
  if (!only_) return view;
  const Others others(status_.jobs(), *only_);
  others.hide(view.condition.reason);
  for (LostAssembly& lost : view.history.last) others.hide(lost.cause);
  return view;
}

Diagnosis VisibleJobs::shown(Diagnosis diagnosis) const {
  if (!only_) return diagnosis;
  const Others others(status_.jobs(), *only_);
  others.hide(diagnosis.subject);
  others.hide(diagnosis.sentence);
  for (std::string& link : diagnosis.chain) others.hide(link);
  // A command about the job of another would do nothing.
  if (others.hide(diagnosis.advice)) diagnosis.advice.clear();
  return diagnosis;
}

LogPage VisibleJobs::shown(LogPage page) const {
  if (!only_) return page;
  const Others others(status_.jobs(), *only_);
  for (LogLine& line : page.lines) {
    if (line.worker == "master") others.hide(line.text);
  }
  return page;
}

}  // namespace leat
