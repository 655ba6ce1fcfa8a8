// The service behind the interface Master of daemon/wire/cluster.capnp: what people ask of the
// master, over Cap'n Proto. Includes Cap'n Proto: for .cc files.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "daemon/master/job_service.h"
#include "daemon/status/status_source.h"
#include "daemon/wire/cluster.capnp.h"
#include "daemon/wire/submission.h"
#include "devices/base/files.h"
#include "transport/rpc/hello.h"
#include "transport/rpc/loop.h"

namespace leat {

class SessionHosts;

// Limits on the memory, disk and calls that clients may use in the master.
struct ClientLimits {
  bool own_jobs_alone = false;  // viewers and submitters see the jobs of their own name alone
  SubmissionLimits submit;
  uint64_t upload_bytes = uint64_t{16} << 30;        // of one uploaded file
  std::chrono::milliseconds upload_silence{60'000};  // from one byte of it to the next
  size_t uploads_bytes = 512u << 20;                 // of all that sessions hold of clients
  std::chrono::milliseconds wait{30'000};            // of watch and logs
  // At a time; one more is refused with resource_exhausted. Of one connection, and of all together.
  size_t waits = 64;  // watch and logs that wait
  size_t all_waits = 4'096;
  size_t disk_calls = 32;  // submits, lists of files, fetches and reads of them
  size_t all_disk_calls = 1'024;
  size_t streams = 16;  // files on their way in or out
  size_t all_streams = 256;
};

// Serves any number of connections. Nothing of it blocks the loop: files are listed, hashed, read
// and written on one thread of its own, "client-disk"; everything is answered in bounded time. A
// call that its client has cancelled still runs to its end, and counts against the limits of its
// connection until then.
//
//   auto clients = ClientService::start(loop, jobs, status, real_files());
//   RpcServer::listen(loop, options, [&](const RpcPeer& peer) -> kj::Maybe<Capability::Client> {
//     if (peer.role == RpcRole::client) return (*clients)->serve(peer);
//     ...
//
// Threads: any but the loop's, unless a member says otherwise.
class ClientService {
 public:
  // resource_exhausted when there is no thread to be had. All that is passed must outlive it.
  // Without `sessions` there are none.
  static Result<std::unique_ptr<ClientService>> start(RpcLoop& loop, JobService& jobs,
                                                      StatusSource& status, Files& files,
                                                      const ClientLimits& limits = {},
                                                      SessionHosts* sessions = nullptr);
  // Waits for the file that is being worked on; what `jobs` still waits for leads nowhere then.
  // REQUIRES: the server that serves it is gone, the
  // loop exists (it may have stopped).
  ~ClientService();
  ClientService(const ClientService&) = delete;
  ClientService& operator=(const ClientService&) = delete;

  // The capability of one connection. Threads: the loop's.
  wire::Master::Client serve(const RpcPeer& peer);

  struct Shared;  // of the implementation

 private:
  explicit ClientService(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}

  const std::shared_ptr<Shared> shared_;
};

}  // namespace leat
