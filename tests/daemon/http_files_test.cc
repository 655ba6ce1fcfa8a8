// The page of a job's files, from a master's status endpoint.
#include "tests/catch.h"
#include "tests/daemon/status/status_testing.h"
#include "tests/daemon/why_scene.h"

namespace leat {
namespace {

TEST_CASE("the page of a job's files has their sizes and the job file") {
  WhyScene scene(1);
  const std::string http = scene.cluster().master().ready().http;
  const std::string id = scene.start(1, 10);
  const std::string path = "/jobs/" + id + "/files";
  CHECK_THAT(HttpClient(http).get("/jobs/" + id).body,
             Catch::Contains("href=\"" + path + "\">Its files and its job file"));
  const HttpReply page = HttpClient(http).get(path);
  CHECK(page.status == 200);
  CHECK_THAT(page.body, Catch::Contains("<td>job.yaml</td>") &&
                            Catch::Contains("<td>metrics.jsonl</td>") &&
                            Catch::Contains("\nglobal_batch_size: "));
  CHECK(HttpClient(http).get("/jobs/none/files").status == 404);
  // They stay when the job has ended.
  scene.scene().cancel(id);
  (void)scene.scene().await_end(id);
  CHECK_THAT(HttpClient(http).get(path).body, Catch::Contains("<td>job.yaml</td>"));
}

}  // namespace
}  // namespace leat
