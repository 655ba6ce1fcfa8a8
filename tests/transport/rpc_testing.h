// A server, clients and attackers for the tests of transport/rpc.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/transport/rpc_probe.capnp.h"
#include "transport/rpc/client.h"
#include "transport/rpc/loop.h"
#include "transport/rpc/server.h"

namespace leat {

using namespace std::chrono_literals;

// Makes Probe servers. Serves every role except `runner`.
RpcServer::Bootstrap probe_bootstrap(RpcLoop& loop);

RpcIdentity test_identity(RpcRole role = RpcRole::client);

// A loop with a server of Probe on it.
struct ProbeHost {
  explicit ProbeHost(RpcServerOptions options = {});
  std::unique_ptr<RpcLoop> loop;
  std::unique_ptr<RpcServer> server;
};

// Calls Probe.echo.
Result<std::string> echo(RpcClient& client, const std::string& text,
                         std::chrono::milliseconds deadline = 30s);
// Whether the connection could not be made, or has ended, before 20 echoes were answered. CHECKs
// that each answer is right: nothing that was changed on its way may be taken.
bool fails_within_echoes(const RpcClient::Connected& client);

// A client on a loop of its own.
struct ProbeCaller {
  explicit ProbeCaller(const std::string& address, RpcClientOptions options = {});
  Result<std::string> echo(const std::string& text, std::chrono::milliseconds deadline = 30s);
  std::unique_ptr<RpcLoop> loop;
  std::unique_ptr<RpcClient> client;
};

// Runs this program again in another role. Its destructor kills the process; before that only
// `waited` ends it.
class OtherProcess {
 public:
  // `settings` are environment variables.
  OtherProcess(const std::string& hidden_test, std::vector<std::string> settings);
  ~OtherProcess();
  OtherProcess(const OtherProcess&) = delete;

  // Waits for the next line of its output that begins with `word`, and returns the rest of the
  // line.
  std::string line(const std::string& word);
  void kill();
  bool running() const;
  // Returns a field of /proc/PID/status in bytes: "VmRSS", "VmSize".
  size_t memory(const std::string& field) const;

 private:
  pid_t pid_ = -1;
  int output_ = -1;
  std::string read_;
};

// A server of Probe in a process of its own. Settings: LEAT_MESSAGE_DEADLINE_MS, LEAT_DESCRIPTORS.
struct ServerProcess {
  explicit ServerProcess(std::vector<std::string> settings = {});
  size_t rss() const { return process.memory("VmRSS"); }
  // Waits until it drops a peer, and returns the reason.
  std::string reason() { return process.line("warning rpc: dropped "); }
  OtherProcess process;
  std::string address;
};
// A client that holds a number of large calls. It prints "holding" once the server has them.
inline constexpr char kHoldingClient[] = "[.rpc_holding_client]";

// A socket that sends any bytes. It blocks, and every read ends within 5 s.
class RawSocket {
 public:
  explicit RawSocket(const std::string& address);
  ~RawSocket();
  RawSocket(RawSocket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

  // Says a hello that the server accepts.
  void greet();
  // False if the other end has closed.
  bool write(const std::string& bytes);
  // Returns the bytes until the other end closed; none if it did not close in time.
  std::optional<std::string> read_to_end();
  std::string read(size_t size);
  int descriptor() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

// Return the bytes of a header of one segment that claims this number of words, and of a message.
std::string header_of(uint32_t segments_less_one, uint32_t words);

// A peer that speaks Cap'n Proto as the library does, without our limits. Used on the thread that
// made it.
class NaiveClient {
 public:
  explicit NaiveClient(const std::string& address);
  ~NaiveClient();
  probe::Probe::Client bootstrap();
  kj::WaitScope& wait_scope();
  kj::Timer& timer();
  // Runs the loop until the connection ends, for at most `within`. False if it did not end.
  bool disconnected(std::chrono::milliseconds within);

 private:
  struct Inside;
  std::unique_ptr<Inside> inside_;
};

// Sends echoes from another client all the time, and measures the slowest one.
class SteadyEchoes {
 public:
  explicit SteadyEchoes(const std::string& address);
  ~SteadyEchoes();
  // Stops. Checks that every echo was answered, and returns the longest time of one.
  std::chrono::milliseconds longest();

 private:
  struct Inside;
  std::unique_ptr<Inside> inside_;
};

// Prints the line on stderr if LEAT_REPORT is set.
void report(const std::string& line);
// Returns the allowed growth of memory. Sanitizers keep freed memory, and shadows of it.
size_t allowed_growth(size_t bytes);
std::string mebibytes(size_t bytes);

}  // namespace leat
