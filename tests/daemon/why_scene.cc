#include "tests/daemon/why_scene.h"

#include <sys/resource.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/catch.h"
#include "tests/daemon/json_lines.h"
#include "tests/must.h"

namespace leat {

namespace {

std::chrono::milliseconds since(std::chrono::steady_clock::time_point begun) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() -
                                                               begun);
}

}  // namespace

ProcessClusterOptions worker_failpoints(int workers, const std::string& text) {
  ProcessClusterOptions options;
  options.workers = workers;
  options.transports = "[tcp]";
  options.worker_environment = {"LEAT_FAILPOINTS=" + text};
  return options;
}

std::string WhyScene::start(int workers, uint64_t step, std::vector<std::string> set,
                            std::vector<std::string> chaos) {
  set.insert(set.begin(),
             {"num_workers=" + std::to_string(workers), "checkpoint.every_steps=100000000"});
  const std::string id = scene_.submit(scene_.endless(std::move(set)), std::move(chaos));
  if (step > 0) (void)scene_.await_step(id, step, 1);
  return id;
}

WhyScene::Burners::~Burners() {
  stop = true;
  for (std::thread& thread : threads) thread.join();
}

void WhyScene::disturb(const std::string& job, const std::string& worker) {
  const pid_t pid = runner(job, worker);
  for (const auto& task :
       std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task")) {
    const auto thread = static_cast<id_t>(std::stoi(task.path().filename().string()));
    REQUIRE(::setpriority(PRIO_PROCESS, thread, 19) == 0);
  }
  for (unsigned i = 0; i < std::thread::hardware_concurrency(); ++i) {
    burners_.threads.emplace_back([this] {
      while (!burners_.stop) {
      }
    });
  }
}

WhyAnswer WhyScene::why(const std::string& job) {
  const auto begun = std::chrono::steady_clock::now();
  const Finished done = cluster().leat("why", {job, "--json"});
  WhyAnswer answer;
  answer.took = since(begun);
  answer.text = done.out + done.err;
  INFO(answer.text);
  REQUIRE(done.exit_code == 0);
  const auto json = nlohmann::json::parse(last_object(done.out));
  answer.kind = json.at("kind");
  answer.subject = json.at("subject");
  answer.sentence = json.at("sentence");
  for (const auto& line : json.at("chain")) answer.chain.push_back(line);
  return answer;
}

WhyAnswer WhyScene::await_why(const std::string& job, const std::string& kind,
                              const std::string& subject) {
  const auto begun = std::chrono::steady_clock::now();
  const auto is_wanted = [&](const WhyAnswer& answer) {
    return answer.kind == kind && (subject.empty() || answer.subject == subject);
  };
  WhyAnswer answer = why(job);
  while (!is_wanted(answer) && since(begun) < std::chrono::minutes(1)) answer = why(job);
  answer.after_first = since(begun);
  return answer;
}

pid_t WhyScene::runner(const std::string& job, const std::string& worker) {
  const auto all = scene_.runners(must(scene_.client().job(job)));
  REQUIRE(all.contains(worker));
  return all.at(worker);
}

}  // namespace leat
