#include "tests/daemon/client/job_master.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "daemon/master/wire_client_service.h"
#include "daemon/spec/job.h"
#include "devices/base/text.h"
#include "tests/catch.h"
#include "transport/rpc/server.h"

namespace leat {
namespace {

constexpr auto kLongest = std::chrono::seconds(60);
constexpr int64_t kSubmitted = 1'700'000'000'000;

}  // namespace

FakeJobs::FakeJobs(std::string folder, Files& files)
    : folder_(std::move(folder)),
      blobs_(files, folder_ + "/blobs"),
      clock_([this] { keep_time(); }) {}

FakeJobs::~FakeJobs() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  clock_.join();
}

void FakeJobs::submit(Submission submission, Done<JobView> done) {
  JobOverrides overrides;
  overrides.set = submission.overrides;
  const auto job = parse_job(submission.text, "job.yaml", overrides);
  if (!job.ok()) return done(job.status());
  submission.name = job->name;
  submission.num_workers = static_cast<uint32_t>(job->num_workers);
  submission.min_workers = static_cast<uint32_t>(job->min_workers);
  const Status checked = check_submission(submission);
  if (!checked.ok()) return done(checked);
  std::unique_lock lock(mutex_);
  for (const Entry& entry : entries_) {
    if (entry.submission.request_id != submission.request_id) continue;
    ++repeats_;
    const JobView view = entry.view;
    lock.unlock();
    return done(view);
  }
  for (const AttachedFile& file : submission.files) {
    const auto there = blobs_.has(file.sha256, file.size);
    if (file.bytes || (there.ok() && *there)) continue;
    lock.unlock();
    return done(invalid_argument(cat("file '", file.name, "' was not uploaded")));
  }
  Entry& entry = entries_.emplace_back();
  entry.view.number = entries_.size();
  entry.view.id = make_job_id(submission.name, 0xa000 + entries_.size(), 4);
  entry.view.name = submission.name;
  entry.view.num_workers = submission.num_workers;
  entry.view.submitted_ms = entry.view.condition.since_ms = kSubmitted;
  entry.view.version = 1;
  entry.submission = std::move(submission);
  const JobView view = entry.view;
  changed_.notify_all();
  lock.unlock();
  done(view);
}

void FakeJobs::resume(std::string job, Submission submission, Done<JobView> done) {
  const auto from = this->job(job);
  if (!from.ok()) return done(from.status());
  submission.files.push_back(attach("resume/" + from->id, ""));
  submit(std::move(submission), std::move(done));
}

Result<std::unique_ptr<ArrivingBlob>> FakeJobs::begin_blob(const BlobUpload& upload) {
  return blobs_.begin(upload.sha256, upload.size);
}

void FakeJobs::cancel(std::string id, std::string by, Done<JobView> done) {
  std::unique_lock lock(mutex_);
  const auto found = find(id);
  Result<JobView> answer = found.ok() ? Result<JobView>((*found)->view) : found.status();
  if (found.ok() && has_ended((*found)->view.condition.state)) {
    answer = failed_precondition(
        cat("job '", id, "': it is ", name_of((*found)->view.condition.state), " already"));
  }
  lock.unlock();
  if (!answer.ok()) return done(answer.status());
  change(answer->id, [&](JobView& view) {
    view.condition.state = JobState::cancelling;
    view.condition.reason = "by " + by;
  });
  done(job(answer->id));
}

void FakeJobs::pause(std::string id, bool undo, std::string by, Done<JobView> done) {
  const auto view = job(id);
  if (!view.ok()) return done(view.status());
  if (has_ended(view->condition.state)) {
    return done(failed_precondition(
        cat("job '", view->id, "': it is ", name_of(view->condition.state), " already")));
  }
  change(view->id, [&](JobView& each) {
    each.condition.state = undo ? JobState::queued : JobState::pausing;
    each.condition.reason = cat(undo ? "resumed by " : "paused by ", by);
  });
  done(job(view->id));
}

void FakeJobs::save(std::string id, std::string, Done<JobView> done) { done(job(id)); }

void FakeJobs::remove(std::string id, std::string, Done<JobView> done) {
  const auto view = job(id);
  if (!view.ok()) return done(view.status());
  if (!has_ended(view->condition.state)) {
    return done(failed_precondition(cat("job '", view->id, "' is ", name_of(view->condition.state),
                                        ": expected one that has ended")));
  }
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(entries_, [&](const Entry& entry) { return entry.view.id == view->id; });
  }
  done(*view);
}

void FakeJobs::drain(std::string worker, bool draining, std::string, Done<NodeView> done) {
  if (worker != "w1") return done(failed_precondition(cat("there is no worker '", worker, "'")));
  NodeView node;
  node.worker.info.worker.name = worker;
  node.worker.state = draining ? WorkerState::draining : WorkerState::ready;
  node.job = "small-0001";
  {
    const std::lock_guard lock(mutex_);
    drained_ = draining ? worker : worker + " --undo";
  }
  done(std::move(node));
}

std::string FakeJobs::drained() const {
  const std::lock_guard lock(mutex_);
  return drained_;
}

void FakeJobs::watch(std::string id, uint64_t seen, std::chrono::steady_clock::time_point deadline,
                     Done<JobView> done) {
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back({std::move(id), seen, deadline, std::move(done), nullptr});
    changed_.notify_all();
  }
  answer_waiting();
}

void FakeJobs::logs(std::string id, uint64_t from, std::chrono::steady_clock::time_point deadline,
                    Done<LogPage> done) {
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back({std::move(id), from, deadline, nullptr, std::move(done)});
    changed_.notify_all();
  }
  answer_waiting();
}

Result<std::vector<JobFile>> FakeJobs::files(const std::string& id) {
  LEAT_ASSIGN_OR_RETURN(const JobView view, known(id));
  const std::string folder = folder_ + "/" + view.id;
  std::vector<JobFile> out;
  std::error_code none;
  for (const auto& each : std::filesystem::recursive_directory_iterator(folder, none)) {
    if (!each.is_regular_file()) continue;
    out.push_back({each.path().lexically_relative(folder).string(), each.file_size()});
  }
  std::sort(out.begin(), out.end(),
            [](const JobFile& a, const JobFile& b) { return a.name < b.name; });
  const std::lock_guard lock(mutex_);
  for (const std::string& name : listed_) out.push_back({name, 1});
  return out;
}

Result<std::string> FakeJobs::file_path(const std::string& id, const std::string& name,
                                        const std::string& /*by*/) {
  if (const std::lock_guard lock(mutex_); name == vanishing_) {
    const std::filesystem::path path = std::filesystem::path(folder_) / id / name;
    std::filesystem::remove_all(path.parent_path());
  }
  LEAT_ASSIGN_OR_RETURN(const std::vector<JobFile> all, files(id));
  LEAT_ASSIGN_OR_RETURN(const JobView view, known(id));
  if (const std::lock_guard lock(mutex_);
      std::find(listed_.begin(), listed_.end(), name) != listed_.end()) {
    return leave(view.id, "what it lies about", std::as_bytes(std::span("poison")));
  }
  for (const JobFile& file : all) {
    if (file.name == name) return folder_ + "/" + view.id + "/" + name;
  }
  return invalid_argument(cat("job '", view.id, "': there is no file '", name, "'"));
}

ClusterView FakeJobs::cluster() const {
  ClusterView view;
  view.name = "leat";
  view.id = "00112233445566778899aabbccddeeff";
  view.version = "0.1.0";
  view.generation = 3;
  view.membership = 5;
  view.started_ms = kSubmitted;
  view.now_ms = kSubmitted + 90'000;
  view.rpc_address = "127.0.0.1:17461";
  view.http_address = "127.0.0.1:17460";
  return view;
}

std::vector<JobView> FakeJobs::jobs() const {
  const std::lock_guard lock(mutex_);
  std::vector<JobView> out;
  for (const Entry& entry : entries_) out.push_back(told(entry.view));
  return out;
}

uint64_t FakeJobs::jobs_version() const {
  uint64_t version = 0;
  for (const JobView& job : jobs()) version = std::max(version, job.version);
  return version;
}

std::vector<JobView> FakeJobs::changed_jobs(uint64_t version) const {
  std::vector<JobView> changed = jobs();
  std::erase_if(changed, [&](const JobView& job) { return job.version <= version; });
  return changed;
}

Result<JobView> FakeJobs::job(std::string_view id) const {
  LEAT_ASSIGN_OR_RETURN(JobView view, known(id));
  const std::lock_guard lock(mutex_);
  return told(std::move(view));
}

Result<JobView> FakeJobs::known(std::string_view id) const {
  const std::lock_guard lock(mutex_);
  const auto found = find(id);
  if (!found.ok()) return found.status();
  return (*found)->view;
}

JobView FakeJobs::told(JobView view) const {
  if (lie_) lie_(view);
  return view;
}

std::vector<NodeView> FakeJobs::nodes() const {
  NodeView node;
  WorkerInfo& info = node.worker.info;
  info.worker = {"worker-1", 0x1234};
  info.address = "10.0.0.2:17463";
  info.devices = {{"cpu", "cpu:0", uint64_t{8} << 30, 4, "a processor"}};
  info.datasets = {"mnist"};
  info.version = "0.1.0";
  node.worker.since_ms = kSubmitted;
  node.worker.silent = std::chrono::milliseconds(120);
  node.job = "cnn-a001";
  NodeView lost;
  lost.worker.info.worker = {"worker-2", 0x5678};
  lost.worker.state = WorkerState::lost;
  lost.worker.reason = "no heartbeat for 3.0 s";
  lost.worker.since_ms = kSubmitted;
  lost.worker.silent = std::chrono::milliseconds(65'000);
  return {node, lost};
}

Result<LogPage> FakeJobs::log(std::string_view id, uint64_t from, size_t most) const {
  const std::lock_guard lock(mutex_);
  LEAT_ASSIGN_OR_RETURN(const Entry* entry, find(id));
  LogPage page = page_of(*entry, from);
  if (page.lines.size() > most) page.lines.resize(most);
  return page;
}

std::string FakeJobs::add(const std::string& name, JobState state) {
  const std::lock_guard lock(mutex_);
  Entry& entry = entries_.emplace_back();
  entry.view.number = entries_.size();
  entry.view.id = make_job_id(name, 0xa000 + entries_.size(), 4);
  entry.view.name = name;
  entry.view.submitted_ms = entry.view.condition.since_ms = kSubmitted;
  entry.view.condition.state = state;
  entry.view.version = 1;
  changed_.notify_all();
  return entry.view.id;
}

void FakeJobs::change(const std::string& id, const std::function<void(JobView&)>& change) {
  {
    const std::lock_guard lock(mutex_);
    for (Entry& entry : entries_) {
      if (entry.view.id != id) continue;
      change(entry.view);
      ++entry.view.version;
    }
  }
  answer_waiting();
}

void FakeJobs::say(const std::string& id, const std::string& worker, const std::string& text) {
  {
    const std::lock_guard lock(mutex_);
    for (Entry& entry : entries_) {
      if (entry.view.id == id) entry.lines.push_back({kSubmitted, worker, text});
    }
  }
  answer_waiting();
}

std::string FakeJobs::leave(const std::string& id, const std::string& name,
                            std::span<const std::byte> bytes) {
  const std::filesystem::path path = std::filesystem::path(folder_) / id / name;
  std::filesystem::create_directories(path.parent_path());
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()),
            static_cast<std::streamsize>(bytes.size()));
  return path.string();
}

std::string FakeJobs::await_job(size_t count) {
  std::unique_lock lock(mutex_);
  REQUIRE(changed_.wait_for(lock, kLongest, [&] { return entries_.size() >= count; }));
  return entries_[count - 1].view.id;
}

Submission FakeJobs::submission(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const auto found = find(id);
  REQUIRE(found.ok());
  return (*found)->submission;
}

size_t FakeJobs::blobs() const {
  const auto names = blobs_.names();
  REQUIRE(names.ok());
  return names->size();
}

int FakeJobs::repeats() const {
  const std::lock_guard lock(mutex_);
  return repeats_;
}

void FakeJobs::await_watcher() {
  std::unique_lock lock(mutex_);
  REQUIRE(changed_.wait_for(lock, kLongest, [&] { return !waiting_.empty(); }));
}

void FakeJobs::leave_waiting() {
  std::unique_lock lock(mutex_);
  const auto waiting = std::exchange(waiting_, {});
  lock.unlock();
  for (const Waiting& each : waiting) {
    if (each.job) each.job(cancelled("the master is stopping"));
  }
}

Result<const FakeJobs::Entry*> FakeJobs::find(std::string_view id) const {
  const Entry* found = nullptr;
  for (const Entry& entry : entries_) {
    if (entry.view.id == id) return &entry;
    if (!entry.view.id.starts_with(id)) continue;
    if (found != nullptr) return invalid_argument(cat("job '", id, "': there are several"));
    found = &entry;
  }
  if (found == nullptr) return failed_precondition(cat("there is no job '", id, "'"));
  return found;
}

LogPage FakeJobs::page_of(const Entry& entry, uint64_t from) const {
  LogPage page;
  page.end = entry.lines.size();
  page.first = std::min(from, page.end);
  page.first -= std::min(page.first, lines_back_);
  page.lines.assign(entry.lines.begin() + static_cast<ptrdiff_t>(page.first), entry.lines.end());
  page.complete = has_ended(entry.view.condition.state);
  return page;
}

void FakeJobs::answer_waiting() {
  std::vector<std::function<void()>> calls;
  {
    const std::lock_guard lock(mutex_);
    const auto now = std::chrono::steady_clock::now();
    std::erase_if(waiting_, [&](Waiting& each) {
      const auto found = find(each.id);
      const bool due = stopping_ || each.deadline <= now || !found.ok();
      if (each.job) {
        if (!due && (*found)->view.version <= each.from) return false;
        Result<JobView> view = found.ok() ? Result<JobView>(told((*found)->view)) : found.status();
        calls.push_back([done = each.job, view] { done(view); });
        return true;
      }
      if (!due) {
        const LogPage page = page_of(**found, each.from);
        if (page.lines.empty() && !page.complete) return false;
      }
      Result<LogPage> page =
          found.ok() ? Result<LogPage>(page_of(**found, each.from)) : found.status();
      calls.push_back([done = each.logs, page] { done(page); });
      return true;
    });
  }
  for (const auto& call : calls) call();
}

void FakeJobs::keep_time() {
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      // The end may have come while no one waited for it.
      if (stopping_) break;
      auto next = std::chrono::steady_clock::now() + kLongest;
      for (const Waiting& each : waiting_) next = std::min(next, each.deadline);
      changed_.wait_until(lock, next);
      if (stopping_) break;
    }
    answer_waiting();
  }
  answer_waiting();
}

struct JobMaster::Server {
  std::unique_ptr<RpcLoop> loop;
  std::unique_ptr<ClientService> service;
  std::unique_ptr<RpcServer> server;
};

JobMaster::JobMaster(JobMasterOptions options)
    : options_(std::move(options)), jobs_(directory_.path(), *options_.files) {
  start();
}

JobMaster::~JobMaster() { stop(); }

void JobMaster::start() {
  auto loop = RpcLoop::start();
  REQUIRE(loop.ok());
  server_ = std::make_unique<Server>();
  server_->loop = std::move(*loop);
  ClientLimits limits;
  limits.upload_silence = options_.upload_silence;
  auto service = ClientService::start(*server_->loop, jobs_, jobs_, real_files(), limits);
  REQUIRE(service.ok());
  server_->service = std::move(*service);
  RpcServerOptions options;
  options.address = address_;
  options.identity.role = RpcRole::master;
  options.identity.cluster = "leat";
  options.identity.secret = options_.secret;
  auto server = RpcServer::listen(*server_->loop, options,
                                  [service = server_->service.get()](
                                      const RpcPeer& peer) -> kj::Maybe<capnp::Capability::Client> {
                                    if (peer.role != RpcRole::client) return nullptr;
                                    return capnp::Capability::Client(service->serve(peer));
                                  });
  INFO(server.status());
  REQUIRE(server.ok());
  server_->server = std::move(*server);
  address_ = server_->server->address();
}

void JobMaster::stop() {
  if (server_ == nullptr) return;
  server_->server.reset();
  server_->service.reset();
  server_.reset();
}

}  // namespace leat
