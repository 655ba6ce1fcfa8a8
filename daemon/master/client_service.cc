#include <algorithm>
#include <system_error>

#include "daemon/base/task_thread.h"
#include "daemon/master/lent_calls.h"
#include "daemon/master/permits.h"
#include "daemon/master/session_hosts.h"
#include "daemon/master/visible_jobs.h"
#include "daemon/master/wire_client_service.h"
#include "daemon/master/wire_file_download.h"
#include "daemon/master/wire_file_upload.h"
#include "daemon/master/wire_replies.h"
#include "daemon/master/wire_session_service.h"
#include "daemon/wire/session_messages.h"
#include "daemon/wire/submission.h"
#include "daemon/wire/tokens.h"
#include "daemon/wire/views.h"
#include "devices/base/text.h"
#include "transport/rpc/call.h"
#include "transport/rpc/chunks.h"
#include "transport/rpc/service.h"

namespace leat {

struct ClientService::Shared {
  RpcLoop& loop;
  JobService& jobs;
  StatusSource& status;
  Files& files;
  const ClientLimits limits;
  SessionHosts* const sessions;  // may be null
  TaskThread disk{"client-disk"};
  std::shared_ptr<LentCalls> lent = std::make_shared<LentCalls>();  // to `jobs`
  // The loop's, as long as there are connections.
  std::shared_ptr<ByteBudget> uploads = std::make_shared<ByteBudget>(limits.uploads_bytes);
  Permits waits{limits.all_waits};
  Permits disk_calls{limits.all_disk_calls};
  Permits streams{limits.all_streams};
};

namespace {

constexpr size_t kMaxId = 256;                    // bytes of a job's id, or of a prefix
constexpr size_t kMaxUser = 64;                   // bytes of the name of a user
constexpr size_t kMaxJobs = 1'000;                // in a list
constexpr size_t kMaxTokens = 2'000;              // the same
constexpr size_t kReplyBytes = 768u << 10;        // of a list: a message has 1 MiB
constexpr size_t kLogBytes = 256u << 10;          // of a page of a log
constexpr size_t kLogLines = 4'096;               // the same
constexpr size_t kHashBytes = 4u << 20;           // hashed at a time, then others have a turn
constexpr auto kSlack = std::chrono::seconds(5);  // that an answer may come after its deadline
constexpr auto kRecord = std::chrono::milliseconds(60'000);
constexpr auto kAnswer = std::chrono::seconds(30);
constexpr auto kHash = std::chrono::seconds(120);
constexpr auto kResume = std::chrono::seconds(125);  // a checkpoint is hashed

// "submitter 'alice' at 127.0.0.1:40712": a token, or the kernel, proves the name. A member by its
// secret has only an address; one by its user is "user 'root' at process 4711 of uid 0".
std::string name_of_peer(const RpcPeer& peer) {
  if (peer.grant.right == Right::member) {
    return peer.grant.name.empty() ? peer.address
                                   : cat("user '", peer.grant.name, "' at ", peer.address);
  }
  return cat(right_name(peer.grant.right), " '", peer.grant.name, "' at ", peer.address);
}

// The state of a connection, which ends with its last capability. Work in the queue of the disk
// thread checks whether a caller still waits for it.
struct ClientConnection {
  ClientConnection(ClientService::Shared& shared, const RpcPeer& peer)
      : peer(name_of_peer(peer)),
        grant(peer.grant),
        visible(shared.status, sees_only(peer.grant, shared.limits.own_jobs_alone)),
        waits(shared.limits.waits, &shared.waits),
        disk_calls(shared.limits.disk_calls, &shared.disk_calls),
        streams(shared.limits.streams, &shared.streams) {}
  const std::string peer;
  const Grant grant;
  const VisibleJobs visible;
  Permits waits;
  Permits disk_calls;
  Permits streams;
};

// Returns the error of a call for which there is no permit.
Status too_many(std::string_view what) {
  return resource_exhausted(cat("too many ", what, " at a time; try again when some have ended"));
}

// Writes the view of a job into an outcome, as the client of the connection sees it.
auto write_job(std::shared_ptr<ClientConnection> connection) {
  return [connection = std::move(connection)](const JobView& view, auto outcome) {
    write_view(connection->visible.shown(view), outcome.initOk());
  };
}

// Reads the id, or the prefix of one, that a call names. An empty prefix would stand for any job.
Result<std::string> read_id(capnp::Text::Reader id) {
  if (id.size() > 0 && id.size() <= kMaxId) return to_string(id);
  return invalid_argument(cat("job's id: expected 1 to ", kMaxId, " bytes, received ", id.size()));
}

// Estimates the bytes that a view takes in a message; 512 stands for all that has a fixed size.
size_t size_of(const JobView& view) {
  size_t size = 512 + view.id.size() + view.name.size() + view.condition.reason.size();
  for (const std::string& worker : view.condition.workers) size += 24 + worker.size();
  return size;
}

// The newest that fit, in their order.
std::span<const JobView> newest(const std::vector<JobView>& jobs) {
  size_t count = 0, bytes = 0;
  while (count < std::min(jobs.size(), kMaxJobs)) {
    bytes += size_of(jobs[jobs.size() - count - 1]);
    if (bytes > kReplyBytes) break;
    ++count;
  }
  return std::span(jobs).last(count);
}

// At least one line, cut if need be, and at most kLogBytes.
void trim(LogPage& page) {
  size_t bytes = 0, count = 0;
  for (LogLine& line : page.lines) {
    // The first line always stays: a page without lines would say that there is none yet.
    if (line.text.size() > kLogBytes) line.text.resize(kLogBytes);
    bytes += line.text.size() + line.worker.size();
    if (count > 0 && (bytes > kLogBytes || count == kLogLines)) break;
    ++count;
  }
  page.lines.resize(count);
}

// Submits -----------------------------------------------------------------------------------------

// Adds the hashes of the files that came in the message.
void hash_files(Submission& submission) {
  for (AttachedFile& file : submission.files) {
    if (file.bytes) file = attach(std::move(file.name), *std::move(file.bytes));
  }
}

// Fetches -----------------------------------------------------------------------------------------

struct OpenFile {
  std::shared_ptr<const ReadableFile> file;
  Sha256Digest sha256{};
};
using OpenDone = std::function<void(Result<OpenFile>)>;

// Hashes a file piece by piece, each a turn of the disk thread.
class Hashing : public std::enable_shared_from_this<Hashing> {
 public:
  Hashing(std::shared_ptr<ClientService::Shared> shared, std::weak_ptr<ClientConnection> asked_by,
          std::shared_ptr<const ReadableFile> file, OpenDone done)
      : shared_(std::move(shared)),
        asked_by_(std::move(asked_by)),
        file_(std::move(file)),
        done_(std::move(done)) {}

  // Runs on the thread "client-disk". It reads one piece and posts itself for the next one, so that
  // the calls of other clients come in between.
  void go_on() {
    // A client that is gone gets no answer; `done_` is destroyed with this object.
    if (asked_by_.expired()) return;
    Bytes bytes(std::min<uint64_t>(kHashBytes, file_->size() - offset_));
    if (Status status = file_->read(offset_, bytes); !status.ok()) return done_(status);
    hash_.update(bytes);
    offset_ += bytes.size();
    if (offset_ == file_->size()) return done_(OpenFile{file_, hash_.finish()});
    (void)shared_->disk.post([self = shared_from_this()] { self->go_on(); });
  }

 private:
  const std::shared_ptr<ClientService::Shared> shared_;
  const std::weak_ptr<ClientConnection> asked_by_;
  const std::shared_ptr<const ReadableFile> file_;
  const OpenDone done_;
  Sha256 hash_;
  uint64_t offset_ = 0;
};

// The disk thread, for one connection. A value.
struct Disk {
  std::shared_ptr<ClientService::Shared> shared;
  std::shared_ptr<ClientConnection> connection;

  kj::Timer& timer() const { return shared->loop.context().timer; }

  // Has `work`, which is given a completion for an Outcome<T>, run there.
  template <typename T, typename Work>
  kj::Promise<Outcome<T>> run(std::string what, std::chrono::nanoseconds deadline,
                              Work work) const {
    // The permit goes into the task, so it counts as long as the task waits or runs.
    const auto permit = connection->disk_calls.take();
    if (permit == nullptr) return Outcome<T>(too_many("calls"));
    auto waiting = answered_elsewhere<T>(shared->loop, what);
    // A task that is not taken destroys `done`, which answers the call with `cancelled`.
    (void)shared->disk.post([work = std::move(work), done = std::move(waiting.done), permit,
                             asked_by = std::weak_ptr<ClientConnection>(connection)]() mutable {
      if (!asked_by.expired()) work(std::move(done));
    });
    return within(kj::mv(waiting.promise), timer(), deadline, std::move(what));
  }
};

// How a client reads an open file.
ReadOnDisk reads_on(const Disk& disk) {
  return [disk](std::shared_ptr<const ReadableFile> file, uint64_t offset, uint64_t size) {
    return disk.run<Bytes>("Download.read", kAnswer, [file, offset, size](auto done) {
      Bytes bytes(size);
      const Status status = file->read(offset, bytes);
      status.ok() ? done(std::move(bytes)) : done(status);
    });
  };
}

// The interface of one connection -----------------------------------------------------------------

class MasterServer final : public Service<wire::Master> {
 public:
  explicit MasterServer(Disk disk)
      : disk_(std::move(disk)), shared_(disk_.shared), connection_(disk_.connection) {}

 protected:
  kj::Promise<void> submit(SubmitContext context) override {
    if (const Status may = may_do(Right::submitter, "Master.submit"); !may.ok())
      return refuse(may, context);
    auto request = read_submission(context.getParams().getRequest(), shared_->limits.submit);
    if (!request.ok()) return refuse(request.status(), context);
    const std::string resume = to_string(context.getParams().getRequest().getResume());
    auto from = resume.empty() ? Result<std::string>("") : read_job(resume.c_str());
    if (!from.ok()) return refuse(from.status(), context);
    const auto submission = std::make_shared<Submission>(std::move(request).value());
    submission->by = connection_->peer;
    submission->sees_only = connection_->visible.only();
    take_name(submission->terms.user);
    auto view =
        disk_.run<JobView>("Master.submit", from->empty() ? kAnswer : kResume,
                           [submission, resume = *from, shared = shared_](auto done) {
                             hash_files(*submission);
                             auto lent = shared->lent->lend<JobView>(std::move(done));
                             if (resume.empty())
                               return shared->jobs.submit(std::move(*submission), std::move(lent));
                             shared->jobs.resume(resume, std::move(*submission), std::move(lent));
                           });
    return reply_job(kj::mv(view), context);
  }

  kj::Promise<void> upload(UploadContext context) override {
    if (const Status may = may_do(Right::submitter, "Master.upload"); !may.ok())
      return refuse(may, context);
    const auto params = context.getParams();
    const auto sha256 = read_digest(params.getSha256());
    if (!sha256.ok()) return refuse(sha256.status(), context);
    const auto permit = connection_->streams.take();
    if (permit == nullptr) return refuse(too_many("files on their way"), context);
    const ClientLimits& limits = shared_->limits;
    const BlobInfo info{params.getSize(), *sha256};
    if (info.size > limits.upload_bytes) {
      return refuse(
          resource_exhausted(cat("upload of ", human_bytes(info.size), ": expected at most ",
                                 human_bytes(limits.upload_bytes))),
          context);
    }
    BlobUpload blob{info.sha256, info.size, to_string(params.getUser()), connection_->peer};
    if (blob.user.size() > kMaxUser) {
      return refuse(invalid_argument(cat("Master.upload: user: expected at most ", kMaxUser,
                                         " bytes, received ", blob.user.size())),
                    context);
    }
    take_name(blob.user);
    // The file is begun on the disk's thread, with the first byte.
    auto begin = [shared = shared_, blob] { return shared->jobs.begin_blob(blob); };
    context.getResults().initOutcome().setOk(receive_file(
        {shared_->loop, shared_->disk, info, limits.upload_silence, std::move(begin), permit}));
    return kj::READY_NOW;
  }

  kj::Promise<void> jobs(JobsContext context) override {
    // The loop reads the tables itself, because they are in memory.
    const auto all = connection_->visible.jobs();
    const auto shown = newest(all);
    auto list = context.getResults().initOutcome().initOk(static_cast<uint32_t>(shown.size()));
    for (uint32_t i = 0; i < list.size(); ++i) write_view(shown[i], list[i]);
    return kj::READY_NOW;
  }

  kj::Promise<void> job(JobContext context) override {
    const auto id = read_job(context.getParams().getId());
    if (!id.ok()) return refuse(id.status(), context);
    return reply_job(shared_->status.job(*id), context);
  }

  kj::Promise<void> watch(WatchContext context) override {
    return waiting<JobView>(
        "Master.watch", context,
        [this, seen = context.getParams().getSeen()](std::string id, auto deadline, auto done) {
          shared_->jobs.watch(std::move(id), seen, deadline, std::move(done));
        },
        write_job(connection_));
  }

  kj::Promise<void> cancel(CancelContext context) override {
    const auto named = read_job(context.getParams().getId());
    if (!named.ok()) return refuse(named.status(), context);
    const auto id = may_change(*named, "Master.cancel");
    if (!id.ok()) return refuse(id.status(), context);
    auto elsewhere = answered_elsewhere<JobView>(shared_->loop, "Master.cancel");
    shared_->jobs.cancel(*id, connection_->peer, shared_->lent->lend<JobView>(elsewhere.done));
    return reply_job(within(kj::mv(elsewhere.promise), disk_.timer(), kAnswer, "Master.cancel"),
                     context);
  }

  kj::Promise<void> pause(PauseContext context) override {
    const auto named = read_job(context.getParams().getId());
    if (!named.ok()) return refuse(named.status(), context);
    const auto id = may_change(*named, "Master.pause");
    if (!id.ok()) return refuse(id.status(), context);
    auto elsewhere = answered_elsewhere<JobView>(shared_->loop, "Master.pause");
    shared_->jobs.pause(*id, context.getParams().getUndo(), connection_->peer,
                        shared_->lent->lend<JobView>(elsewhere.done));
    return reply_job(within(kj::mv(elsewhere.promise), disk_.timer(), kAnswer, "Master.pause"),
                     context);
  }

  kj::Promise<void> save(SaveContext context) override {
    const auto named = read_job(context.getParams().getId());
    if (!named.ok()) return refuse(named.status(), context);
    const auto id = may_change(*named, "Master.save");
    if (!id.ok()) return refuse(id.status(), context);
    auto elsewhere = answered_elsewhere<JobView>(shared_->loop, "Master.save");
    shared_->jobs.save(*id, connection_->peer, shared_->lent->lend<JobView>(elsewhere.done));
    return reply_job(within(kj::mv(elsewhere.promise), disk_.timer(), kAnswer, "Master.save"),
                     context);
  }

  kj::Promise<void> why(WhyContext context) override {
    const auto id = read_job(context.getParams().getId());
    if (!id.ok()) return refuse(id.status(), context);
    const auto permit = connection_->waits.take();
    if (permit == nullptr) return refuse(too_many("calls that wait"), context);
    auto elsewhere = answered_elsewhere<Diagnosis>(shared_->loop, "Master.why");
    shared_->jobs.why(*id, [done = shared_->lent->lend<Diagnosis>(elsewhere.done),
                            permit](Result<Diagnosis> result) { done(std::move(result)); });
    return reply(within(kj::mv(elsewhere.promise), disk_.timer(), kAnswer, "Master.why"), context,
                 [connection = connection_](const Diagnosis& view, auto outcome) {
                   write_view(connection->visible.shown(view), outcome.initOk());
                 });
  }

  kj::Promise<void> record(RecordContext context) override {
    const auto params = context.getParams();
    const auto named = read_job(params.getId());
    if (!named.ok()) return refuse(named.status(), context);
    const auto id = may_change(*named, "Master.record");
    if (!id.ok()) return refuse(id.status(), context);
    const auto permit = connection_->waits.take();
    if (permit == nullptr) return refuse(too_many("calls that wait"), context);
    const auto wait =
        std::min<std::chrono::milliseconds>(std::chrono::milliseconds(params.getWaitMs()), kRecord);
    using File = std::vector<std::byte>;
    auto elsewhere = answered_elsewhere<File>(shared_->loop, "Master.record");
    shared_->jobs.record(*id, params.getSteps(), std::chrono::steady_clock::now() + wait,
                         [done = shared_->lent->lend<File>(elsewhere.done),
                          permit](Result<File> result) { done(std::move(result)); });
    return reply(within(kj::mv(elsewhere.promise), disk_.timer(), wait + kAnswer, "Master.record"),
                 context, [](File& file, auto outcome) {
                   const auto blob = std::make_shared<const Blob>(std::move(file));
                   const BlobInfo info = describe(*blob);
                   auto out = outcome.initOk();
                   out.setSize(info.size);
                   out.setSha256({info.sha256.data(), info.sha256.size()});
                   out.setContent(offer_download(blob));
                 });
  }

  kj::Promise<void> remove(RemoveContext context) override {
    const auto named = read_job(context.getParams().getId());
    if (!named.ok()) return refuse(named.status(), context);
    const auto id = may_change(*named, "Master.remove");
    if (!id.ok()) return refuse(id.status(), context);
    auto elsewhere = answered_elsewhere<JobView>(shared_->loop, "Master.remove");
    shared_->jobs.remove(*id, connection_->peer, shared_->lent->lend<JobView>(elsewhere.done));
    return reply_job(within(kj::mv(elsewhere.promise), disk_.timer(), kAnswer, "Master.remove"),
                     context);
  }

  kj::Promise<void> drain(DrainContext context) override {
    if (const Status may = may_do(Right::operate, "Master.drain"); !may.ok())
      return refuse(may, context);
    const auto params = context.getParams();
    const auto worker = read_id(params.getWorker());
    if (!worker.ok()) return refuse(worker.status(), context);
    auto elsewhere = answered_elsewhere<NodeView>(shared_->loop, "Master.drain");
    shared_->jobs.drain(*worker, !params.getUndo(), connection_->peer,
                        shared_->lent->lend<NodeView>(elsewhere.done));
    return reply(within(kj::mv(elsewhere.promise), disk_.timer(), kAnswer, "Master.drain"), context,
                 [](const NodeView& view, auto outcome) { write_view(view, outcome.initOk()); });
  }

  kj::Promise<void> logs(LogsContext context) override {
    return waiting<LogPage>(
        "Master.logs", context,
        [this, from = context.getParams().getFrom()](std::string id, auto deadline, auto done) {
          shared_->jobs.logs(std::move(id), from, deadline, std::move(done));
        },
        [connection = connection_](LogPage& page, auto outcome) {
          LogPage shown = connection->visible.shown(std::move(page));
          trim(shown);
          write_view(shown, outcome.initOk());
        });
  }

  kj::Promise<void> files(FilesContext context) override {
    const auto id = read_job(context.getParams().getId());
    if (!id.ok()) return refuse(id.status(), context);
    using List = std::vector<JobFile>;
    auto list = disk_.run<List>("Master.files", kAnswer, [id = *id, shared = shared_](auto done) {
      done(shared->jobs.files(id));
    });
    return reply(kj::mv(list), context, [](const List& list, auto outcome) {
      auto out = outcome.initOk(static_cast<uint32_t>(list.size()));
      for (uint32_t i = 0; i < out.size(); ++i) {
        out[i].setName(list[i].name.c_str());
        out[i].setSize(list[i].size);
      }
    });
  }

  kj::Promise<void> fetch(FetchContext context) override {
    const auto id = read_job(context.getParams().getId());
    if (!id.ok()) return refuse(id.status(), context);
    const auto permit = connection_->streams.take();
    if (permit == nullptr) return refuse(too_many("files on their way"), context);
    auto opened = disk_.run<OpenFile>(
        "Master.fetch", kHash,
        [id = *id, name = to_string(context.getParams().getName()), shared = shared_,
         asked_by = std::weak_ptr<ClientConnection>(connection_),
         by = connection_->peer](OpenDone done) {
          auto path = shared->jobs.file_path(id, name, by);
          if (!path.ok()) return done(path.status());
          auto file = shared->files.open(*path);
          if (!file.ok()) {  // the job may have removed it since
            path = shared->jobs.file_path(id, name, by);
            return done(path.ok() ? file.status() : path.status());
          }
          std::make_shared<Hashing>(shared, asked_by, std::move(*file), std::move(done))->go_on();
        });
    return reply(kj::mv(opened), context, [this, permit](const OpenFile& opened, auto outcome) {
      // The permit goes to the download, and returns when the client drops that.
      auto file = outcome.initOk();
      file.setSize(opened.file->size());
      file.setSha256({opened.sha256.data(), opened.sha256.size()});
      file.setContent(offer_file(opened.file, reads_on(disk_), permit));
    });
  }

  kj::Promise<void> nodes(NodesContext context) override {
    const auto nodes = connection_->visible.nodes();
    auto list = context.getResults().initOutcome().initOk(static_cast<uint32_t>(nodes.size()));
    for (uint32_t i = 0; i < list.size(); ++i) write_view(nodes[i], list[i]);
    return kj::READY_NOW;
  }

  kj::Promise<void> cluster(ClusterContext context) override {
    write_view(shared_->status.cluster(), context.getResults().initOutcome().initOk());
    return kj::READY_NOW;
  }

  kj::Promise<void> openSession(OpenSessionContext context) override {
    if (const Status may = may_do(Right::submitter, "Master.openSession"); !may.ok())
      return refuse(may, context);
    SessionHosts* const sessions = shared_->sessions;
    if (sessions == nullptr) return refuse(unimplemented("there are no sessions here"), context);
    auto request = read_opening(context.getParams().getRequest());
    if (!request.ok()) return refuse(request.status(), context);
    take_name(request->user);
    request->by = connection_->peer;
    // The journal must have the session's job before the client gets its capability.
    using Host = std::shared_ptr<SessionHost>;
    auto opened = answered_elsewhere<Host>(shared_->loop, "Master.openSession");
    sessions->open(*request, shared_->lent->lend<Host>(opened.done));
    return reply(within(kj::mv(opened.promise), disk_.timer(), kAnswer, "Master.openSession"),
                 context,
                 [shared = shared_, client = request->request_id](const Host& host, auto outcome) {
                   auto opened = outcome.initOk();
                   opened.setJob(host->job().c_str());
                   opened.setSession(make_session_server(shared->loop, *shared->sessions, host,
                                                         client, shared->uploads));
                 });
  }

  kj::Promise<void> attachSession(AttachSessionContext context) override {
    const auto named = read_job(context.getParams().getJob());
    if (!named.ok()) return refuse(named.status(), context);
    const auto id = may_change(*named, "Master.attachSession");
    if (!id.ok()) return refuse(id.status(), context);
    if (shared_->sessions == nullptr)
      return refuse(unimplemented("there are no sessions here"), context);
    const std::string client = to_string(context.getParams().getClient());
    if (client.empty() || client.size() > 64) {
      return refuse(invalid_argument(cat("Master.attachSession: client: expected 1 to 64 bytes, "
                                         "received ",
                                         client.size())),
                    context);
    }
    const Status audited = shared_->jobs.attaches(*id, connection_->peer);
    if (!audited.ok()) return refuse(audited, context);
    const auto host = shared_->sessions->attach(*id, client);
    if (!host.ok()) return refuse(host.status(), context);
    auto opened = context.getResults().initOutcome().initOk();
    opened.setJob((*host)->job().c_str());
    opened.setSession(
        make_session_server(shared_->loop, *shared_->sessions, *host, client, shared_->uploads));
    return kj::READY_NOW;
  }

  kj::Promise<void> createToken(CreateTokenContext context) override {
    if (const Status may = may_do(Right::admin, "Master.createToken"); !may.ok())
      return refuse(may, context);
    const auto params = context.getParams();
    const auto right = right_named(to_string(params.getRole()));
    if (!right.ok()) return refuse(right.status(), context);
    Grant wanted;
    wanted.right = *right;
    wanted.name = to_string(params.getName());
    auto made = disk_.run<TokenGiven>("Master.createToken", kAnswer,
                                      [wanted, seconds = params.getSeconds(),
                                       by = connection_->peer, shared = shared_](auto done) {
                                        shared->jobs.create_token(
                                            wanted, seconds, by,
                                            shared->lent->lend<TokenGiven>(std::move(done)));
                                      });
    return reply(kj::mv(made), context, [](const TokenGiven& given, auto outcome) {
      auto token = outcome.initOk();
      write_view(given.view, token.initView());
      token.setText(given.text.c_str());
    });
  }

  kj::Promise<void> revokeToken(RevokeTokenContext context) override {
    if (const Status may = may_do(Right::admin, "Master.revokeToken"); !may.ok())
      return refuse(may, context);
    auto revoked = disk_.run<TokenView>(
        "Master.revokeToken", kAnswer,
        [number = context.getParams().getNumber(), by = connection_->peer,
         shared = shared_](auto done) {
          shared->jobs.revoke_token(number, by, shared->lent->lend<TokenView>(std::move(done)));
        });
    return reply(kj::mv(revoked), context,
                 [](const TokenView& view, auto outcome) { write_view(view, outcome.initOk()); });
  }

  kj::Promise<void> tokens(TokensContext context) override {
    if (const Status may = may_do(Right::admin, "Master.tokens"); !may.ok())
      return refuse(may, context);
    const auto all = shared_->jobs.tokens();
    if (!all.ok()) return refuse(all.status(), context);
    const auto shown = std::span(*all).last(std::min(all->size(), kMaxTokens));
    auto list = context.getResults().initOutcome().initOk(static_cast<uint32_t>(shown.size()));
    for (uint32_t i = 0; i < list.size(); ++i) write_view(shown[i], list[i]);
    return kj::READY_NOW;
  }

 private:
  // Reads the id of a job, or the prefix of one, that a call names. Each method reads it here, so
  // that a job that the client does not see is for all of them one that does not exist.
  Result<std::string> read_job(capnp::Text::Reader id) const {
    LEAT_ASSIGN_OR_RETURN(const std::string named, read_id(id));
    return connection_->visible.id_of(named);
  }
  // Answers a call with the view of a job, or with the error.
  template <typename Context>
  kj::Promise<void> reply_job(kj::Promise<Result<JobView>> promise, Context context) {
    return reply(kj::mv(promise), context, write_job(connection_));
  }
  // Ok if the connection's key has this right. A refusal is in the audit log.
  Status may_do(Right needed, std::string_view method) const {
    const Right right = connection_->grant.right;
    if (includes(right, needed)) return {};
    return refused(cat(method, ": expected the role ", right_name(needed), ", received ",
                       right_name(right), " '", connection_->grant.name, "'"));
  }
  // The id of the job if the connection may change it: an operator every one, a submitter its own.
  // A member's prefix stays one, since it may stand for any job.
  Result<std::string> may_change(const std::string& id, std::string_view method) const {
    const Grant& grant = connection_->grant;
    if (includes(grant.right, Right::operate)) return id;
    LEAT_RETURN_IF_ERROR(may_do(Right::submitter, method));
    LEAT_ASSIGN_OR_RETURN(const JobView job, shared_->status.job(id));
    if (job.user == grant.name) return job.id;
    return refused(cat(method, " of ", job.id, ": expected its owner",
                       job.user.empty() ? "" : cat(" '", job.user, "'"),
                       " or an operator, received ", right_name(grant.right), " '", grant.name,
                       "'"));
  }
  Status refused(std::string why) const {
    const Status status = failed_precondition(std::move(why));
    shared_->jobs.refused(connection_->peer, status);
    return status;
  }
  // The name of a token replaces the one that the client gives.
  void take_name(std::string& user) const {
    if (connection_->grant.right != Right::member) user = connection_->grant.name;
  }

  // A call that may wait: `ask` hands it on, `fill` writes what came of it.
  template <typename T, typename Context, typename Ask, typename Fill>
  kj::Promise<void> waiting(std::string what, Context context, Ask ask, Fill fill) {
    const auto id = read_job(context.getParams().getId());
    if (!id.ok()) return refuse(id.status(), context);
    // The completion holds the permit: a call that its client gave up counts until it is answered.
    const auto permit = connection_->waits.take();
    if (permit == nullptr) return refuse(too_many("calls that wait"), context);
    // The client's time is cut, so that no call waits without a bound.
    const auto wait = std::min<std::chrono::milliseconds>(
        std::chrono::milliseconds(context.getParams().getWaitMs()), shared_->limits.wait);
    auto elsewhere = answered_elsewhere<T>(shared_->loop, what);
    ask(*id, std::chrono::steady_clock::now() + wait,
        [done = shared_->lent->lend<T>(elsewhere.done), permit](Result<T> result) {
          done(std::move(result));
        });
    return reply(within(kj::mv(elsewhere.promise), disk_.timer(), wait + kSlack, std::move(what)),
                 context, fill);
  }

  const Disk disk_;
  const std::shared_ptr<ClientService::Shared>& shared_;
  const std::shared_ptr<ClientConnection>& connection_;
};

}  // namespace

Result<std::unique_ptr<ClientService>> ClientService::start(RpcLoop& loop, JobService& jobs,
                                                            StatusSource& status, Files& files,
                                                            const ClientLimits& limits,
                                                            SessionHosts* sessions) {
  try {
    // Not make_shared(), whose parentheses clang 14 does not take for an aggregate.
    std::shared_ptr<Shared> shared(new Shared{loop, jobs, status, files, limits, sessions});
    return std::unique_ptr<ClientService>(new ClientService(std::move(shared)));
  } catch (const std::system_error& error) {
    return resource_exhausted(cat("thread 'client-disk': ", error.what()));
  }
}

ClientService::~ClientService() {
  // The thread that makes calls ends first, so that no completion is lent after take_back().
  shared_->disk.stop();
  shared_->lent->take_back();
}

wire::Master::Client ClientService::serve(const RpcPeer& peer) {
  return kj::heap<MasterServer>(Disk{shared_, std::make_shared<ClientConnection>(*shared_, peer)});
}

}  // namespace leat
