// Tests the record of a lasting session on the disk.
#include "daemon/lasting/session_log.h"

#include <cstring>
#include <filesystem>
#include <fstream>

#include "tests/catch.h"
#include "tests/must.h"
#include "tests/temporary_directory.h"

namespace leat {
namespace {

using namespace std::chrono_literals;

Tensor two_floats(float a, float b) { return Tensor::of<float>(Shape{2}, {a, b}); }

LoggedStep logged(uint64_t number, float value) {
  LoggedStep step;
  step.number = number;
  step.what = Signature{{"x"}, {"y"}, {"train"}, true};
  step.timeout = 1500ms;
  step.feeds = {two_floats(value, -value)};
  return step;
}

struct LogFile {
  TemporaryDirectory folder;
  std::unique_ptr<SessionLog> log = must(SessionLog::open({path()}));
  std::string path() const { return folder.path() + "/session.db"; }
  void reopen() {
    log.reset();
    log = must(SessionLog::open({path()}));
  }
};

}  // namespace

TEST_CASE("the record of a session is whole after it was opened again") {
  LogFile file;
  CHECK(must(file.log->graph()).version == 0);
  CHECK(must(file.log->last_step()) == 0);
  const std::vector<std::byte> bytes(100'000, std::byte{7});
  must(file.log->write_graph({1, {}, {}}));
  must(file.log->write_graph({2, {0, 5}, bytes}));
  must(file.log->write_callable(1, {{"a", "b"}, {}, {"t"}, false}));
  must(file.log->write_callable(2, {{}, {"y"}, {}, true}));
  must(file.log->write_release(1));
  CHECK(must(file.log->write_step(logged(1, 0.5f))) == SessionLog::checksum_of(logged(1, 0.5f)));
  CHECK(SessionLog::checksum_of(logged(1, 0.5f)) != SessionLog::checksum_of(logged(1, 0.25f)));
  const uint32_t second = must(file.log->write_step(logged(2, 1.5f)));
  LoggedStep by_number = logged(3, 2.5f);
  by_number.what = CallableId{2};
  must(file.log->write_step(by_number));
  must(file.log->write_applied(1));
  must(file.log->write_failure(2, second, invalid_argument("it does not fit")));
  file.reopen();
  const LoggedGraph graph = must(file.log->graph());
  CHECK(graph.version == 2);
  CHECK(graph.input_ids == std::vector<uint32_t>{0, 5});
  CHECK(graph.file == bytes);
  const auto callables = must(file.log->callables());
  REQUIRE(callables.size() == 2);
  CHECK(callables[0].released);
  CHECK(callables[0].signature.feeds == std::vector<std::string>{"a", "b"});
  CHECK_FALSE(callables[0].signature.isolated);
  CHECK_FALSE(callables[1].released);
  CHECK(must(file.log->last_step()) == 3);
  const auto first = must(file.log->next_step(0));
  REQUIRE(first);
  CHECK(first->number == 1);
  CHECK(first->applied);
  CHECK(first->timeout == 1500ms);
  CHECK(std::get<Signature>(first->what).targets == std::vector<std::string>{"train"});
  CHECK(first->feeds[0].identical(two_floats(0.5f, -0.5f)));
  // The second one failed.
  const auto third = must(file.log->next_step(1));
  REQUIRE(third);
  CHECK(third->number == 3);
  CHECK_FALSE(third->applied);
  CHECK(std::get<CallableId>(third->what) == 2);
  CHECK_FALSE(must(file.log->next_step(3)));
  const StepOutcomes outcomes = must(file.log->outcomes());
  REQUIRE(outcomes.size() == 1);
  CHECK(outcomes.at(2).outcome.status().code() == Code::invalid_argument);
  CHECK(outcomes.at(2).outcome.status().message() == "it does not fit");
  CHECK(outcomes.at(2).request == second);
}

TEST_CASE("a saved state takes the place of the steps before it") {
  LogFile file;
  for (uint64_t n = 1; n <= 4; ++n) must(file.log->write_step(logged(n, 1)));
  SavedState state;
  state.step = 3;
  // Larger than one row of the file.
  Tensor large(DType::f32, Shape{20'000'000});
  for (int64_t i = 0; i < large.elements(); ++i) large.data<float>()[i] = static_cast<float>(i);
  state.variables["job:worker/task:0"]["w"] = large;
  state.variables["job:worker/task:0"]["empty"] = Tensor(DType::f32, Shape{0});
  state.variables["job:worker/task:1"]["w"] = two_floats(3, 4);
  state.homes["leat.Variable 'w'"] = "job:worker/task:0/cpu:0";
  StepOutcomes outcomes;
  outcomes.insert_or_assign(2, KeptOutcome{StepOutcome(cancelled("it was cancelled")), 22});
  outcomes.insert_or_assign(3, KeptOutcome{StepOutcome(std::vector<Tensor>{two_floats(8, 9)}), 33});
  outcomes.insert_or_assign(4, KeptOutcome{StepOutcome(std::vector<Tensor>{two_floats(1, 1)}), 44});
  must(file.log->save(state, outcomes));
  file.reopen();
  const SavedState saved = must(file.log->saved());
  CHECK(saved.step == 3);
  CHECK(saved.homes == state.homes);
  CHECK(saved.variables.at("job:worker/task:0").at("w").identical(large));
  CHECK(saved.variables.at("job:worker/task:0").at("empty").elements() == 0);
  CHECK(saved.variables.at("job:worker/task:1").at("w").identical(two_floats(3, 4)));
  CHECK(must(file.log->last_step()) == 4);
  CHECK(must(file.log->next_step(3))->number == 4);
  const StepOutcomes kept = must(file.log->outcomes());
  REQUIRE(kept.size() == 2);
  CHECK(kept.at(2).outcome.status().code() == Code::cancelled);
  CHECK(kept.at(3).outcome->at(0).identical(two_floats(8, 9)));
  CHECK(kept.at(3).request == 33);
  // The next one replaces all of it.
  must(file.log->save({4, {}, {}}, {}));
  file.reopen();
  CHECK(must(file.log->saved()).variables.empty());
  CHECK(must(file.log->outcomes()).empty());
  CHECK(must(file.log->last_step()) == 4);
}

TEST_CASE("the record of a session has its clients in their order, also one of before") {
  LogFile file;
  using Names = std::vector<std::string>;
  // The table comes with the first client: this is a record as earlier masters have made it.
  CHECK(must(file.log->clients()).empty());
  must(file.log->add_clients({"first"}, 3));
  must(file.log->add_clients({"second", "third"}, 3));
  file.reopen();
  CHECK(must(file.log->clients()) == Names{"first", "second", "third"});
  must(file.log->add_clients({"fourth"}, 3));
  CHECK(must(file.log->clients()) == Names{"second", "third", "fourth"});
  // One that was forgotten, or comes again, is the last.
  must(file.log->add_clients({"first", "third"}, 3));
  file.reopen();
  CHECK(must(file.log->clients()) == Names{"fourth", "first", "third"});
}

TEST_CASE("a damaged record of a session is found, whatever byte it is") {
  LogFile file;
  must(file.log->add_clients({std::string(32, '\x6b')}, 3));
  must(file.log->write_graph({1, {0}, std::vector<std::byte>(3'000, std::byte{0x5a})}));
  must(file.log->write_callable(1, {{"a"}, {}, {"t"}, true}));
  LoggedStep step = logged(1, 1);
  step.feeds = {Tensor::of<float>(Shape{600}, std::vector<float>(600, 1.25f))};
  must(file.log->write_step(step));
  SavedState state;
  state.variables["job:worker/task:0"]["w"] =
      Tensor::of<float>(Shape{600}, std::vector<float>(600, 2.5f));
  must(file.log->save(state, {}));
  file.log.reset();  // which moves all of it into the file
  std::ifstream in(file.path(), std::ios::binary);
  const std::string good((std::istreambuf_iterator<char>(in)), {});
  const auto read_all = [&]() -> Status {
    LEAT_ASSIGN_OR_RETURN(const auto log, SessionLog::open({file.path()}));
    LEAT_RETURN_IF_ERROR(log->graph().status());
    LEAT_RETURN_IF_ERROR(log->callables().status());
    LEAT_RETURN_IF_ERROR(log->clients().status());
    LEAT_RETURN_IF_ERROR(log->next_step(0).status());
    return log->saved().status();
  };
  must(read_all());
  // The bytes of the client, of the graph, of the step's feed, and of the variable.
  const auto repeated = [](float value) {
    std::string pattern(8 * sizeof value, '\0');
    for (size_t i = 0; i < 8; ++i) std::memcpy(&pattern[i * sizeof value], &value, sizeof value);
    return pattern;
  };
  for (const std::string& pattern :
       {std::string(32, '\x6b'), std::string(32, '\x5a'), repeated(1.25f), repeated(2.5f)}) {
    const size_t at = good.find(pattern);
    REQUIRE(at != std::string::npos);
    std::string bad = good;
    bad[at + 5] ^= 64;
    std::ofstream(file.path(), std::ios::binary | std::ios::trunc) << bad;
    const Status status = read_all();
    CHECK(status.code() == Code::failed_precondition);
    CHECK_THAT(status.message(),
               Catch::Contains("session.db': ") && Catch::Contains("is damaged on the disk"));
  }
}

TEST_CASE("a file that is no record of a session is refused by name") {
  TemporaryDirectory folder;
  std::ofstream(folder.path() + "/session.db") << "this is a text and no database, and long enough";
  CHECK_THAT(SessionLog::open({folder.path() + "/session.db"}).status().message(),
             Catch::Contains("session.db"));
  const auto missing = SessionLog::open({folder.path() + "/no/such/folder.db"});
  CHECK(missing.status().code() == Code::failed_precondition);
}

}  // namespace leat
