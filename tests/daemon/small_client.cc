#include "tests/daemon/small_client.h"

#include <utility>

#include "daemon/spec/job.h"
#include "tests/must.h"

namespace leat {

std::unique_ptr<ClusterClient> client_of(LeatdProcess& master) {
  ClusterClientOptions options;
  options.address = master.ready().listen;
  return must(ClusterClient::connect(std::move(options)));
}

JobRequest request_of(const SmallJob& small, Job job) {
  job.data.root = "data";
  job.model.graph = "model.onnxtxt";
  JobRequest request;
  request.request_id = new_request_id();
  request.text = print_job(job);
  request.files.push_back({"model.onnxtxt", small.path("model.onnxtxt")});
  return request;
}

}  // namespace leat
