#include "daemon/runner/wire_master_files.h"

#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include "daemon/wire/cluster.capnp.h"
#include "devices/base/text.h"
#include "transport/rpc/call.h"
#include "transport/rpc/chunks.h"

namespace leat {
namespace {

constexpr std::chrono::seconds kDeadline{120};
constexpr uint64_t kMostBytes = uint64_t{16} << 30;  // as the master has it

// A file that has travelled, in memory.
class ReceivedFile final : public ReadableFile {
 public:
  ReceivedFile(std::string path, Blob bytes) : path_(std::move(path)), bytes_(std::move(bytes)) {}
  const std::string& path() const override { return path_; }
  uint64_t size() const override { return bytes_.size(); }
  Status read(uint64_t offset, std::span<std::byte> out) const override {
    if (offset > bytes_.size() || out.size() > bytes_.size() - offset) {
      return unavailable(cat("'", path_, "': expected ", out.size(), " bytes at ", offset,
                             ", it has ", bytes_.size()));
    }
    if (!out.empty()) std::memcpy(out.data(), bytes_.data() + offset, out.size());
    return {};
  }

 private:
  const std::string path_;
  const Blob bytes_;
};

}  // namespace

// The calls that are under way or wait for a master. Threads: any.
class MasterFiles::Calls : public std::enable_shared_from_this<Calls> {
 public:
  explicit Calls(RpcLoop& loop) : loop_(loop) {}

  void use(std::shared_ptr<RpcClient> master) {
    std::vector<Call> begin;
    {
      // The old connection is closed after the lock is given up.
      const std::lock_guard lock(mutex_);
      master_.swap(master);
      if (master_) begin.swap(waiting_);
    }
    for (Call& each : begin) make(std::move(each));
  }

  // Ends the calls that wait, and all that would wait from now on.
  void end() {
    std::vector<Call> ended;
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
      ended.swap(waiting_);
    }
    for (Call& each : ended) each.give_up();
  }

  // Calls the master, now or when there is one. `ask` makes the call on the loop; `done` gets its
  // outcome. If the connection is lost, the call is made again on the next one.
  template <typename T>
  void make(std::string what, std::function<kj::Promise<T>(wire::Registry::Client)> ask,
            std::function<void(T)> done) {
    Call call;
    call.give_up = [what, done] { done(unavailable(what + ": the runner ends")); };
    call.attempt = [self = shared_from_this(), what, ask, done](std::shared_ptr<RpcClient> master,
                                                                Call again) {
      // An answer of the master ends the call, whatever it says.
      const auto answered = std::make_shared<bool>(false);
      RpcClient& client = *master;
      client.start<wire::Registry>(
          what, kDeadline,
          [ask, answered](wire::Registry::Client registry) {
            return ask(kj::mv(registry)).then([answered](T&& outcome) {
              *answered = true;
              return std::move(outcome);
            });
          },
          [self, master = std::move(master), again = std::move(again), answered,
           done](T outcome) mutable {
            const bool lost = !*answered && status_of_result(outcome).code() == Code::unavailable;
            if (lost) {
              self->make_later(std::move(again), master);
            } else {
              done(std::move(outcome));
            }
            // This may be the last reference. The connection must not end in the middle of a call.
            (void)self->loop_.post([master = std::move(master)] {});
          });
    };
    make(std::move(call));
  }

 private:
  struct Call {
    std::function<void(std::shared_ptr<RpcClient> master, Call again)> attempt;
    std::function<void()> give_up;
  };
  static const Status& status_of_result(const Status& status) { return status; }
  template <typename T>
  static Status status_of_result(const Result<T>& result) {
    return result.status();
  }

  void make(Call call) {
    std::shared_ptr<RpcClient> master;
    {
      const std::lock_guard lock(mutex_);
      master = master_;
      if (!master && !ended_) return waiting_.push_back(std::move(call));
    }
    if (!master) return call.give_up();
    auto attempt = call.attempt;
    attempt(std::move(master), std::move(call));
  }

  // The connection `lost` is no good, whether use() has heard of it or not.
  void make_later(Call call, const std::shared_ptr<RpcClient>& lost) {
    {
      const std::lock_guard lock(mutex_);
      if (master_ == lost) master_.reset();
    }
    make(std::move(call));
  }

  RpcLoop& loop_;
  std::mutex mutex_;
  std::shared_ptr<RpcClient> master_;
  std::vector<Call> waiting_;
  bool ended_ = false;
};

MasterFiles::MasterFiles(RpcLoop& loop) : calls_(std::make_shared<Calls>(loop)) {}
MasterFiles::~MasterFiles() { stop(); }

void MasterFiles::stop() {
  calls_->end();
  calls_->use(nullptr);
}

void MasterFiles::use(std::shared_ptr<RpcClient> master) { calls_->use(std::move(master)); }

void MasterFiles::write(const std::string& path, const SafeTensors& content,
                        std::function<void(Status)> done) {
  Result<Bytes> bytes = format_safetensors(content);
  if (!bytes.ok()) return done(bytes.status());
  const auto blob = std::make_shared<const Blob>(std::move(*bytes));
  calls_->make<Status>(
      "Registry.saveFile",
      [path, blob, info = describe(*blob),
       assembly = assembly_()](wire::Registry::Client registry) {
        auto request = registry.saveFileRequest();
        request.setPath(path);
        request.setAssembly(assembly);
        request.setSize(info.size);
        request.setSha256({info.sha256.data(), info.sha256.size()});
        return send_blob(std::move(request), blob);
      },
      std::move(done));
}

void MasterFiles::open(const std::string& path, std::function<void(Opened)> done) {
  // Null: there is no such file.
  using Content = std::shared_ptr<Blob>;
  calls_->make<Result<Content>>(
      "Registry.savedFile",
      [path](wire::Registry::Client registry) {
        auto request = registry.savedFileRequest();
        request.setPath(path);
        return request.send().then([](auto&& response) -> kj::Promise<Result<Content>> {
          auto outcome = response.getOutcome();
          if (outcome.isError()) return Result<Content>(read_status(outcome.getError()));
          if (outcome.getOk().isMissing()) return Result<Content>(Content());
          const auto blob = outcome.getOk().getBlob();
          const auto sha256 = read_digest(blob.getSha256());
          if (!sha256.ok()) return Result<Content>(sha256.status());
          return download(blob.getContent(), {blob.getSize(), *sha256}, kMostBytes)
              .then([](Result<Blob>&& read) -> Result<Content> {
                if (!read.ok()) return read.status();
                return std::make_shared<Blob>(std::move(*read));
              });
        });
      },
      [path, done = std::move(done)](Result<Content> read) {
        if (!read.ok()) return done(read.status());
        if (!*read) return done(std::shared_ptr<const ReadableFile>());
        done(std::shared_ptr<const ReadableFile>(
            std::make_shared<ReceivedFile>(path, std::move(**read))));
      });
}

}  // namespace leat
