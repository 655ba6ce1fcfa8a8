// The audit log: its chain, its crashes, its broken disks.
#include "daemon/audit/audit_log.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <vector>

#include "daemon/master/audited_jobs.h"
#include "devices/base/forwarding_files.h"
#include "tests/catch.h"
#include "tests/daemon/client/job_master.h"
#include "tests/eventually.h"
#include "tests/must.h"
#include "tests/temporary_directory.h"

namespace leat {
namespace {

using namespace std::chrono_literals;

std::string contents_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void put_contents(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

// A disk that fails while it is told to.
class FailingFiles final : public ForwardingFiles {
 public:
  FailingFiles() : ForwardingFiles(real_files()) {}
  Result<std::unique_ptr<WritableFile>> create(const std::string& path) override {
    LEAT_ASSIGN_OR_RETURN(auto file, files_.create(path));
    return std::unique_ptr<WritableFile>(new File(std::move(file), fails));
  }
  std::atomic<bool> fails{false};

 private:
  class File final : public ForwardingFile {
   public:
    File(std::unique_ptr<WritableFile> file, std::atomic<bool>& fails)
        : ForwardingFile(std::move(file)), fails_(fails) {}
    Status sync() override { return fails_ ? unavailable("the disk is broken") : file_->sync(); }

   private:
    std::atomic<bool>& fails_;
  };
};

class AuditScene {
 public:
  std::unique_ptr<AuditLog> open() { return AuditLog::open(files, folder(), clock, Logger()); }
  std::string folder() const { return directory / "audit"; }
  std::string segment(uint64_t first) const { return folder() + "/" + audit_segment(first); }
  // Writes an entry, and returns the outcome.
  static Status write(AuditLog& log, const std::string& action, Status outcome = {}) {
    std::promise<Status> written;
    log.add({action, "mlp-1", "'ann' at 127.0.0.1:4711", std::move(outcome)},
            [&](const Status& status) { written.set_value(status); });
    return written.get_future().get();
  }
  // The actions of the chain.
  std::vector<std::string> actions() {
    std::vector<std::string> found;
    must(read_audit(files, folder(), [&](std::string_view line) {
           const std::string_view key = "\"action\": \"";
           const size_t at = line.find(key) + key.size();
           found.emplace_back(line.substr(at, line.find('"', at) - at));
         }).status());
    return found;
  }
  Status check() { return read_audit(files, folder()).status(); }

  TemporaryDirectory directory;
  FailingFiles files;
  ManualClock clock;
};

TEST_CASE("an audit log has an entry for each request, and goes on after a restart") {
  AuditScene scene;
  CHECK(must(read_audit(scene.files, scene.folder())) == AuditHead());
  AuditHead head;
  {
    const auto log = scene.open();
    CHECK(AuditScene::write(*log, "submit").ok());
    CHECK(AuditScene::write(*log, "cancel", failed_precondition("it has \"ended\"")).ok());
    head = log->head();
    CHECK(head.sequence == 2);
  }
  const std::string text = contents_of(scene.segment(1));
  CHECK(text.starts_with("{\"previous\": \"" + std::string(64, '0') +
                         "\", \"sequence\": 1, \"time\": \"1970-01-01T01:00:00.000Z\", "
                         "\"action\": \"submit\", \"subject\": \"mlp-1\", "
                         "\"by\": \"'ann' at 127.0.0.1:4711\", \"outcome\": \"ok\"}\n"));
  CHECK_THAT(text, Catch::Contains("\"outcome\": \"failed_precondition\", "
                                   "\"message\": \"it has \\\"ended\\\"\"}\n"));
  CHECK(must(read_audit(scene.files, scene.folder())) == head);

  CHECK(AuditScene::write(*scene.open(), "drain").ok());
  CHECK(scene.actions() == std::vector<std::string>{"submit", "cancel", "drain"});
  CHECK(std::filesystem::exists(scene.segment(3)));
}

TEST_CASE("entries that come together are written in their order") {
  AuditScene scene;
  std::vector<std::string> expected;
  std::atomic<int> written{0};
  {
    const auto log = scene.open();
    for (int i = 0; i < 500; ++i) {
      expected.push_back("a" + std::to_string(i));
      log->add({expected.back(), "", ""}, [&](const Status& status) { written += status.ok(); });
    }
  }
  CHECK(written == 500);
  CHECK(scene.actions() == expected);
}

TEST_CASE("any change of an audit log is found, with its place") {
  AuditScene scene;
  for (int start = 0; start < 2; ++start) {
    const auto log = scene.open();
    for (int i = 0; i < 3; ++i) CHECK(AuditScene::write(*log, "submit").ok());
  }
  const std::string path = scene.segment(1), whole = contents_of(path);
  const size_t second = whole.find('\n') + 1, third = whole.find('\n', second) + 1;
  const auto broken = [&](const std::string& text) {
    put_contents(path, text);
    const Status status = scene.check();
    CHECK(status.code() == Code::failed_precondition);
    return std::string(status.message());
  };
  // A byte of each line, which the next one tells.
  for (size_t at = 0; at < whole.size(); at += 7) {
    std::string text = whole;
    text[at] = text[at] == 'x' ? 'y' : 'x';
    INFO("byte " << at);
    (void)broken(text);
  }
  CHECK_THAT(broken(whole.substr(0, second) + whole.substr(third)),
             Catch::Contains(audit_segment(1) + " line 2: expected the hash"));
  CHECK_THAT(broken(whole.substr(second)), Catch::Contains("line 1"));
  CHECK_THAT(broken(whole.substr(0, third)),
             Catch::Contains("expected entries up to 3, with which the next segment begins, the "
                             "last one is 2"));
  CHECK_THAT(broken(whole.substr(0, third) + "nonsense\n"), Catch::Contains("line 3"));
  std::filesystem::remove(path);
  CHECK_THAT(scene.check().message(), Catch::Contains("the first segment is " + audit_segment(4)));
  // Behind the entry with which the next segment goes on, a failing disk may have left anything.
  put_contents(path, whole + std::string(100'000, '\0') + "\n{}\n");
  CHECK(scene.check().ok());
}

TEST_CASE("a crash at any byte leaves an audit log that goes on") {
  AuditScene scene;
  {
    const auto log = scene.open();
    for (int i = 0; i < 3; ++i) CHECK(AuditScene::write(*log, "submit").ok());
  }
  const std::string whole = contents_of(scene.segment(1));
  for (size_t bytes = 0; bytes <= whole.size(); bytes += 5) {
    INFO("bytes " << bytes);
    std::filesystem::remove_all(scene.folder());
    std::filesystem::create_directory(scene.folder());
    const std::string left = whole.substr(0, bytes);
    put_contents(scene.segment(1), left);
    CHECK(AuditScene::write(*scene.open(), "drain").ok());
    const auto entries = static_cast<size_t>(std::count(left.begin(), left.end(), '\n'));
    const auto actions = scene.actions();
    CHECK(actions.size() == entries + 1);
    CHECK(actions.back() == "drain");
  }
}

TEST_CASE("entries that a failing disk does not take are written later") {
  AuditScene scene;
  const auto log = scene.open();
  CHECK(AuditScene::write(*log, "a").ok());
  scene.files.fails = true;
  CHECK(AuditScene::write(*log, "b").code() == Code::unavailable);
  CHECK(log->status().code() == Code::unavailable);
  CHECK(AuditScene::write(*log, "c").code() == Code::unavailable);
  CHECK(log->head().sequence == 1);
  scene.files.fails = false;
  CHECK(AuditScene::write(*log, "d").ok());
  CHECK(log->status().ok());
  CHECK(scene.actions() == std::vector<std::string>{"a", "b", "c", "d"});
}

TEST_CASE("an audit log that cannot be read at first is read later") {
  AuditScene scene;
  put_contents(scene.folder(), "no folder");
  const auto log = scene.open();
  CHECK_FALSE(AuditScene::write(*log, "a").ok());
  CHECK_FALSE(log->status().ok());
  std::filesystem::remove(scene.folder());
  CHECK(eventually([&] { return log->status().ok(); }, 60s));
  CHECK(AuditScene::write(*log, "b").ok());
  CHECK(scene.actions() == std::vector<std::string>{"a", "b"});
}

TEST_CASE("a log that was changed is kept, and a new one begins by saying so") {
  AuditScene scene;
  CHECK(AuditScene::write(*scene.open(), "submit").ok());
  CHECK(AuditScene::write(*scene.open(), "cancel").ok());
  std::string changed = contents_of(scene.segment(1));
  changed.replace(changed.find("submit"), 6, "cancel");
  put_contents(scene.segment(1), changed);
  scene.open().reset();
  CHECK(scene.actions() == std::vector<std::string>{"check audit log"});
  CHECK_THAT(contents_of(scene.segment(1)),
             Catch::Contains(audit_segment(2) + " line 1: expected the hash"));
  CHECK(contents_of(scene.folder() + "-broken-3600000/" + audit_segment(1)) == changed);
}

TEST_CASE("refused strangers cannot fill the audit log") {
  AuditScene scene;
  const auto log = scene.open();
  for (int i = 0; i < 1000; ++i)
    log->add_refused("10.0.0.9:1", failed_precondition("authentication"));
  scene.clock.advance(1s);
  for (int i = 0; i < 1000; ++i)
    log->add_refused("10.0.0.9:1", failed_precondition("authentication"));
  CHECK(AuditScene::write(*log, "submit").ok());
  CHECK(scene.actions().size() == 100 + 10 + 1);
  CHECK_THAT(contents_of(scene.segment(1)), Catch::Contains("\"left_out\": 900}\n"));
}

TEST_CASE("a worker with refused lines leaves out no entry of a refused connection") {
  AuditScene scene;
  const auto log = scene.open();
  for (int i = 0; i < 1000; ++i)
    log->add_refused_lines("worker 'w2' at 10.0.0.8:1", invalid_argument("a foreign job"));
  for (int i = 0; i < 100; ++i)
    log->add_refused("10.0.0.9:1", failed_precondition("authentication"));
  CHECK(AuditScene::write(*log, "submit").ok());
  const auto actions = scene.actions();
  CHECK(std::count(actions.begin(), actions.end(), "log") == 100);
  CHECK(std::count(actions.begin(), actions.end(), "connect") == 100);
  CHECK_THAT(contents_of(scene.segment(1)), Catch::Contains("\"left_out\": 900}\n"));
}

TEST_CASE("nothing is changed while the audit log cannot be written") {
  AuditScene scene;
  const auto log = scene.open();
  FakeJobs jobs(scene.directory / "jobs");
  const auto tokens = must(TokenTable::open(real_files(), scene.directory / "tokens", scene.clock,
                                            [] { return uint64_t{7}; }));
  AuditedJobs audited(jobs, *log, *tokens, [] { return std::pair<std::string, std::string>(); });
  const std::string id = jobs.add("mlp");
  const auto pause = [&](bool undo) {
    std::promise<Status> done;
    audited.pause(id, undo, "ann",
                  [&](const Result<JobView>& view) { done.set_value(view.status()); });
    return done.get_future().get();
  };
  CHECK(pause(false).ok());
  scene.files.fails = true;
  // The log is found to be broken when this is done.
  CHECK(pause(true).ok());
  const uint64_t version = jobs.jobs_version();
  const Status refused = pause(false);
  CHECK(refused.code() == Code::unavailable);
  CHECK_THAT(refused.message(), Catch::Contains("the audit log cannot be written"));
  CHECK(audited.files(id).ok());  // what reads goes on
  CHECK(jobs.jobs_version() == version);
  scene.files.fails = false;
  // The log tries again by itself.
  CHECK(eventually([&] { return log->status().ok(); }, 60s));
  CHECK(pause(false).ok());
  const auto actions = scene.actions();
  CHECK(actions.front() == "pause");
  CHECK(actions.size() >= 4);
}

TEST_CASE("after its end an audit log takes nothing, and says so") {
  AuditScene scene;
  const auto log = scene.open();
  log->stop();
  CHECK(AuditScene::write(*log, "submit").code() == Code::cancelled);
}

}  // namespace
}  // namespace leat
