#include "daemon/client/cluster_client.h"

#include <kj/async.h>

#include <algorithm>
#include <thread>

#include "daemon/client/attachments.h"
#include "daemon/jobs/grammar.h"
#include "daemon/jobs/records.h"
#include "daemon/wire/submission.h"
#include "daemon/wire/tokens.h"
#include "daemon/wire/views.h"
#include "devices/base/text.h"
#include "transport/rpc/call.h"
#include "transport/rpc/chunks.h"
#include "transport/rpc/client.h"

namespace leat {
namespace {

using std::chrono::milliseconds;
using Steady = std::chrono::steady_clock;

constexpr auto kSlice = milliseconds(50);  // the interval at which a wait calls stop()
constexpr auto kFirstPause = milliseconds(100);
constexpr auto kLongestPause = milliseconds(2'000);
constexpr auto kWriteDeadline = milliseconds(120'000);   // of a window of an upload
constexpr auto kFinishDeadline = milliseconds(130'000);  // of its end: the master syncs it
constexpr auto kSubmitDeadline = milliseconds(20'000);   // in addition to that of any call
constexpr auto kResumeDeadline = milliseconds(100'000);  // in addition, if a checkpoint is hashed
constexpr auto kRemoveDeadline = milliseconds(35'000);   // the master removes its files
constexpr auto kRecordDeadline = milliseconds(30'000);   // in addition to the time of the steps
constexpr uint64_t kMostRecording = uint64_t{4} << 30;   // bytes
constexpr auto kPauseDeadline = milliseconds(35'000);    // a resume waits for the end of a pause
constexpr auto kFetchDeadline = milliseconds(120'000);
constexpr uint64_t kWindow = 2u << 20;  // bytes of a file in flight at a time
constexpr int kMaxRetakes = 5;          // of an upload with progress, or of a fetch without

// The outcome of a call, on its way from the loop's thread to the one that waits. Both hold it,
// because the waiting thread may give up first.
template <typename O>
struct Wait {
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<O> outcome;

  void finish(O result) {
    const std::lock_guard lock(mutex);
    outcome.emplace(std::move(result));
    changed.notify_one();
  }
};

capnp::Data::Reader data_of(const Sha256Digest& digest) { return {digest.data(), digest.size()}; }

// The master would find another hash than the one that the submit names.
Status changed(const Attached& file) {
  return failed_precondition(
      cat("'", file.path, "': it changed while it was being uploaded; submit the job once more"));
}

// The view in an answer, or the error that the answer has instead.
template <typename View, typename Response>
Result<View> view_of(Response&& response) {
  const auto outcome = response.getOutcome();
  if (outcome.isError()) return read_status(outcome.getError());
  return read_view(outcome.getOk());
}

template <typename View, typename Response>
Result<std::vector<View>> views_of(Response&& response) {
  const auto outcome = response.getOutcome();
  if (outcome.isError()) return read_status(outcome.getError());
  return read_views<View>(outcome.getOk());
}

// Checks that the job is the one that `id` names, which may be a prefix.
template <typename Response>
Result<JobView> job_of(Response&& response, const std::string& id) {
  LEAT_ASSIGN_OR_RETURN(JobView view, view_of<JobView>(response));
  if (view.id.starts_with(id)) return view;
  return internal_error(cat("expected the job ", quoted_start(id), ", received '", view.id, "'"));
}

// Checks that a page begins at or after `from`, or at the end of the log if that is before `from`.
Result<LogPage> page_from(Result<LogPage> page, uint64_t from) {
  if (!page.ok() || page->first >= std::min(from, page->end)) return page;
  return internal_error(
      cat("a page of a log: expected lines from ", from, " on, received them from ", page->first));
}

// The error for a name that no job's file has: such a name could lead out of the folder of a fetch.
std::string expected_left_file(const std::string& name) {
  return cat("file of a job: expected a relative name without '.' or '..' parts that does not ",
             "begin with '.', received ", quoted_start(name));
}

Result<std::vector<RemoteFile>> files_of(capnp::List<wire::FileInfo>::Reader list) {
  std::vector<RemoteFile> files;
  for (const auto each : list) {
    const RemoteFile& file =
        files.emplace_back(RemoteFile{to_string(each.getName()), each.getSize()});
    if (!is_left_file(file.name)) return internal_error(expected_left_file(file.name));
  }
  return files;
}

// A file that is being uploaded. It belongs to the loop.
struct Sink final : LoopOwned {
  explicit Sink(wire::Upload::Client to) : to(kj::mv(to)) {}
  wire::Upload::Client to;
};

// A file that is being fetched. It belongs to the loop.
struct Content final : LoopOwned {
  explicit Content(wire::Download::Client from) : from(kj::mv(from)) {}
  wire::Download::Client from;
};
// A file of a job, as the master has described it. All reads of it are checked against this hash.
struct Opened {
  uint64_t size = 0;
  Sha256Digest sha256{};
  uint64_t id = 0;  // of the Content
};

// Reads the bytes [offset, offset + size), with parallel requests for chunks.
kj::Promise<Result<Bytes>> read_window(wire::Download::Client from, uint64_t offset,
                                       uint64_t size) {
  // Each request writes its part into the same buffer, so their answers may come in any order.
  const auto bytes = std::make_shared<Bytes>(size);
  auto reads = kj::Vector<kj::Promise<Status>>();
  for (uint64_t at = 0; at < size; at += kTransferBytes) {
    const uint64_t wanted = std::min<uint64_t>(kTransferBytes, size - at);
    auto request = from.readRequest();
    request.setOffset(offset + at);
    request.setSize(static_cast<uint32_t>(wanted));
    reads.add(request.send().then([bytes, at, wanted](auto&& response) -> Status {
      const auto outcome = response.getOutcome();
      LEAT_RETURN_IF_ERROR(status_of(outcome));
      if (outcome.getOk().size() != wanted) {
        return internal_error(
            cat("read: expected ", wanted, " bytes, received ", outcome.getOk().size()));
      }
      std::copy_n(reinterpret_cast<const std::byte*>(outcome.getOk().begin()), wanted,
                  bytes->begin() + static_cast<ptrdiff_t>(at));
      return {};
    }));
  }
  return kj::joinPromises(reads.releaseAsArray())
      .then([bytes](kj::Array<Status> statuses) -> Result<Bytes> {
        for (const Status& status : statuses) LEAT_RETURN_IF_ERROR(status);
        return std::move(*bytes);
      });
}

// A file that is being written, under a temporary name until it is complete.
class Arriving {
 public:
  static Result<std::unique_ptr<Arriving>> begin(Files& files, const std::string& path) {
    LEAT_RETURN_IF_ERROR(files.make_directories(directory_of(path)));
    // The name is random, so that two fetches of one file do not write into each other's. The one
    // of the file may be as long as the disk takes it.
    const std::string temporary =
        cat(directory_of(path), "/fetch-", new_request_id().substr(0, 8), ".tmp");
    LEAT_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, files.create(temporary));
    return std::unique_ptr<Arriving>(new Arriving(files, path, temporary, std::move(file)));
  }
  ~Arriving() {
    if (!done_) (void)files_.remove(temporary_);
  }

  Status append(std::span<const std::byte> bytes) {
    hash_.update(bytes);
    size_ += bytes.size();
    return file_->append(bytes);
  }
  uint64_t size() const { return size_; }

  Status finish(const Sha256Digest& expected) {
    const Sha256Digest got = hash_.finish();
    if (got != expected) {
      return internal_error(cat("fetching '", path_, "': expected the sha256 ", to_hex(expected),
                                ", received bytes with ", to_hex(got)));
    }
    // The bytes are on the disk before the name is, so that a crash leaves no file that is cut
    // short.
    LEAT_RETURN_IF_ERROR(file_->sync());
    LEAT_RETURN_IF_ERROR(file_->close());
    LEAT_RETURN_IF_ERROR(files_.rename(temporary_, path_));
    done_ = true;
    return files_.sync_directory(directory_of(path_));
  }

 private:
  Arriving(Files& files, std::string path, std::string temporary,
           std::unique_ptr<WritableFile> file)
      : files_(files),
        path_(std::move(path)),
        temporary_(std::move(temporary)),
        file_(std::move(file)) {}

  Files& files_;
  const std::string path_;
  const std::string temporary_;
  const std::unique_ptr<WritableFile> file_;
  Sha256 hash_;
  uint64_t size_ = 0;
  bool done_ = false;
};

}  // namespace

std::string new_request_id() { return to_hex(random_nonce()); }

class ClusterClient::Core {
 public:
  Core(ClusterClientOptions options, std::unique_ptr<RpcLoop> loop)
      : options_(std::move(options)), loop_(std::move(loop)) {}

  // Fails with `unavailable`; refused() tells whether the master refused the hello.
  Status connect() {
    RpcClientOptions options;
    options.address = options_.address;
    options.identity.role = RpcRole::client;
    options.identity.cluster = options_.cluster;
    options.identity.secret = options_.secret;
    options.identity.seal = options_.seal;
    if (options_.renew) options_.renew();
    options.identity.certificates = options_.certificates;
    options.deadline = options_.connect_deadline;
    // The connection is made on the loop, so that stop() can end the wait for it.
    const auto wait = std::make_shared<Wait<RpcClient::Connected>>();
    RpcClient::connect(*loop_, std::move(options), [wait](RpcClient::Connected connected) {
      wait->finish(std::move(connected));
    });
    auto connected = await(*wait, options_.connect_deadline + kSlice, "connecting");
    refused_ = connected.status().code() == Code::failed_precondition;
    if (connected.ok()) {
      client_ = std::move(connected).value();
      return {};
    }
    const Status status = connected.status();
    // Other errors, such as a name that does not resolve, all mean that the master cannot be
    // reached.
    const bool as_it_is = refused_ || status.code() == Code::cancelled;
    return as_it_is ? status : unavailable(status.message());
  }

  // Like connect(), but tries for `patience`.
  Status await_master() {
    return until_answered<bool>([](bool& answered) -> Result<bool> { return answered = true; })
        .status();
  }

  // Calls a method. `function` takes a Master::Client and returns a kj::Promise<Result<T>>. The
  // call is repeated until the master answers.
  template <typename T, typename F>
  Result<T> call(const char* method, milliseconds deadline, F function) {
    return until_answered<T>(
        [&](bool& answered) { return once<T>(method, deadline, function, answered); });
  }

  // Repeats `attempt` over a connection until the master answers, or until it fails with an error
  // that another attempt would not change. `cancelled` from a master that stops is not an answer:
  // the next master has it. If an upload has made progress, `patience` begins again.
  template <typename T, typename Attempt>
  Result<T> until_answered(Attempt attempt) {
    auto pause = kFirstPause;
    int retakes = 0;
    std::optional<Steady::time_point> give_up;
    for (;;) {
      Status lost = client_ == nullptr ? connect() : Status();
      if (lost.ok()) {
        bool answered = false;
        const uint64_t sent = sent_;
        Result<T> result = attempt(answered);
        // The answer counts, unless the master is about to stop. Without an answer, only an error
        // of the connection may pass.
        const bool leaves = answered && result.status().code() == Code::cancelled;
        if (!leaves && (answered || !may_pass(result.status()))) return result;
        lost = result.status();
        // A connection that has failed is never used again.
        client_.reset();
        if (sent_ > sent && ++retakes <= kMaxRetakes) give_up.reset();
      } else if (!may_pass(lost)) {
        return lost;
      }
      const auto now = Steady::now();
      if (!give_up) {
        give_up = now + options_.patience;
        if (options_.on_lost) options_.on_lost(lost);
      }
      // The last pause is left out, because no attempt would follow it.
      if (now + pause > *give_up) return unavailable(lost.message());
      LEAT_RETURN_IF_ERROR(sleep(pause));
      pause = std::min(2 * pause, kLongestPause);
    }
  }

  // Calls a method once, over the current connection. Sets `answered` if the master has answered.
  template <typename T, typename F>
  Result<T> once(const char* method, milliseconds deadline, F function, bool& answered) {
    // `answered` tells an error that the master has answered from one of the connection.
    struct Call : Wait<Result<T>> {
      std::atomic<bool> answered = false;
    };
    const auto call = std::make_shared<Call>();
    client_->start<wire::Master>(
        method, deadline,
        [call, function](wire::Master::Client master) {
          return function(kj::mv(master)).then([call](Result<T>&& result) {
            call->answered = true;
            return kj::mv(result);
          });
        },
        [call](Result<T> result) { call->finish(std::move(result)); });
    Result<T> result = await(*call, deadline + kSlice, method);
    answered = call->answered;
    return result;
  }

  void release(uint64_t content) {
    loop_->run([this, content] { loop_->context().release(content); });
  }

  // Uploads a file once; `answered` as for once(), but also true for errors on this side.
  Status upload(const Attached& file, const std::string& user, bool& answered) {
    LEAT_ASSIGN_OR_RETURN(const uint64_t sink, begin_upload(file, user, answered));
    Status status = send(file, sink, answered);
    if (status.ok()) {
      status = with_sink("Upload.finish", kFinishDeadline, sink, answered,
                         [](wire::Upload::Client to) { return finish_upload(kj::mv(to)); });
    }
    // An upload that has failed is dropped: the next attempt begins a new one.
    release(sink);
    return status;
  }

  Result<Opened> open(const std::string& id, const std::string& name) {
    return call<Opened>("Master.fetch", kFetchDeadline, [this, id, name](auto master) {
      auto request = master.fetchRequest();
      request.setId(id.c_str());
      request.setName(name.c_str());
      return request.send().then([this](auto&& response) -> Result<Opened> {
        const auto outcome = response.getOutcome();
        if (outcome.isError()) return read_status(outcome.getError());
        Opened opened;
        opened.size = outcome.getOk().getSize();
        LEAT_ASSIGN_OR_RETURN(opened.sha256, read_digest(outcome.getOk().getSha256()));
        opened.id = loop_->context().own(kj::heap<Content>(outcome.getOk().getContent()));
        return opened;
      });
    });
  }

  // Reads the next bytes of the file; `answered` as for once().
  Result<Bytes> read(const Opened& file, uint64_t offset, bool& answered) {
    // The file belongs to a connection, so this makes no new one: fetch() opens the file again.
    if (client_ == nullptr) return unavailable("the connection was lost");
    const uint64_t size = std::min(kWindow, file.size - offset);
    const auto look = [this, id = file.id, offset, size](auto) -> kj::Promise<Result<Bytes>> {
      const auto found = loop_->context().owned.find(id);
      auto& content = static_cast<Content&>(*found->second);
      return read_window(content.from, offset, size);
    };
    return once<Bytes>("Download.read", options_.deadline, look, answered);
  }

  void drop_connection() { client_.reset(); }
  bool stopped() const { return options_.stop && options_.stop(); }
  bool refused() const { return refused_; }
  const ClusterClientOptions& options() const { return options_; }

 private:
  // True for the errors of a master that is away or slow. All calls may be repeated after them.
  static bool may_pass(const Status& status) {
    return status.code() == Code::unavailable || status.code() == Code::deadline_exceeded;
  }

  // Begins an upload and returns the number of its Sink.
  Result<uint64_t> begin_upload(const Attached& attached, const std::string& user, bool& answered) {
    return once<uint64_t>(
        "Master.upload", options_.deadline,
        [this, sha256 = attached.file.sha256, size = attached.file.size,
         user](wire::Master::Client master) {
          auto request = master.uploadRequest();
          request.setSha256(data_of(sha256));
          request.setSize(size);
          request.setUser(user.c_str());
          return request.send().then([this](auto&& response) -> Result<uint64_t> {
            const auto outcome = response.getOutcome();
            if (outcome.isError()) return read_status(outcome.getError());
            return loop_->context().own(kj::heap<Sink>(outcome.getOk()));
          });
        },
        answered);
  }

  // Sends all bytes, one window at a time.
  Status send(const Attached& attached, uint64_t sink, bool& answered) {
    // From here on errors are those of the file, which another attempt would not change.
    // with_sink() sets the flag anew.
    answered = true;
    LEAT_ASSIGN_OR_RETURN(const auto from, attached.files->open(attached.path));
    if (from->size() != attached.file.size) return changed(attached);
    Sha256 hash;
    for (uint64_t offset = 0; offset < attached.file.size; offset += kWindow) {
      auto bytes = std::make_shared<Bytes>(std::min(kWindow, attached.file.size - offset));
      LEAT_RETURN_IF_ERROR(from->read(offset, *bytes));
      hash.update(*bytes);
      LEAT_RETURN_IF_ERROR(with_sink(
          "Upload.write", kWriteDeadline, sink, answered, [bytes, offset](wire::Upload::Client to) {
            return write_bytes(kj::mv(to), offset, bytes).then([] { return Status(); });
          }));
      ++sent_;
    }
    // The file was hashed before, so this finds a change between the two readings.
    return hash.finish() == attached.file.sha256 ? Status() : changed(attached);
  }

  // Calls a method of an upload. `function` takes the Upload::Client and returns a
  // kj::Promise<Status>.
  template <typename F>
  Status with_sink(const char* method, milliseconds deadline, uint64_t sink, bool& answered,
                   F function) {
    return once<bool>(
               method, deadline,
               [this, sink, function](wire::Master::Client) -> kj::Promise<Result<bool>> {
                 const auto found = loop_->context().owned.find(sink);
                 return function(static_cast<Sink&>(*found->second).to)
                     .then([](Status&& status) -> Result<bool> {
                       if (!status.ok()) return status;
                       return true;
                     });
               },
               answered)
        .status();
  }

  // Waits for the outcome of a call; `cancelled` if stop() returns true, deadline_exceeded after
  // `deadline`.
  template <typename O>
  O await(Wait<O>& wait, milliseconds deadline, const char* what) {
    const auto due = Steady::now() + deadline;
    std::unique_lock lock(wait.mutex);
    for (;;) {
      const auto slice = std::min(due, Steady::now() + kSlice);
      if (wait.changed.wait_until(lock, slice, [&] { return wait.outcome.has_value(); })) {
        return std::move(*wait.outcome);
      }
      // The call itself goes on until its deadline, but nothing waits for it any more.
      if (stopped()) return cancelled(cat(what, ": given up"));
      if (Steady::now() >= due) return no_answer(what, deadline);
    }
  }

  // Sleeps in slices, and ends with `cancelled` when stop() returns true.
  Status sleep(milliseconds time) {
    for (const auto due = Steady::now() + time; Steady::now() < due;) {
      if (stopped()) return cancelled("given up");
      std::this_thread::sleep_for(
          std::min<Steady::duration>(kSlice, std::max<Steady::duration>(due - Steady::now(), {})));
    }
    return {};
  }

  const ClusterClientOptions options_;
  const std::unique_ptr<RpcLoop> loop_;
  // Declared after the loop, and so destroyed before it: the connection lives on the loop.
  std::unique_ptr<RpcClient> client_;  // null: there is no connection
  uint64_t sent_ = 0;                  // windows of uploads
  bool refused_ = false;
};

ClusterClient::ClusterClient(std::unique_ptr<Core> core) : core_(std::move(core)) {}
ClusterClient::~ClusterClient() = default;
bool ClusterClient::refused() const { return core_->refused(); }

Result<std::unique_ptr<ClusterClient>> ClusterClient::connect(ClusterClientOptions options) {
  LEAT_ASSIGN_OR_RETURN(std::unique_ptr<RpcLoop> loop, RpcLoop::start());
  auto core = std::make_unique<Core>(std::move(options), std::move(loop));
  // The first connection is made here, so that a wrong address or secret is an error of this call.
  LEAT_RETURN_IF_ERROR(core->options().await_master ? core->await_master() : core->connect());
  return std::unique_ptr<ClusterClient>(new ClusterClient(std::move(core)));
}

// Each attempt uploads the files again, because a restarted master does not have them.
Result<JobView> ClusterClient::submit(const JobRequest& request) {
  LEAT_ASSIGN_OR_RETURN(std::vector<Attached> files,
                        look_at(request, [this] { return core_->stopped(); }));
  // The master writes the files of the message to its disk before it answers, so it has more time.
  milliseconds deadline = core_->options().deadline + kSubmitDeadline;
  if (!request.resume.empty()) deadline += kResumeDeadline;
  const auto submission = std::make_shared<Submission>();
  submission->request_id = request.request_id;
  submission->text = request.text;
  submission->overrides = request.overrides;
  submission->chaos = request.chaos;
  submission->terms.user = request.user;
  submission->terms.paused = request.paused;
  for (const Attached& attached : files) submission->files.push_back(attached.file);
  return core_->until_answered<JobView>([&](bool& answered) -> Result<JobView> {
    for (const Attached& attached : files) {
      if (attached.file.bytes) continue;
      const Status status = core_->upload(attached, submission->terms.user, answered);
      if (!status.ok()) return status.while_doing(cat("uploading '", attached.file.name, "'"));
    }
    const auto send = [submission, resume = request.resume](wire::Master::Client master) {
      auto request = master.submitRequest();
      write_submission(*submission, resume, request.initRequest());
      return request.send().then([](auto&& response) { return view_of<JobView>(response); });
    };
    return core_->once<JobView>("Master.submit", deadline, send, answered);
  });
}

Result<std::vector<JobView>> ClusterClient::jobs() {
  return core_->call<std::vector<JobView>>(
      "Master.jobs", core_->options().deadline, [](wire::Master::Client master) {
        return master.jobsRequest().send().then(
            [](auto&& response) { return views_of<JobView>(response); });
      });
}

Result<JobView> ClusterClient::job(const std::string& id) {
  return core_->call<JobView>(
      "Master.job", core_->options().deadline, [id](wire::Master::Client master) {
        auto request = master.jobRequest();
        request.setId(id.c_str());
        return request.send().then([id](auto&& response) { return job_of(response, id); });
      });
}

Result<JobView> ClusterClient::watch(const std::string& id, uint64_t seen, milliseconds wait) {
  return core_->call<JobView>(
      "Master.watch", core_->options().deadline + wait,
      [id, seen, wait](wire::Master::Client master) {
        auto request = master.watchRequest();
        request.setId(id.c_str());
        request.setSeen(seen);
        request.setWaitMs(static_cast<uint32_t>(wait.count()));
        return request.send().then([id](auto&& response) { return job_of(response, id); });
      });
}

Result<JobView> ClusterClient::cancel(const std::string& id) {
  return core_->call<JobView>(
      "Master.cancel", core_->options().deadline, [id](wire::Master::Client master) {
        auto request = master.cancelRequest();
        request.setId(id.c_str());
        return request.send().then([id](auto&& response) { return job_of(response, id); });
      });
}

Result<JobView> ClusterClient::pause(const std::string& id, bool undo) {
  return core_->call<JobView>(
      "Master.pause", kPauseDeadline, [id, undo](wire::Master::Client master) {
        auto request = master.pauseRequest();
        request.setId(id.c_str());
        request.setUndo(undo);
        return request.send().then([id](auto&& response) { return job_of(response, id); });
      });
}

Result<JobView> ClusterClient::save(const std::string& id) {
  return core_->call<JobView>(
      "Master.save", core_->options().deadline, [id](wire::Master::Client master) {
        auto request = master.saveRequest();
        request.setId(id.c_str());
        return request.send().then([id](auto&& response) { return job_of(response, id); });
      });
}

Result<Diagnosis> ClusterClient::why(const std::string& id) {
  return core_->call<Diagnosis>(
      "Master.why", core_->options().deadline, [id](wire::Master::Client master) {
        auto request = master.whyRequest();
        request.setId(id.c_str());
        return request.send().then([](auto&& response) -> Result<Diagnosis> {
          const auto outcome = response.getOutcome();
          if (outcome.isError()) return read_status(outcome.getError());
          return read_view(outcome.getOk());
        });
      });
}

Result<std::vector<std::byte>> ClusterClient::record(const std::string& id, uint32_t steps,
                                                     milliseconds wait) {
  return core_->call<Blob>(
      "Master.record", wait + kRecordDeadline, [id, steps, wait](wire::Master::Client master) {
        auto request = master.recordRequest();
        request.setId(id.c_str());
        request.setSteps(steps);
        request.setWaitMs(static_cast<uint32_t>(wait.count()));
        return request.send().then([](auto&& response) -> kj::Promise<Result<Blob>> {
          const auto outcome = response.getOutcome();
          if (outcome.isError()) return Result<Blob>(read_status(outcome.getError()));
          const auto blob = outcome.getOk();
          const auto digest = read_digest(blob.getSha256());
          if (!digest.ok()) return Result<Blob>(digest.status());
          return download(blob.getContent(), BlobInfo{blob.getSize(), *digest}, kMostRecording);
        });
      });
}

Result<JobView> ClusterClient::remove(const std::string& id) {
  return core_->call<JobView>("Master.remove", kRemoveDeadline, [id](wire::Master::Client master) {
    auto request = master.removeRequest();
    request.setId(id.c_str());
    return request.send().then([](auto&& response) { return view_of<JobView>(response); });
  });
}

Result<LogPage> ClusterClient::logs(const std::string& id, uint64_t from, milliseconds wait) {
  return core_->call<LogPage>("Master.logs", core_->options().deadline + wait,
                              [id, from, wait](wire::Master::Client master) {
                                auto request = master.logsRequest();
                                request.setId(id.c_str());
                                request.setFrom(from);
                                request.setWaitMs(static_cast<uint32_t>(wait.count()));
                                return request.send().then([from](auto&& response) {
                                  return page_from(view_of<LogPage>(response), from);
                                });
                              });
}

Result<uint64_t> ClusterClient::log_end(const std::string& id) {
  // A number that no line has: the answer to it names the end.
  LEAT_ASSIGN_OR_RETURN(const LogPage page, logs(id, uint64_t{1} << 62));
  return page.end;
}

Result<std::vector<RemoteFile>> ClusterClient::files(const std::string& id) {
  using List = std::vector<RemoteFile>;
  return core_->call<List>("Master.files", core_->options().deadline,
                           [id](wire::Master::Client master) {
                             auto request = master.filesRequest();
                             request.setId(id.c_str());
                             return request.send().then([](auto&& response) -> Result<List> {
                               const auto outcome = response.getOutcome();
                               if (outcome.isError()) return read_status(outcome.getError());
                               return files_of(outcome.getOk());
                             });
                           });
}

Result<std::string> ClusterClient::fetch(const std::string& id, const std::string& name,
                                         const std::string& directory, Files& files) {
  if (!is_left_file(name)) return invalid_argument(expected_left_file(name));
  const std::string path = directory + "/" + name;
  LEAT_ASSIGN_OR_RETURN(Opened file, core_->open(id, name));
  // The file may be opened several times, and all bytes must be of the same file.
  const Opened first = file;
  auto arriving = Arriving::begin(files, path);
  Status status = arriving.status();
  int retakes = 0;
  while (status.ok() && (*arriving)->size() < file.size) {
    bool answered = false;
    auto bytes = core_->read(file, (*arriving)->size(), answered);
    if (bytes.ok()) {
      retakes = 0;
      status = (*arriving)->append(*bytes);
      continue;
    }
    status = bytes.status();
    // An error that the master has answered ends the fetch, and so does `cancelled`, the caller's
    // wish.
    if (answered || status.code() == Code::cancelled || ++retakes > kMaxRetakes) break;
    core_->release(file.id);
    core_->drop_connection();
    auto again = core_->open(id, name);
    if (!again.ok()) return again.status();
    file = *again;
    status = file.sha256 == first.sha256 && file.size == first.size
                 ? Status()
                 : unavailable(cat("file '", name, "' changed while it was being fetched"));
  }
  core_->release(file.id);
  LEAT_RETURN_IF_ERROR(status);
  LEAT_RETURN_IF_ERROR((*arriving)->finish(first.sha256));
  return path;
}

Result<NodeView> ClusterClient::drain(const std::string& worker, bool undo) {
  return core_->call<NodeView>(
      "Master.drain", core_->options().deadline, [worker, undo](wire::Master::Client master) {
        auto request = master.drainRequest();
        request.setWorker(worker.c_str());
        request.setUndo(undo);
        return request.send().then([worker](auto&& response) -> Result<NodeView> {
          LEAT_ASSIGN_OR_RETURN(NodeView node, view_of<NodeView>(response));
          // A wrong answer is found here: people act on the name that they see.
          if (node.worker.info.worker.name == worker) return node;
          return internal_error(cat("expected the worker '", worker, "', received '",
                                    node.worker.info.worker.name, "'"));
        });
      });
}

Result<ClusterClient::NewToken> ClusterClient::create_token(const std::string& role,
                                                            const std::string& name,
                                                            std::chrono::seconds lasts) {
  return core_->call<NewToken>(
      "Master.createToken", core_->options().deadline,
      [role, name, lasts](wire::Master::Client master) {
        auto request = master.createTokenRequest();
        request.setRole(role.c_str());
        request.setName(name.c_str());
        request.setSeconds(static_cast<uint64_t>(lasts.count()));
        return request.send().then([](auto&& response) -> Result<NewToken> {
          const auto outcome = response.getOutcome();
          if (outcome.isError()) return read_status(outcome.getError());
          LEAT_ASSIGN_OR_RETURN(TokenView view, read_view(outcome.getOk().getView()));
          return NewToken{std::move(view), to_string(outcome.getOk().getText())};
        });
      });
}

Result<TokenView> ClusterClient::revoke_token(uint64_t number) {
  return core_->call<TokenView>(
      "Master.revokeToken", core_->options().deadline, [number](wire::Master::Client master) {
        auto request = master.revokeTokenRequest();
        request.setNumber(number);
        return request.send().then([](auto&& response) { return view_of<TokenView>(response); });
      });
}

Result<std::vector<TokenView>> ClusterClient::tokens() {
  return core_->call<std::vector<TokenView>>(
      "Master.tokens", core_->options().deadline, [](wire::Master::Client master) {
        return master.tokensRequest().send().then(
            [](auto&& response) { return views_of<TokenView>(response); });
      });
}

Result<std::vector<NodeView>> ClusterClient::nodes() {
  return core_->call<std::vector<NodeView>>(
      "Master.nodes", core_->options().deadline, [](wire::Master::Client master) {
        return master.nodesRequest().send().then(
            [](auto&& response) { return views_of<NodeView>(response); });
      });
}

Result<ClusterView> ClusterClient::cluster() {
  return core_->call<ClusterView>(
      "Master.cluster", core_->options().deadline, [](wire::Master::Client master) {
        return master.clusterRequest().send().then(
            [](auto&& response) { return view_of<ClusterView>(response); });
      });
}

}  // namespace leat
