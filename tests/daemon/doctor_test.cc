// `leat doctor`: what its findings say of machines, GPUs, clusters and jobs.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "daemon/doctor/confinement.h"
#include "daemon/doctor/gpu.h"
#include "daemon/doctor/machine.h"
#include "daemon/spec/job.h"
#include "devices/base/text.h"
#include "tests/catch.h"
#include "tests/daemon/leat_process.h"
#include "tests/daemon/process_cluster.h"
#include "tests/daemon/training_testing.h"
#include "tests/eventually.h"
#include "tests/slowness.h"
#include "tests/small_models.h"
#include "tests/temporary_directory.h"

namespace leat {
namespace {

using namespace std::chrono_literals;

MachineFacts good_machine() {
  MachineFacts facts;
  facts.cpu = "Processor of a test";
  facts.cores = 8;
  facts.instructions = {"avx2", "fma", "avx512f", "avx512_bf16", "amx_bf16"};
  facts.memory = uint64_t{64} << 30;
  facts.free_memory = uint64_t{60} << 30;
  facts.open_files = 1 << 20;
  facts.folder = "/work";
  facts.free_disk = uint64_t{100} << 30;
  return facts;
}

// The finding about that subject. REQUIRES: there is one.
const Finding& about(const Findings& findings, const std::string& subject) {
  for (const Finding& each : findings) {
    if (each.subject == subject) return each;
  }
  FAIL("no finding about " << subject);
  throw 0;
}

bool has(const Findings& findings, const std::string& subject) {
  return std::any_of(findings.begin(), findings.end(),
                     [&](const Finding& each) { return each.subject == subject; });
}

TEST_CASE("a machine that has all that jobs need has no notes") {
  for (const Finding& each : judge_machine(good_machine())) {
    INFO(each.subject << ": " << each.found);
    CHECK(each.verdict == FindingVerdict::fine);
    CHECK_FALSE(each.found.empty());
  }
  CHECK(about(judge_machine(good_machine()), "processor").found ==
        "Processor of a test, 8 cores, AVX-512, AMX");
}

TEST_CASE("a lack of the machine is a note, or a problem if it stops jobs") {
  MachineFacts facts = good_machine();
  std::string subject, says;
  FindingVerdict verdict = FindingVerdict::note;
  SECTION("no AVX2") {
    facts.instructions = {"fma"};
    subject = "processor", says = "without AVX2";
  }
  SECTION("no bfloat16") {
    facts.instructions = {"avx2", "fma"};
    subject = "processor", says = "gains no speed here", verdict = FindingVerdict::fine;
  }
  SECTION("little memory") {
    facts.free_memory = 1 << 20;
    subject = "memory", says = "may not fit";
  }
  SECTION("few files") {
    facts.open_files = 256;
    subject = "open files", says = "LimitNOFILE";
  }
  SECTION("no shared memory") {
    facts.shared_memory = unavailable("sealing a memory file: Operation not permitted");
    subject = "shared memory", says = "over TCP";
  }
  SECTION("no loopback") {
    facts.loopback = unavailable("binding a socket: Cannot assign requested address");
    subject = "loopback", says = "ip link set lo up", verdict = FindingVerdict::problem;
  }
  SECTION("a folder that cannot be written") {
    facts.folder_is_writable = unavailable("making a folder: Read-only file system");
    subject = "folder", says = "--output", verdict = FindingVerdict::problem;
  }
  SECTION("a full disk") {
    facts.free_disk = 4096;
    subject = "folder", says = "checkpoints";
  }
  const Findings findings = judge_machine(facts);
  const Finding& finding = about(findings, subject);
  CHECK(finding.verdict == verdict);
  CHECK_THAT(finding.advice, Catch::Contains(says));
  const auto others = std::count_if(findings.begin(), findings.end(), [](const Finding& each) {
    return each.verdict != FindingVerdict::fine;
  });
  CHECK(others == (verdict == FindingVerdict::fine ? 0 : 1));
}

GpuFacts good_gpus() {
  GpuFacts facts;
  facts.device_files = 1;
  facts.module = "580.65.06";
  facts.driver = "13.0";
  facts.gpus = {{"NVIDIA H100 80GB HBM3", 9, 0, uint64_t{79} << 30}};
  facts.libraries = {{"cuDNN", "9.19.0", ""}, {"NCCL", "2.28.9", ""}};
  return facts;
}

TEST_CASE("GPUs are listed with their driver and libraries, and what is missing is a note") {
  GpuFacts facts = good_gpus();
  SECTION("all is there") {
    const Findings findings = judge_gpus(facts);
    CHECK(about(findings, "GPU driver").found == "CUDA up to 13.0, kernel module 580.65.06");
    CHECK_THAT(about(findings, "GPU 0").found, Catch::Contains("H100"));
    CHECK_THAT(about(findings, "GPU 0").found, Catch::Contains("compute capability 9.0"));
    CHECK(about(findings, "cuDNN").found == "9.19.0");
    CHECK(about(findings, "GPU plugin").verdict == FindingVerdict::fine);
    facts.plugin_error = "plugin 'cuda': no such file";
    const Finding without = about(judge_gpus(facts), "GPU plugin");
    CHECK(without.verdict == FindingVerdict::note);
    CHECK_THAT(without.found, Catch::Contains("no such file"));
  }
  SECTION("a library is missing") {
    facts.libraries[0] = {"cuDNN", "", "libcudnn.so.9: cannot open shared object file"};
    const Findings findings = judge_gpus(facts);
    CHECK(about(findings, "cuDNN").verdict == FindingVerdict::note);
    CHECK_THAT(about(findings, "cuDNN").found, Catch::StartsWith("libcudnn.so.9: "));
  }
  SECTION("a library is of another version than the plugin loads") {
    facts.libraries[0] = {"cuBLASLt", "12.8.4", "", "libcublasLt.so.13", "libcublasLt.so.12"};
    const Finding finding = about(judge_gpus(facts), "cuBLASLt");
    CHECK(finding.verdict == FindingVerdict::note);
    CHECK(finding.found == "expected libcublasLt.so.13, received libcublasLt.so.12 (12.8.4)");
    CHECK_THAT(finding.advice, Catch::Contains("install the one of CUDA 13"));
    facts.libraries[0].received = "libcublasLt.so.13";
    CHECK(about(judge_gpus(facts), "cuBLASLt").verdict == FindingVerdict::fine);
  }
  SECTION("the driver is too old for CUDA 13") {
    facts.driver = "12.4";
    facts.module = "550.54.15";
    const Finding finding = about(judge_gpus(facts), "GPU driver");
    CHECK(finding.verdict == FindingVerdict::note);
    CHECK(finding.found ==
          "expected a driver for CUDA 13.0 or newer, received one for CUDA up to 12.4, kernel "
          "module 550.54.15");
    CHECK_THAT(finding.advice, Catch::Contains("driver 580 or newer"));
  }
  SECTION("the plugin has no code for a GPU") {
    facts.architectures = "75-real,80-real,90-virtual";
    CHECK(about(judge_gpus(facts), "GPU 0").verdict == FindingVerdict::fine);
    facts.gpus[0].major = 6;
    facts.gpus[0].minor = 1;
    const Finding old = about(judge_gpus(facts), "GPU 0");
    CHECK(old.verdict == FindingVerdict::note);
    CHECK_THAT(old.found, Catch::EndsWith("compute capability 6.1: expected an architecture that "
                                          "the plugin has code for (75-real,80-real,90-virtual), "
                                          "received 6.1"));
    CHECK_THAT(old.advice, Catch::Contains("CUDA 13 has no code for such GPUs"));
    facts.architectures = "90-real";
    facts.gpus[0].major = 8;
    facts.gpus[0].minor = 9;
    CHECK(about(judge_gpus(facts), "GPU 0").advice ==
          "'deploy/build-cuda 89-real' builds the plugin for it");
  }
  SECTION("other processes use a GPU's memory") {
    facts.gpus[0].free = uint64_t{300} << 20;
    const Finding finding = about(judge_gpus(facts), "GPU 0");
    CHECK(finding.verdict == FindingVerdict::note);
    CHECK_THAT(finding.found,
               Catch::EndsWith("expected 1.0 GiB of free memory at least, received 300.0 MiB"));
    CHECK_THAT(finding.advice, Catch::Contains("nvidia-smi"));
    facts.gpus[0].free = uint64_t{2} << 30;
    CHECK(about(judge_gpus(facts), "GPU 0").verdict == FindingVerdict::fine);
  }
  SECTION("the driver's library is missing") {
    facts.driver_error = "libcuda.so.1: cannot open shared object file";
    facts.gpus.clear();
    const Findings findings = judge_gpus(facts);
    CHECK(about(findings, "GPU driver").verdict == FindingVerdict::note);
    CHECK_THAT(about(findings, "GPU driver").advice, Catch::Contains("the same version"));
    CHECK_FALSE(has(findings, "GPU 0"));
  }
  SECTION("the kernel module is missing") {
    facts.driver_error = "cuInit: error 999";
    facts.module = "";
    facts.gpus.clear();
    CHECK_THAT(about(judge_gpus(facts), "GPU driver").advice,
               Catch::Contains("install the driver"));
  }
  SECTION("the environment hides all GPUs") {
    facts.gpus.clear();
    facts.is_limited = true;
    CHECK(about(judge_gpus(facts), "GPU").advice == "CUDA_VISIBLE_DEVICES is ''");
  }
  SECTION("a machine without GPUs") {
    facts = GpuFacts();
    facts.driver_error = "libcuda.so.1: cannot open shared object file";
    facts.libraries = {{"cuDNN", "", "libcudnn.so.9: cannot open shared object file"}};
    const Findings findings = judge_gpus(facts);
    REQUIRE(findings.size() == 1);
    CHECK(findings[0].verdict == FindingVerdict::fine);
    CHECK_THAT(findings[0].found, Catch::StartsWith("no NVIDIA GPU"));
  }
}

void write_line(const std::string& path, const char* line) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path) << line << "\n";
}

TEST_CASE("the doctor names the networks that NCCL would use, and what keeps it from RDMA") {
  const TemporaryDirectory root;
  const auto port = [&](const char* at, const char* state, const char* layer, const char* rate) {
    const std::string folder = root / cat("sys/class/infiniband/", at, "/");
    write_line(folder + "state", state);
    write_line(folder + "link_layer", layer);
    write_line(folder + "rate", rate);
  };
  const std::string verbs = root / "dev/infiniband/uverbs0";
  std::map<std::string, std::string> environment;
  std::string verbs_error;
  const auto finding = [&] {
    NetworkFacts facts = read_networks(
        root.path(), [&](const char* name) -> std::string { return environment[name]; });
    facts.interfaces = {"lo", "eth0"};
    facts.verbs_error = verbs_error;
    return judge_networks(facts);
  };
  CHECK(finding().found == "no RDMA: NCCL would use TCP over eth0");
  CHECK(finding().verdict == FindingVerdict::fine);
  port("mlx5_0/ports/1", "4: ACTIVE", "InfiniBand", "400 Gb/sec (4X NDR)");
  // Without what NCCL opens a port by, an ACTIVE one is of no use.
  CHECK(finding().found ==
        "no RDMA (no /dev/infiniband/uverbs* that this process may open): NCCL would use TCP over "
        "eth0; not used: mlx5_0:1 InfiniBand, ACTIVE, 400 Gb/sec (4X NDR)");
  CHECK(finding().verdict == FindingVerdict::note);
  CHECK_THAT(finding().advice, Catch::Contains("/dev/infiniband"));
  write_line(root / "dev/infiniband/rdma_cm", "");
  CHECK_THAT(finding().found, Catch::StartsWith("no RDMA (no /dev/infiniband/uverbs*"));
  write_line(verbs, "");
  CHECK_THAT(finding().found, Catch::StartsWith("RDMA by mlx5_0:1 "));
  CHECK(finding().verdict == FindingVerdict::fine);
  verbs_error = "libibverbs.so.1: no such file";
  CHECK_THAT(finding().found, Catch::StartsWith("no RDMA (libibverbs.so.1: no such file): NCCL "));
  CHECK(finding().verdict == FindingVerdict::note);
  CHECK_THAT(finding().advice, Catch::Contains("libibverbs.so.1"));
  verbs_error.clear();
  port("mlx5_1/ports/1", "1: DOWN", "InfiniBand", "10 Gb/sec (4X SDR)");
  port("mlx5_10/ports/1", "4: ACTIVE", "Ethernet", "100 Gb/sec (4X EDR)");
  CHECK(finding().found ==
        "RDMA by mlx5_0:1 InfiniBand, ACTIVE, 400 Gb/sec (4X NDR); mlx5_10:1 Ethernet (RoCE), "
        "ACTIVE, 100 Gb/sec (4X EDR); not used: mlx5_1:1 InfiniBand, DOWN, 10 Gb/sec (4X SDR)");
  // A name stands for all that begin with it, unless "=" is before the list.
  environment["NCCL_IB_HCA"] = "mlx5_1";
  CHECK_THAT(finding().found, Catch::StartsWith("RDMA by mlx5_10:1 "));
  CHECK_THAT(finding().found, Catch::EndsWith("; NCCL_IB_HCA is 'mlx5_1'"));
  environment["NCCL_IB_HCA"] = "^mlx5_10";
  CHECK_THAT(finding().found, Catch::StartsWith("RDMA by mlx5_0:1 "));
  environment["NCCL_IB_HCA"] = "=mlx5_1,mlx5_0:2";
  CHECK_THAT(finding().found, Catch::StartsWith("no RDMA: NCCL would use TCP over eth0; not used"));
  CHECK(finding().verdict == FindingVerdict::note);
  CHECK_THAT(finding().advice, Catch::Contains("NCCL_IB_HCA"));
  environment["NCCL_IB_HCA"] = "=mlx5_1,mlx5_0:1";
  CHECK_THAT(finding().found, Catch::StartsWith("RDMA by mlx5_0:1 "));
  environment = {{"NCCL_IB_DISABLE", "1"}, {"NCCL_SOCKET_IFNAME", "=lo"}};
  CHECK_THAT(finding().found, Catch::StartsWith("no RDMA: NCCL would use TCP over lo; not used"));
  CHECK_THAT(finding().found,
             Catch::EndsWith("; NCCL_IB_DISABLE is '1'; NCCL_SOCKET_IFNAME is '=lo'"));
  CHECK(finding().verdict == FindingVerdict::fine);
  environment["NCCL_SOCKET_IFNAME"] = "eth1";
  CHECK_THAT(finding().found, Catch::StartsWith("no RDMA: NCCL would use TCP over no interface"));
  CHECK(finding().verdict == FindingVerdict::note);
  GpuFacts facts = good_gpus();
  facts.network.interfaces = {"eth0"};
  CHECK(about(judge_gpus(facts), "GPU network").found == "no RDMA: NCCL would use TCP over eth0");
}

TEST_CASE("the doctor reads NCCL's lists of interfaces and ports as NCCL does") {
  NetworkFacts facts;
  const auto tcp = [&](std::vector<std::string> interfaces, const std::string& list = "") {
    facts.interfaces = std::move(interfaces);
    facts.socket_ifname = list;
    const std::string found = judge_networks(facts).found,
                      before = "no RDMA: NCCL would use TCP over ";
    REQUIRE_THAT(found, Catch::StartsWith(before));
    return found.substr(before.size(), found.find(';') - before.size());
  };
  // Without a list.
  CHECK(tcp({"lo", "eth0", "ib0", "ib1"}) == "ib0, ib1");
  CHECK(tcp({"lo", "docker0", "virbr0", "eth0", "wlan0"}) == "eth0, wlan0");
  CHECK(tcp({"virbr0", "lo", "docker0"}) == "docker0");
  CHECK(tcp({"virbr0", "lo"}) == "lo");
  CHECK(tcp({"virbr0"}) == "virbr0");
  CHECK(tcp({}) == "no interface");
  // With one: ports do not count, and a single character is no list.
  CHECK(tcp({"lo", "eth0", "eth1"}, "eth0:1") == "eth0");
  CHECK(tcp({"lo", "eth0", "eth1"}, "^eth0:1") == "lo, eth1");
  CHECK(tcp({"lo", "eth0"}, "^") == "eth0");
  CHECK(tcp({"lo", "eth0"}, "^=") == "no interface");
  facts.ports = {{"mlx5_0", 1, "ACTIVE", "InfiniBand", ""},
                 {"mlx5_1", 2, "ACTIVE", "InfiniBand", ""}};
  facts.verbs_devices = {"uverbs0"};
  const auto rdma = [&](const std::string& list) {
    facts.ib_hca = list;
    const std::string found = judge_networks(facts).found;
    return found.substr(0, found.find_first_of(",:"));
  };
  const auto unused = [&] {
    return judge_networks(facts).found.find("not used") != std::string::npos;
  };
  for (const char* all : {"", "=", ","}) {
    INFO("'" << all << "'");
    CHECK(rdma(all) == "RDMA by mlx5_0");
    CHECK_FALSE(unused());
  }
  CHECK(rdma("^") == "no RDMA");
  CHECK(rdma("^=") == "no RDMA");
  CHECK(rdma("mlx5_1:2") == "RDMA by mlx5_1");
  CHECK(rdma("mlx5_1:1") == "no RDMA");
  CHECK(rdma("^mlx5_0:1") == "RDMA by mlx5_1");
}

TEST_CASE("the interfaces of this machine have an address, and are named once") {
  const std::vector<std::string> names = interfaces_with_address();
  CHECK(std::set<std::string>(names.begin(), names.end()).size() == names.size());
  for (const std::string& name : names) {
    INFO(name);
    CHECK(std::filesystem::exists("/sys/class/net/" + name));
  }
}

TEST_CASE("NCCL_NET decides for or against RDMA, or names a plugin that the doctor does not know") {
  NetworkFacts facts;
  facts.ports = {{"mlx5_0", 1, "ACTIVE", "InfiniBand", ""}};
  facts.verbs_devices = {"uverbs0"};
  facts.interfaces = {"eth0"};
  facts.net = "socket";
  CHECK(judge_networks(facts).found ==
        "no RDMA: NCCL would use TCP over eth0; not used: mlx5_0:1 InfiniBand, ACTIVE; NCCL_NET is "
        "'socket'");
  CHECK(judge_networks(facts).verdict == FindingVerdict::fine);
  facts.net = "IB";
  CHECK(judge_networks(facts).found == "RDMA by mlx5_0:1 InfiniBand, ACTIVE; NCCL_NET is 'IB'");
  facts.ports[0].state = "DOWN";
  CHECK_THAT(judge_networks(facts).found, Catch::StartsWith("no RDMA, and NCCL would end; "));
  CHECK(judge_networks(facts).verdict == FindingVerdict::note);
  facts.net = "AWS Libfabric";
  CHECK(judge_networks(facts).found == "by a plugin of NCCL; NCCL_NET is 'AWS Libfabric'");
  CHECK(judge_networks(facts).verdict == FindingVerdict::note);
}

TEST_CASE("a driver that crashes or hangs costs the doctor one finding") {
  SECTION("it answers") {
    const Findings findings = examine_apart(
        [] {
          return Findings{{"GPU 0", FindingVerdict::fine, "a model, with commas", ""},
                          {"cuDNN", FindingVerdict::note, "", "install it"}};
        },
        20s);
    REQUIRE(findings.size() == 2);
    CHECK(findings[0].subject == "GPU 0");
    CHECK(findings[0].found == "a model, with commas");
    CHECK(findings[0].advice.empty());
    CHECK(findings[1].verdict == FindingVerdict::note);
    CHECK(findings[1].advice == "install it");
  }
  SECTION("it crashes") {
    const Findings findings = examine_apart(
        [] {
          ::kill(::getpid(), SIGKILL);
          return Findings();
        },
        20s);
    REQUIRE(findings.size() == 1);
    CHECK(findings[0].verdict == FindingVerdict::note);
    CHECK(findings[0].found == "asking it ended by signal 9");
  }
  SECTION("it hangs") {
    const auto begun = std::chrono::steady_clock::now();
    const Findings findings = examine_apart(
        [] {
          while (true) ::pause();
          return Findings();
        },
        300ms);
    REQUIRE(findings.size() == 1);
    CHECK(findings[0].found == "it did not answer within 0.3 s");
    CHECK(std::chrono::steady_clock::now() - begun < 10s);
  }
}

TEST_CASE(
    "the doctor tells of each layer of a runner's confinement whether it can be had, and why") {
  ConfineAbilities abilities;
  abilities.landlock = 7;
  Findings findings = judge_confinement(expected_layers(abilities, false));
  REQUIRE(findings.size() == kConfineLayers);
  for (const Finding& each : findings) CHECK(each.verdict == FindingVerdict::fine);
  CHECK(about(findings, "files").found == "Landlock 7");
  CHECK_THAT(about(findings, "own network").found, Catch::StartsWith("not had: runners dial"));
  abilities.user = failed_precondition("the worker is not root and lacks CAP_SETUID");
  abilities.files = unavailable("the kernel has no Landlock");
  findings = judge_confinement(expected_layers(abilities, false));
  CHECK(about(findings, "own user").verdict == FindingVerdict::note);
  CHECK(about(findings, "own user").found ==
        "not had: the worker is not root and lacks CAP_SETUID");
  CHECK_THAT(about(findings, "own user").advice, Catch::Contains("runner.confine"));
  CHECK_THAT(about(findings, "files").advice, Catch::Contains("lsm="));
  CHECK(about(findings, "own root").verdict == FindingVerdict::note);
  CHECK(about(findings, "own processes").verdict == FindingVerdict::fine);
  findings = judge_confinement(expected_layers({}, true));
  CHECK_THAT(about(findings, "own user").found, Catch::Contains("local_paths"));
}

// The lines of `leat doctor --json`.
std::vector<nlohmann::json> lines_of(const Finished& done) {
  std::vector<nlohmann::json> lines;
  std::istringstream in(done.out);
  for (std::string line; std::getline(in, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

nlohmann::json line_about(const std::vector<nlohmann::json>& lines, const std::string& subject) {
  for (const auto& line : lines) {
    if (line.at("subject") == subject) return line;
  }
  return {};
}

// The driver is a stub (tests/stub_driver), and the plugin that of tests/async_plugin.cc.
TEST_CASE("the doctor reads the driver, the GPU and its free memory from NVIDIA's libraries") {
  const TemporaryDirectory folder;
  const auto examined = [&](std::vector<std::string> environment) {
    environment.push_back(cat("LD_LIBRARY_PATH=", LEAT_STUB_DRIVER));
    environment.push_back(cat("LEAT_PLUGINS=", LEAT_ASYNC_PLUGINS));
    const Finished done =
        run_program(leat_binary(), folder.path(), {"doctor", "--json"}, environment);
    INFO(done.out << done.err);
    return lines_of(done);
  };
  const auto found = [](const std::vector<nlohmann::json>& lines, const std::string& subject) {
    return line_about(lines, subject).value("found", "");
  };
  const auto good = examined({});
  CHECK_THAT(found(good, "GPU driver"), Catch::StartsWith("CUDA up to 13.0"));
  CHECK(found(good, "GPU 0") == "Stub GPU, 16.0 GiB, compute capability 9.0");
  CHECK(line_about(good, "GPU 0").value("verdict", "") == "ok");
  CHECK(line_about(good, "GPU plugin").value("verdict", "") == "ok");
  CHECK_THAT(found(examined({"LEAT_STUB_CUDA=12040"}), "GPU driver"),
             Catch::StartsWith("expected a driver for CUDA 13.0 or newer, received one for CUDA up "
                               "to 12.4"));
  const auto older = examined({"LEAT_STUB_CAPABILITY=86"});
  CHECK(line_about(older, "GPU 0").value("verdict", "") == "note");
  CHECK_THAT(found(older, "GPU 0"), Catch::EndsWith("(90-real), received 8.6"));
  CHECK_THAT(found(examined({"LEAT_STUB_FREE=314572800"}), "GPU 0"),
             Catch::EndsWith("expected 1.0 GiB of free memory at least, received 300.0 MiB"));
}

TEST_CASE("the doctor looks at a job, and says what would stop it") {
  const SmallJob small(kTinyDense);
  std::ofstream(small.path("good.yaml")) << print_job(small.job({"num_workers=2"}));
  std::ofstream(small.path("bad.yaml")) << print_job(small.job({"num_workers=2"})) << "colour: 3\n";
  const Finished good = run_leat(small.path(), {"doctor", "good.yaml"});
  INFO(good.out << good.err);
  CHECK(good.exit_code == 0);
  CHECK_THAT(good.out, Catch::Contains("machine\n  ok       processor"));
  CHECK_THAT(good.out, Catch::Contains("job\n  ok       job file       'small'"));
  CHECK_THAT(good.out, Catch::Contains(" for all 2"));
  const Finished bad = run_leat(small.path(), {"doctor", "bad.yaml"});
  CHECK(bad.exit_code == 1);
  CHECK_THAT(bad.out, Catch::Contains("problem  job file"));
  CHECK_THAT(bad.out, Catch::Contains("colour"));
  CHECK_THAT(bad.out, Catch::EndsWith("1 problem would stop a job\n"));
  const auto changed = lines_of(
      run_leat(small.path(), {"doctor", "good.yaml", "--set", "model.graph=none.onnx", "--json"}));
  CHECK(line_about(changed, "job file").at("verdict") == "ok");
  CHECK(line_about(changed, "model, data").at("verdict") == "problem");
  CHECK_THAT(line_about(changed, "model, data").at("found").get<std::string>(),
             Catch::Contains("none.onnx"));
}

TEST_CASE("the doctor asks the cluster that is named") {
  const TemporaryDirectory folder;
  const Finished none = run_leat(folder.path(), {"doctor", "--json", "--master", "127.0.0.1:1"});
  INFO(none.out << none.err);
  CHECK(none.exit_code == 1);
  CHECK(line_about(lines_of(none), "master").at("verdict") == "problem");
  ProcessClusterOptions options;
  options.workers = 1;
  ProcessCluster cluster(options);
  REQUIRE(cluster.await_ready(1));
  const auto there = lines_of(cluster.leat("doctor", {"--json"}));
  CHECK(line_about(there, "master").at("verdict") == "ok");
  CHECK(line_about(there, "workers").at("found") == "1 READY");
  cluster.worker(0).stop();
  CHECK(eventually(
      [&] {
        const Finished alone = cluster.leat("doctor", {"--json"});
        return alone.exit_code == 1 &&
               line_about(lines_of(alone), "workers").at("verdict") == "problem";
      },
      20s * kSlowness, 50ms));
}

}  // namespace
}  // namespace leat
