// A runner that is hostile: it starts like every runner, by start_runner(), and then tries to get
// at all that is not its job's. A test starts it in place of `leatd runner`, through the code of
// the worker, and reads its lines:
//
//   layers: confined by own user (70003), ...
//   <what it tried>: refused (EPERM)
//   <what it tried>: HAPPENED
//
// The file `targets` of its data set "targets" has the places that it tries, a name and a value in
// each line. The runner of the job "job-2" tries nothing: it is the other one's victim.
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/keyctl.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "daemon/runner/arrivals.h"
#include "daemon/runner/runner_start.h"
#include "devices/base/failpoint.h"
#include "devices/base/text.h"
#include "transport/io/handshake.h"
#include "transport/io/listener.h"
#include "transport/io/reactor.h"
#include "transport/rpc/grant.h"

namespace leat {
namespace {

using namespace std::chrono_literals;

// True if it happened; else errno has the reason.
using Attempt = std::function<bool()>;

std::map<std::string, std::string> targets;
RunnerConfig config;

std::string target(const std::string& name) { return targets[name]; }
pid_t process(const std::string& name) { return std::stoi(targets[name]); }
std::string proc(const std::string& name, const std::string& file) {
  return cat("/proc/", targets[name], "/", file);
}

bool opens(const std::string& path, int flags = O_RDONLY) {
  const int fd = ::open(path.c_str(), flags | O_CLOEXEC, 0600);
  if (fd >= 0) ::close(fd);
  return fd >= 0;
}
bool reads(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  char byte;
  const bool got = ::read(fd, &byte, 1) >= 0;
  ::close(fd);
  return got;
}
bool lists(const std::string& path) {
  DIR* folder = ::opendir(path.c_str());
  if (folder != nullptr) ::closedir(folder);
  return folder != nullptr;
}
bool call(long result) { return result >= 0; }

// Lists /proc, and finds a process that is not this one.
bool sees_other_processes() {
  DIR* folder = ::opendir("/proc");
  if (folder == nullptr) return false;
  bool found = false;
  while (const dirent* each = ::readdir(folder)) {
    const int number = std::atoi(each->d_name);
    found = found || (number > 0 && number != ::getpid());
  }
  ::closedir(folder);
  errno = ESRCH;
  return found;
}

// A child that exists has happened; it ends at once.
bool ends_child(long child) {
  if (child == 0) ::_exit(0);
  if (child > 0) ::waitpid(static_cast<pid_t>(child), nullptr, 0);
  return child > 0;
}

bool connects(const std::string& name, bool is_abstract) {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + (is_abstract ? 1 : 0), name.data(), name.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size() + 1);
  const bool done = ::connect(fd, reinterpret_cast<sockaddr*>(&address), size) == 0;
  const int error = errno;
  ::close(fd);
  errno = error;
  return done;
}

// Looks for sockets of other runners in the kernel's list, and connects to them.
bool finds_sockets() {
  std::ifstream list("/proc/self/net/unix");
  errno = ENOENT;
  for (std::string line; std::getline(list, line);) {
    const size_t at = line.find(" /");
    if (at == std::string::npos) continue;
    const std::string path = line.substr(at + 1);
    if (path.find("peers") == std::string::npos && path.find("leat-test") == std::string::npos)
      continue;
    if (path.size() < sizeof(sockaddr_un::sun_path) && connects(path, false)) return true;
  }
  return false;
}

// Connects to the other job's socket, whose path the test has told, without the job's key.
bool joins_other_job() {
  LinkHello hello;
  hello.role = SocketRole::shm;
  const auto done = dial(cat("unix:", target("other_folder"), "/peers"), hello, RunKey{},
                         std::chrono::steady_clock::now() + 5s);
  std::printf("the other job's socket: %s\n", done.status().message().c_str());
  errno = EACCES;
  return done.ok();
}

bool makes_socket(int family, int kind, int protocol = 0) {
  const int fd = ::socket(family, kind, protocol);
  if (fd >= 0) ::close(fd);
  return fd >= 0;
}

bool binds_port(int kind) {
  const int fd = ::socket(AF_INET, kind, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  const bool done = ::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  const int error = errno;
  ::close(fd);
  errno = error;
  return done;
}

bool listens() {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  const bool done = ::listen(fd, 1) == 0;
  const int error = errno;
  ::close(fd);
  errno = error;
  return done;
}

// Starts threads without an end, up to `most`.
bool starts_threads(size_t most) {
  static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
  std::vector<pthread_t> threads;
  pthread_attr_t small;
  ::pthread_attr_init(&small);
  ::pthread_attr_setstacksize(&small, 64 << 10);
  // They wait for the mutex, and end one after the other once it is free.
  ::pthread_mutex_lock(&gate);
  int error = 0;
  while (threads.size() < most && error == 0) {
    pthread_t thread;
    error = ::pthread_create(
        &thread, &small,
        [](void*) -> void* {
          ::pthread_mutex_lock(&gate);
          ::pthread_mutex_unlock(&gate);
          return nullptr;
        },
        nullptr);
    if (error == 0) threads.push_back(thread);
  }
  ::pthread_mutex_unlock(&gate);
  for (const pthread_t thread : threads) ::pthread_join(thread, nullptr);
  errno = error;
  return error == 0;
}

// Descriptors that a start should have closed: all but the standard ones, the worker's socket, the
// signals and the pinned paths of /proc.
bool has_inherited() {
  errno = EBADF;
  for (int fd = 4; fd < 4096; ++fd) {
    const int flags = ::fcntl(fd, F_GETFL);
    if (flags < 0 || (flags & O_PATH) != 0) continue;
    std::error_code error;
    const auto name = std::filesystem::read_symlink(cat("/proc/self/fd/", fd), error).string();
    if (name.find("signalfd") != std::string::npos) continue;
    if (error) {  // /proc/self/fd is closed to this process, too: look at the kind
      struct stat about {};
      ::fstat(fd, &about);
      if ((about.st_mode & S_IFMT) == 0) continue;  // an anonymous one, such as the signals
    }
    std::printf("descriptor %d: %s\n", fd, name.c_str());
    return true;
  }
  return false;
}

bool has_variable(const char* name) {
  errno = ENOENT;
  return ::getenv(name) != nullptr;
}

bool raises_limit(int which) {
  rlimit limit{};
  ::getrlimit(static_cast<__rlimit_resource>(which), &limit);
  ++limit.rlim_max;
  limit.rlim_cur = limit.rlim_max;
  return call(::setrlimit(static_cast<__rlimit_resource>(which), &limit));
}

bool runs_from_memory() {
  const int fd = ::memfd_create("program", 0);
  std::ifstream in("/proc/self/exe", std::ios::binary);
  char head[4096] = {};
  in.read(head, sizeof head);
  (void)!::write(fd, head, sizeof head);
  char* const none[] = {nullptr};
  return call(::syscall(SYS_execveat, fd, "", none, none, AT_EMPTY_PATH));
}

bool grows_memory_file() {
  const int fd = ::memfd_create("large", 0);
  const bool done = ::ftruncate(fd, off_t{1} << 50) == 0;
  const int error = errno;
  ::close(fd);
  errno = error;
  return done;
}

bool reads_memory_of(const std::string& name) {
  char byte = 0;
  const iovec here{&byte, 1}, there{reinterpret_cast<void*>(std::stoull(target("address"))), 1};
  return call(::process_vm_readv(process(name), &here, 1, &there, 1, 0));
}
bool writes_memory_of(const std::string& name) {
  char byte = 0;
  const iovec here{&byte, 1}, there{reinterpret_cast<void*>(std::stoull(target("address"))), 1};
  return call(::process_vm_writev(process(name), &here, 1, &there, 1, 0));
}

struct Named {
  std::string name;
  Attempt attempt;
};

// These come first: later attempts open some of their own.
std::vector<Named> descriptors() { return {{"use inherited descriptors", has_inherited}}; }

// Files, sockets and memory of the daemon, of the other job, and of the machine.
std::vector<Named> files() {
  const std::string data = config.datasets.at("data"), room = config.directory;
  return {
      {"read the cluster's secret", [] { return reads(target("secret")); }},
      {"list the worker's state", [] { return lists(target("state")); }},
      {"read the worker's lock", [] { return reads(target("state") + "/lock"); }},
      {"write into the worker's state",
       [] { return opens(target("state") + "/x", O_CREAT | O_WRONLY); }},
      {"read data that are not granted", [] { return reads(target("other_data") + "/file"); }},
      {"list data that are not granted", [] { return lists(target("other_data")); }},
      {"reach them by ..", [=] { return reads(data + "/../other/file"); }},
      {"overwrite granted data", [=] { return opens(data + "/file", O_WRONLY); }},
      {"cut granted data", [=] { return call(::truncate((data + "/file").c_str(), 0)); }},
      {"add to granted data", [=] { return opens(data + "/new", O_CREAT | O_WRONLY); }},
      {"remove granted data", [=] { return call(::unlink((data + "/file").c_str())); }},
      {"open granted data to others",
       [=] { return call(::chmod((data + "/file").c_str(), 0777)); }},
      {"list the other runner's directory", [] { return lists(target("other_folder")); }},
      {"write into it", [] { return opens(target("other_folder") + "/x", O_CREAT | O_WRONLY); }},
      {"remove its socket",
       [] { return call(::unlink((target("other_folder") + "/peers").c_str())); }},
      {"list the runners' directories", [] { return lists(target("rooms")); }},
      {"join the other job by its socket", joins_other_job},
      {"find sockets in the kernel's list", finds_sockets},
      {"connect to a socket of the daemon", [] { return connects(target("socket"), false); }},
      {"connect to an abstract socket", [] { return connects(target("abstract"), true); }},
      {"read /etc/shadow", [] { return reads("/etc/shadow"); }},
      {"read /etc/passwd", [] { return reads("/etc/passwd"); }},
      {"write /etc/passwd", [] { return opens("/etc/passwd", O_WRONLY); }},
      {"write into /tmp", [] { return opens("/tmp/leat-hostile", O_CREAT | O_WRONLY); }},
      {"fill the disk from its directory",
       [=] { return opens(room + "/large", O_CREAT | O_WRONLY); }},
      {"fill the disk from its working folder", [] { return opens("large", O_CREAT | O_WRONLY); }},
      {"make a folder", [=] { return call(::mkdir((room + "/d").c_str(), 0700)); }},
      {"make a link to a file of others",
       [=] { return call(::link("/etc/passwd", (room + "/l").c_str())); }},
      {"make a device",
       [=] { return call(::mknod((room + "/n").c_str(), S_IFCHR | 0600, 0x103)); }},
      {"grow a memory file to 1 PiB", grows_memory_file},
      {"open a shared memory object",
       [] { return call(::shm_open(target("shm").c_str(), O_RDWR, 0)); }},
      {"make a shared memory object",
       [] { return call(::shm_open("/leat-hostile", O_RDWR | O_CREAT, 0600)); }},
      {"open System V shared memory",
       [] { return call(::shmget(std::stoi(target("shm_key")), 4096, 0)); }},
      {"make a message queue",
       [] { return call(::mq_open("/leat-hostile", O_RDWR | O_CREAT, 0600, nullptr)); }},
      {"read the machine's memory", [] { return opens("/dev/mem"); }},
      {"read the machine's disk", [] { return opens("/dev/vda") || opens("/dev/sda"); }},
      {"open the terminal", [] { return opens("/dev/tty", O_RDWR); }},
      {"set the kernel's core pattern",
       [] { return opens("/proc/sys/kernel/core_pattern", O_WRONLY); }},
      {"escape by a cgroup",
       [] {
         return opens("/sys/fs/cgroup/cgroup.procs", O_WRONLY) ||
                opens("/sys/fs/cgroup/pids/tasks", O_WRONLY);
       }},
      {"open a file by its handle",
       [] {
         char handle[128] = {};
         return call(::syscall(SYS_open_by_handle_at, AT_FDCWD, handle, O_RDONLY));
       }},
  };
}

// The daemon and the other runner as processes.
std::vector<Named> processes() {
  std::vector<Named> all;
  for (const char* const who : {"daemon", "other"}) {
    const std::string of = cat(" of the ", who);
    for (const char* const file : {"mem", "environ", "cmdline", "maps", "stat", "auxv"})
      all.push_back({cat("read /proc/.../", file, of), [=] { return reads(proc(who, file)); }});
    all.push_back({cat("list the descriptors", of), [=] { return lists(proc(who, "fd")); }});
    all.push_back({cat("look into the root", of), [=] { return lists(proc(who, "root")); }});
    all.push_back({cat("trace the ", who),
                   [=] { return call(::ptrace(PTRACE_SEIZE, process(who), nullptr, nullptr)); }});
    all.push_back({cat("read the memory", of), [=] { return reads_memory_of(who); }});
    all.push_back({cat("write the memory", of), [=] { return writes_memory_of(who); }});
    all.push_back({cat("signal the ", who), [=] { return call(::kill(process(who), SIGURG)); }});
    all.push_back({cat("signal a thread", of), [=] {
                     return call(::syscall(SYS_tgkill, process(who), process(who), SIGURG));
                   }});
    all.push_back({cat("hold the ", who, " by a descriptor"),
                   [=] { return call(::syscall(SYS_pidfd_open, process(who), 0)); }});
    all.push_back({cat("bind the cores", of), [=] {
                     cpu_set_t cores;
                     CPU_ZERO(&cores);
                     CPU_SET(0, &cores);
                     return call(::sched_setaffinity(process(who), sizeof cores, &cores));
                   }});
    all.push_back({cat("slow the ", who), [=] {
                     return call(::setpriority(PRIO_PROCESS, static_cast<id_t>(process(who)), 19));
                   }});
    all.push_back({cat("limit the ", who), [=] {
                     rlimit none{};
                     return call(
                         ::syscall(SYS_prlimit64, process(who), RLIMIT_NOFILE, nullptr, &none));
                   }});
  }
  all.push_back({"see other processes", sees_other_processes});
  all.push_back({"signal everyone", [] { return call(::kill(-1, SIGURG)); }});
  return all;
}

// Other users, programs, processes and namespaces; the kernel.
std::vector<Named> rights() {
  return {
      {"become root", [] { return call(::syscall(SYS_setuid, 0)); }},
      {"become the other runner's user",
       [] {
         const auto id = std::stoul(target("other_user"));
         return call(::syscall(SYS_setresuid, id, id, id));
       }},
      {"take a group",
       [] {
         const gid_t group = 0;
         return call(::syscall(SYS_setgroups, 1, &group));
       }},
      {"take capabilities",
       [] {
         __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
         __user_cap_data_struct all[2] = {{~0U, ~0U, 0}, {~0U, ~0U, 0}};
         return call(::syscall(SYS_capset, &header, all));
       }},
      {"run a shell", [] { return call(::execl("/bin/sh", "sh", "-c", "true", nullptr)); }},
      {"run a program from memory", runs_from_memory},
      {"make a process", [] { return ends_child(::fork()); }},
      {"make a process by clone()",
       [] {
         return ends_child(::syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr));
       }},
      {"make a process by clone3()",
       [] {
         uint64_t arguments[8] = {0, 0, 0, 0, SIGCHLD, 0, 0, 0};
         return ends_child(::syscall(SYS_clone3, arguments, sizeof arguments));
       }},
      {"leave its session", [] { return call(::setsid()); }},
      {"outlive its worker", [] { return call(::prctl(PR_SET_PDEATHSIG, 0)); }},
      {"start threads without an end", [] { return starts_threads(1500); }},
      {"unshare a user namespace", [] { return call(::unshare(CLONE_NEWUSER)); }},
      {"unshare a network", [] { return call(::unshare(CLONE_NEWNET)); }},
      {"clone a thread into a network",
       [] {
         return ends_child(
             ::syscall(SYS_clone, CLONE_NEWNET | SIGCHLD, nullptr, nullptr, nullptr, nullptr));
       }},
      {"enter the daemon's namespace",
       [] {
         const int fd = ::open(proc("daemon", "ns/mnt").c_str(), O_RDONLY);
         return call(::setns(fd, 0));
       }},
      {"mount", [] { return call(::mount("none", "/", "tmpfs", 0, nullptr)); }},
      {"unmount", [] { return call(::umount2("/proc", MNT_DETACH)); }},
      {"copy a mount", [] { return call(::syscall(SYS_open_tree, AT_FDCWD, "/", 1)); }},
      {"change its root", [] { return call(::chroot("/")); }},
      {"pivot its root", [] { return call(::syscall(SYS_pivot_root, "/", "/")); }},
      {"load BPF",
       [] {
         char attributes[128] = {};
         return call(::syscall(SYS_bpf, 5, attributes, sizeof attributes));
       }},
      {"open a performance counter",
       [] {
         char attributes[128] = {};
         return call(::syscall(SYS_perf_event_open, attributes, 0, -1, -1, 0));
       }},
      {"read a key ring",
       [] {
         return call(::syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 1));
       }},
      {"add a key",
       [] { return call(::syscall(SYS_add_key, "user", "x", "y", 1, KEY_SPEC_SESSION_KEYRING)); }},
      {"set up io_uring",
       [] {
         char parameters[256] = {};
         return call(::syscall(SYS_io_uring_setup, 4, parameters));
       }},
      {"handle page faults", [] { return call(::syscall(SYS_userfaultfd, 1)); }},
      {"load a module", [] { return call(::syscall(SYS_init_module, "", 0, "")); }},
      {"load a kernel", [] { return call(::syscall(SYS_kexec_load, 0, 0, nullptr, 0)); }},
      {"read the kernel's log", [] { return call(::syscall(SYS_syslog, 3, nullptr, 0)); }},
      {"change the personality", [] { return call(::syscall(SYS_personality, 0x0040000)); }},
      {"set the clock",
       [] {
         timespec now{};
         ::clock_gettime(CLOCK_REALTIME, &now);
         return call(::syscall(SYS_clock_settime, CLOCK_REALTIME, &now));
       }},
      {"set the host's name", [] { return call(::sethostname("x", 1)); }},
      {"push input into a terminal", [] { return call(::ioctl(0, TIOCSTI, "x")); }},
      {"raise its limit of descriptors", [] { return raises_limit(RLIMIT_NOFILE); }},
      {"raise its limit of cores", [] { return raises_limit(RLIMIT_CORE); }},
      {"let itself be dumped", [] { return call(::prctl(PR_SET_DUMPABLE, 1)); }},
      {"open a raw socket", [] { return makes_socket(AF_INET, SOCK_RAW, IPPROTO_ICMP); }},
      {"open a packet socket", [] { return makes_socket(AF_PACKET, SOCK_RAW, 0); }},
      {"open a crypto socket", [] { return makes_socket(AF_ALG, SOCK_SEQPACKET); }},
      {"open a socket of virtual machines", [] { return makes_socket(AF_VSOCK, SOCK_STREAM); }},
      {"hear the kernel's events", [] { return makes_socket(AF_NETLINK, SOCK_RAW, 15); }},
      {"bind a TCP port", [] { return binds_port(SOCK_STREAM); }},
      {"bind a UDP port", [] { return binds_port(SOCK_DGRAM); }},
      {"listen on a TCP port", listens},
      {"have a key that is more than its job's",
       [] {
         const auto key = read_credential(config.secret);
         return !key.ok() || key->grant.right != Right::runner || key->grant.name != config.job;
       }},
      {"read a secret of the environment", [] { return has_variable("LEAT_TEST_SECRET"); }},
      {"read credentials of stores", [] { return has_variable("AWS_SECRET_ACCESS_KEY"); }},
  };
}

void try_all(const std::vector<Named>& attempts) {
  for (const Named& each : attempts) {
    errno = 0;
    const bool happened = each.attempt();
    const char* const why = ::strerrorname_np(errno);
    std::printf("%s: %s\n", each.name.c_str(),
                happened ? "HAPPENED" : cat("refused (", why ? why : "?", ")").c_str());
    std::fflush(stdout);
  }
}

// A victim is a runner with a socket for peers, which it serves.
[[noreturn]] void be_victim() {
  Reactor reactor;
  Arrivals::Options options;
  options.assembly = config.assembly;
  options.incarnation = config.incarnation;
  Arrivals arrivals(options);
  const bool is_confined = config.confinement.is_on;
  const auto listener =
      Listener::open(reactor, cat("unix:", is_confined ? "" : config.directory + "/", "peers"),
                     arrivals, Listener::Options());
  if (!listener.ok()) std::printf("no socket: %s\n", listener.status().message().c_str());
  ::chmod("peers", 0666);
  if (const Status sealed = end_of_listening(config.confinement); !sealed.ok())
    std::printf("cannot start: %s\n", sealed.message().c_str());
  std::printf("done as %u\n", ::getuid());
  std::fflush(stdout);
  while (true) ::pause();
}

void read_targets() {
  std::ifstream list(config.datasets.at("targets") + "/targets");
  for (std::string name, value; list >> name >> value;) targets[name] = value;
  std::ifstream granted(config.datasets.at("data") + "/file");
  std::string words;
  std::getline(granted, words);
  std::printf("granted data: %s\n", words.c_str());
}

int run() {
  auto started = start_runner(std::chrono::steady_clock::now() + 10s);
  if (!started.ok()) {
    std::printf("cannot start: %s\n", started.status().message().c_str());
    return 1;
  }
  config = std::move(started->config);
  std::printf("layers: %s\n", layers_text(started->layers).c_str());
  if (config.job == "job-2") be_victim();
  // As every runner does, once its socket listens.
  if (const Status sealed = end_of_listening(config.confinement); !sealed.ok())
    std::printf("cannot start: %s\n", sealed.message().c_str());
  read_targets();
  // The counter-check of the test: no confinement, but some other user than root.
  const bool is_control = targets.contains("become");
  if (is_control) {
    const auto id = std::stoul(target("become"));
    (void)::setgroups(0, nullptr);
    if (::syscall(SYS_setresgid, id, id, id) != 0 || ::syscall(SYS_setresuid, id, id, id) != 0)
      return 1;
  }
  for (auto attempts : {descriptors(), files(), processes(), rights()}) {
    // A program that really starts would end the list.
    if (is_control)
      std::erase_if(attempts, [](const Named& each) { return each.name.starts_with("run a "); });
    try_all(attempts);
  }
  std::printf("done as %u\n", ::getuid());
  std::fflush(stdout);
  while (true) ::pause();
}

}  // namespace
}  // namespace leat

int main() {
  (void)leat::set_failpoints_of_environment();
  return leat::run();
}
