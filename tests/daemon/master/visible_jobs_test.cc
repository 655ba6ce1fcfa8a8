// The jobs that a client sees of a master with jobs_visible: own.
#include "daemon/master/visible_jobs.h"

#include <capnp/dynamic.h>

#include <map>

#include "daemon/master/audited_jobs.h"
#include "daemon/wire/cluster.capnp.h"
#include "tests/catch.h"
#include "tests/daemon/master/master_fixture.h"
#include "tests/must.h"
#include "transport/rpc/client.h"

namespace leat {

using namespace testing;

namespace {

constexpr char kSecret[] = "the secret of a cluster in which each sees its own jobs";
// As long as the ids of jobs, so that an answer about it has the same size.
constexpr char kNoJob[] = "tiny-job-none";

// A master with a secret, where ann and bob have a job each.
struct OwnJobs {
  explicit OwnJobs(JobsVisible visible = JobsVisible::own) {
    host.change = [visible](MasterConfig& config) {
      config.security.secret = kSecret;
      config.jobs_visible = visible;
    };
    host.restart();
    ann = submit("ann");
    bob = submit("bob");
  }
  std::string submit(const std::string& user) {
    Submission submission = tiny_job(cat("of-", user, "-", ++requests));
    submission.terms.user = user;
    return host.submitted(std::move(submission));
  }
  // A connection with a token of this role and name.
  std::unique_ptr<RpcClient> connect(const std::string& name, Right right = Right::submitter) {
    RpcClientOptions options;
    options.address = host.master->address();
    options.identity.cluster = "test";
    options.identity.role = RpcRole::client;
    options.identity.secret = kSecret;
    if (right != Right::member) {
      std::promise<Result<TokenGiven>> given;
      host.master->audited().create_token({right, name, 0, 0}, 0, "the test",
                                          [&](auto token) { given.set_value(std::move(token)); });
      options.identity.secret = must(given.get_future().get()).text;
    }
    options.deadline = 30s;
    return must(RpcClient::connect(*loop, options));
  }
  // The text of the answer to a call of the method of that name about the job.
  std::string ask(RpcClient& client, const std::string& method, const std::string& id,
                  const std::string& field = "id");

  Host host;
  std::unique_ptr<RpcLoop> loop = must(RpcLoop::start({}));
  int requests = 0;
  std::string ann, bob;
};

std::string OwnJobs::ask(RpcClient& client, const std::string& method, const std::string& id,
                         const std::string& field) {
  const auto answer = client.call<wire::Master>(method, 60s, [&](wire::Master::Client master) {
    auto dynamic = capnp::DynamicCapability::Client(master);
    auto request = dynamic.newRequest(method.c_str());
    if (!id.empty()) request.set(field.c_str(), id.c_str());
    if (method == "attachSession") request.set("client", "a-client");
    if (method == "record") request.set("steps", 1);
    return request.send().then(
        [](capnp::Response<capnp::DynamicStruct>&& response) -> Result<std::string> {
          return std::string(kj::str(response.get("outcome").as<capnp::DynamicStruct>()).cStr());
        });
  });
  return answer.ok() ? *answer : answer.status().to_string();
}

// `text` with `word` wherever it has `id`.
std::string with(std::string text, const std::string& id, const std::string& word) {
  for (size_t at; (at = text.find(id)) != std::string::npos;) text.replace(at, id.size(), word);
  return text;
}

// The methods of the service that take the id of a job, each with the name of that field. A method
// that is new is among them by its parameters.
std::map<std::string, std::string> methods_about_a_job() {
  std::map<std::string, std::string> found;
  for (const auto method : capnp::Schema::from<wire::Master>().getMethods()) {
    for (const auto field : method.getParamType().getFields()) {
      const std::string name = field.getProto().getName().cStr();
      if (name == "id" || name == "job") found[method.getProto().getName().cStr()] = name;
    }
  }
  return found;
}

}  // namespace

TEST_CASE("every method answers about the job of another as about one that does not exist",
          "[cluster]") {
  OwnJobs scene;
  const auto methods = methods_about_a_job();
  // The list is that of the schema; this is a check that the schema was read.
  for (const char* known : {"job", "watch", "cancel", "logs", "files", "fetch", "remove", "save",
                            "why", "record", "pause", "attachSession"})
    REQUIRE(methods.contains(known));
  const Right right = GENERATE(Right::submitter, Right::viewer);
  const auto ann = scene.connect("ann", right);
  for (const auto& [method, field] : methods) {
    INFO(method);
    const std::string other = scene.ask(*ann, method, scene.bob, field);
    CHECK_THAT(other, Catch::Contains("there is no job "));
    CHECK(with(other, scene.bob, "X") == with(scene.ask(*ann, method, kNoJob, field), kNoJob, "X"));
    // Its own job is there for the same method, in whatever way it answers then.
    if (method == "cancel" || method == "remove") continue;
    CHECK_THAT(scene.ask(*ann, method, scene.ann, field), !Catch::Contains("there is no job"));
  }
  CHECK(scene.host.state(scene.bob) == "QUEUED");
  for (const char* last : {"cancel", "remove"})
    CHECK_THAT(scene.ask(*ann, last, scene.ann), !Catch::Contains("there is no job"));
}

TEST_CASE("a request id that another user has used gives a job of one's own", "[cluster]") {
  OwnJobs scene;
  const auto submit = [&](const std::string& user) {
    Submission submission = tiny_job("the-same");
    submission.terms.user = user;
    return scene.host.submitted(std::move(submission));
  };
  const std::string ann = submit("ann"), bob = submit("bob");
  CHECK(ann != bob);
  for (int round = 0; round < 2; ++round) {
    CHECK(submit("ann") == ann);
    CHECK(submit("bob") == bob);
    if (round == 0) scene.host.restart();
  }
  CHECK(scene.host.master->status().job(bob)->user == "bob");
}

TEST_CASE("operators, admins and holders of the secret see all jobs, and with `all` everybody does",
          "[cluster]") {
  const JobsVisible visible = GENERATE(JobsVisible::own, JobsVisible::all);
  OwnJobs scene(visible);
  std::vector<std::unique_ptr<RpcClient>> clients;
  clients.push_back(scene.connect("olga", Right::operate));
  clients.push_back(scene.connect("adam", Right::admin));
  clients.push_back(scene.connect("", Right::member));
  if (visible == JobsVisible::all) clients.push_back(scene.connect("ann", Right::viewer));
  for (const auto& client : clients) {
    for (const auto& [method, field] : methods_about_a_job()) {
      if (method == "remove" || method == "cancel") continue;  // these end it
      INFO(method);
      CHECK_THAT(scene.ask(*client, method, scene.bob, field), !Catch::Contains("there is no job"));
    }
    CHECK_THAT(scene.ask(*client, "jobs", ""),
               Catch::Contains(scene.ann) && Catch::Contains(scene.bob));
  }
}

TEST_CASE("a prefix stands for a job of one's own, whatever others have", "[cluster]") {
  OwnJobs scene;
  const auto ann = scene.connect("ann");
  // Each id begins so, and for ann there is one.
  CHECK_THAT(scene.ask(*ann, "job", "tiny-job-"), Catch::Contains(scene.ann));
  CHECK_THAT(scene.ask(*ann, "job", "tiny-job-"), !Catch::Contains(scene.bob));
  const std::string second = scene.submit("ann");
  const std::string both = scene.ask(*ann, "job", "tiny-job-");
  CHECK_THAT(both, Catch::Contains("begins the ids of 2 jobs") && Catch::Contains(second));
  CHECK_THAT(both, !Catch::Contains(scene.bob));
  // The prefix of an id of another stands for nothing.
  const std::string cut = scene.bob.substr(0, scene.bob.size() - 1);
  if (!scene.ann.starts_with(cut) && !second.starts_with(cut))
    CHECK_THAT(scene.ask(*ann, "job", cut), Catch::Contains("there is no job "));
}

TEST_CASE("lists of jobs and workers, and reasons, name no job of another", "[cluster]") {
  OwnJobs scene;
  const FakeWorker worker(scene.host.master->address(), "w1", 1, true, {}, kSecret);
  REQUIRE(worker.order().job == scene.ann);
  const auto ann = scene.connect("ann"), bob = scene.connect("bob");
  CHECK_THAT(scene.ask(*ann, "jobs", ""),
             Catch::Contains(scene.ann) && !Catch::Contains(scene.bob));
  CHECK_THAT(scene.ask(*ann, "nodes", ""), Catch::Contains(scene.ann));
  CHECK_THAT(scene.ask(*bob, "nodes", ""), Catch::Contains("w1") && !Catch::Contains(scene.ann));
  // The operator sees that the job waits for the other one; the job's owner sees that it waits.
  const auto olga = scene.connect("olga", Right::operate);
  REQUIRE_THAT(scene.ask(*olga, "why", scene.bob), Catch::Contains(scene.ann));
  for (const char* method : {"why", "job", "watch", "jobs"}) {
    INFO(method);
    const std::string answer =
        scene.ask(*bob, method, std::string(method) == "jobs" ? "" : scene.bob);
    CHECK_THAT(answer, !Catch::Contains(scene.ann));
  }
  CHECK_THAT(scene.ask(*bob, "why", scene.bob), Catch::Contains("another job"));
}

TEST_CASE("a submit goes on from, and evaluates, no job of another", "[cluster]") {
  OwnJobs scene;
  const auto ann = scene.connect("ann");
  int requests = 0;
  const auto submit = [&](const std::string& resume, const std::string& evaluates) {
    const Submission job =
        tiny_job("", 1, evaluates.empty() ? "" : cat("evaluates: ", evaluates, "\n"));
    const auto answer = ann->call<wire::Master>("submit", 60s, [&](wire::Master::Client master) {
      auto call = master.submitRequest();
      auto request = call.initRequest();
      request.setRequestId(cat("from-ann-", ++requests));
      request.setResume(resume);
      request.setJob(job.text);
      // A job that evaluates has validation data.
      if (!evaluates.empty())
        request.initOverrides(1).set(
            0, "data.validation={format: npy, features: x.npy, labels: y.npy}");
      auto file = request.initFiles(1)[0];
      file.setName("tiny.onnxtxt");
      file.setBytes({reinterpret_cast<const kj::byte*>(kTinyGraph), sizeof kTinyGraph - 1});
      return call.send().then([](auto&& response) -> Result<std::string> {
        return std::string(kj::str(response.getOutcome()).cStr());
      });
    });
    return answer.ok() ? *answer : answer.status().to_string();
  };
  const std::string other = submit(scene.bob, "");
  CHECK_THAT(other, Catch::Contains("there is no job "));
  CHECK(with(other, scene.bob, "X") == with(submit(kNoJob, ""), kNoJob, "X"));
  CHECK_THAT(submit(scene.ann, ""), !Catch::Contains("there is no job"));
  const std::string followed = submit("", scene.bob);
  CHECK_THAT(followed, Catch::Contains("expected the id of a job that trains on this cluster"));
  CHECK(with(followed, scene.bob, "X") == with(submit("", kNoJob), kNoJob, "X"));
  CHECK_THAT(submit("", "tiny-job-"), !Catch::Contains(scene.bob));
}

}  // namespace leat
