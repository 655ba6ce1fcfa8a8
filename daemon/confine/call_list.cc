#include "daemon/confine/call_list.h"

#include <linux/prctl.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string_view>

#include "devices/base/text.h"
#include "transport/io/descriptor.h"

namespace leat {
namespace {

// Computing, memory, threads, clocks, files below granted folders, and sockets take these. The list
// is that of the test suite's runners, with the forms of these calls that other versions of the C
// library choose.
constexpr const char* kCalls[] = {
    // memory
    "brk", "mmap", "munmap", "mprotect", "mremap", "madvise", "mlock", "mlock2", "munlock",
    "mincore", "msync", "memfd_create", "get_mempolicy", "set_mempolicy", "mbind", "membarrier",
    // threads and signals of this process
    "futex", "futex_waitv", "set_robust_list", "get_robust_list", "rseq", "set_tid_address",
    "gettid", "getpid", "getppid", "exit", "exit_group", "sched_yield", "sched_getaffinity",
    "sched_setaffinity", "sched_getparam", "sched_getscheduler", "sched_get_priority_max",
    "sched_get_priority_min", "getcpu", "getpriority", "setpriority", "rt_sigaction",
    "rt_sigprocmask", "rt_sigreturn", "rt_sigpending", "rt_sigsuspend", "rt_sigtimedwait",
    "sigaltstack", "signalfd4", "restart_syscall", "pause", "arch_prctl", "getrandom",
    // clocks
    "clock_gettime", "clock_getres", "clock_nanosleep", "nanosleep", "gettimeofday", "time",
    "times", "timerfd_create", "timerfd_settime", "timerfd_gettime", "getitimer",
    // waiting
    "poll", "ppoll", "select", "pselect6", "epoll_create", "epoll_create1", "epoll_ctl",
    "epoll_wait", "epoll_pwait", "epoll_pwait2", "eventfd2", "pipe", "pipe2",
    // files
    "read", "readv", "pread64", "preadv", "preadv2", "write", "writev", "pwrite64", "pwritev",
    "pwritev2", "lseek", "open", "openat", "openat2", "close", "close_range", "stat", "fstat",
    "lstat", "newfstatat", "statx", "statfs", "fstatfs", "access", "faccessat", "faccessat2",
    "readlink", "readlinkat", "getdents64", "getcwd", "dup", "dup2", "dup3", "fcntl", "flock",
    "fadvise64", "readahead", "ftruncate", "fallocate", "fsync", "fdatasync", "sync_file_range",
    "copy_file_range", "sendfile", "splice", "mkdir", "mkdirat", "rmdir", "unlink", "unlinkat",
    "rename", "renameat", "renameat2", "chmod", "fchmod", "fchmodat", "umask", "chdir", "fchdir",
    // sockets
    "connect", "bind", "listen", "accept", "accept4", "getsockname", "getpeername", "sendto",
    "recvfrom", "sendmsg", "recvmsg", "sendmmsg", "recvmmsg", "shutdown", "setsockopt",
    "getsockopt",
    // about itself
    "getuid", "geteuid", "getgid", "getegid", "getgroups", "getresuid", "getresgid", "getpgrp",
    "getpgid", "getsid", "getrlimit", "setrlimit", "getrusage", "sysinfo", "uname", "capget"};

// The driver of GPUs and its libraries are closed, so these are the harmless rest of the calls that
// containers with GPUs are allowed by default.
constexpr const char* kCallsOfGpus[] = {"mlockall",
                                        "munlockall",
                                        "pkey_alloc",
                                        "pkey_free",
                                        "pkey_mprotect",
                                        "sched_setparam",
                                        "sched_setscheduler",
                                        "sched_getattr",
                                        "sched_setattr",
                                        "sched_rr_get_interval",
                                        "timer_create",
                                        "timer_settime",
                                        "timer_gettime",
                                        "timer_getoverrun",
                                        "timer_delete",
                                        "setitimer",
                                        "alarm",
                                        "inotify_init1",
                                        "inotify_add_watch",
                                        "inotify_rm_watch",
                                        "ioprio_get",
                                        "ioprio_set",
                                        "eventfd",
                                        "signalfd",
                                        "getxattr",
                                        "fgetxattr",
                                        "lgetxattr",
                                        "tee",
                                        "vmsplice",
                                        "sync",
                                        "syncfs",
                                        "wait4",
                                        "waitid",
                                        "getdents",
                                        "mknod",
                                        "mknodat"};

#ifdef LEAT_SANITIZED
// The leak detector stops the process's threads from a copy of the process, which it traces; the
// sanitizers read their own memory by calls, and end their copies.
constexpr const char* kCallsOfSanitizers[] = {
    "ptrace", "wait4", "process_vm_readv", "kill",     "tgkill",
    "clone",  "prctl", "prlimit64",        "getdents", "personality"};
#endif

// A name that every setup has; the number that Debian 12's headers lack.
constexpr scmp_datum_t kSetVma = 0x53564d41;

// Owns a filter, and remembers the first rule that could not be added.
class CallList {
 public:
  explicit CallList(uint32_t otherwise) : context_(::seccomp_init(otherwise), ::seccomp_release) {
    if (!context_) error_ = ENOMEM;
  }

  // Allows the call if all comparisons hold. Names that this machine does not have are skipped.
  void allow(const char* name, std::initializer_list<scmp_arg_cmp> comparisons = {}) {
    add(SCMP_ACT_ALLOW, name, comparisons);
  }
  void refuse(int error, const char* name) {
    add(SCMP_ACT_ERRNO(static_cast<uint32_t>(error)), name, {});
  }
  void set(scmp_filter_attr attribute, uint32_t value) {
    if (error_ == 0) error_ = -::seccomp_attr_set(context_.get(), attribute, value);
  }

  Status load() {
    // The process has set no_new_privs itself. The other two: no slower memory for the sake of
    // programs that run strangers' scripts, and a tree of numbers in place of a list.
    set(SCMP_FLTATR_CTL_NNP, 0);
    set(SCMP_FLTATR_CTL_SSB, 1);
    set(SCMP_FLTATR_CTL_OPTIMIZE, 2);
    if (error_ == 0) error_ = -::seccomp_load(context_.get());
    return error_ == 0 ? Status() : system_error("the list of system calls", error_);
  }

 private:
  void add(uint32_t action, const char* name, std::initializer_list<scmp_arg_cmp> comparisons) {
    if (error_ != 0) return;
    const int number = ::seccomp_syscall_resolve_name(name);
    if (number == __NR_SCMP_ERROR || number < 0) return;
    error_ = -::seccomp_rule_add_array(context_.get(), action, number,
                                       static_cast<unsigned>(comparisons.size()),
                                       std::data(comparisons));
  }

  std::unique_ptr<void, decltype(&::seccomp_release)> context_;
  int error_ = 0;
};

scmp_arg_cmp is(unsigned argument, scmp_datum_t value) { return {argument, SCMP_CMP_EQ, value, 0}; }
// The bits of `mask` have this value.
scmp_arg_cmp has(unsigned argument, scmp_datum_t mask, scmp_datum_t value) {
  return {argument, SCMP_CMP_MASKED_EQ, mask, value};
}

// Threads are made; processes and namespaces are not. The C library asks clone3() first, whose
// flags a filter cannot see, and takes clone() if there is no such call.
void allow_threads(CallList& list) {
  constexpr scmp_datum_t kNamespaces = CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER |
                                       CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWCGROUP;
  list.allow("clone", {has(0, kNamespaces | CLONE_THREAD, CLONE_THREAD)});
  list.refuse(ENOSYS, "clone3");
  const auto self = static_cast<scmp_datum_t>(::getpid());
  list.allow("kill", {is(0, self)});
  list.allow("tgkill", {is(0, self)});
  for (const scmp_datum_t option : {scmp_datum_t{PR_SET_NAME}, scmp_datum_t{PR_GET_NAME}, kSetVma,
                                    scmp_datum_t{PR_SET_TIMERSLACK}, scmp_datum_t{PR_CAPBSET_READ},
                                    scmp_datum_t{PR_GET_DUMPABLE}})
    list.allow("prctl", {is(0, option)});
  list.allow("prlimit64", {is(0, 0)});
  list.allow("prlimit64", {is(0, self)});
}

// The kinds of sockets: raw ones and packets are not among them.
void allow_sockets(CallList& list, bool opens_gpus) {
  constexpr scmp_datum_t kKind = 0xf;  // the other bits are flags
  for (const scmp_datum_t family : {AF_INET, AF_INET6}) {
    list.allow("socket", {is(0, family), has(1, kKind, SOCK_STREAM)});
    list.allow("socket", {is(0, family), has(1, kKind, SOCK_DGRAM)});
  }
  list.allow("socket", {is(0, AF_UNIX), has(1, kKind, SOCK_STREAM)});
  // CUDA makes one when it begins.
  if (opens_gpus) list.allow("socket", {is(0, AF_UNIX), has(1, kKind, SOCK_SEQPACKET)});
  list.allow("socketpair", {is(0, AF_UNIX), has(1, kKind, SOCK_STREAM)});
  // getaddrinfo() asks for the machine's addresses: NETLINK_ROUTE is 0.
  list.allow("socket", {is(0, AF_NETLINK), has(1, kKind, SOCK_RAW), is(2, 0)});
}

void allow_ioctl(CallList& list, bool opens_gpus) {
  for (const scmp_datum_t request : {scmp_datum_t{TCGETS}, scmp_datum_t{FIONBIO},
                                     scmp_datum_t{FIONREAD}, scmp_datum_t{TIOCGWINSZ}})
    list.allow("ioctl", {is(1, request)});
  if (!opens_gpus) return;
  // NVIDIA's driver: requests of the type 'F'; those of unified memory have no type; and the two by
  // which that is set up.
  list.allow("ioctl", {has(1, 0xff00, 'F' << 8)});
  list.allow("ioctl", {has(1, 0xffffff00, 0)});
  for (const scmp_datum_t request : {0x30000001, 0x30000002}) list.allow("ioctl", {is(1, request)});
}

}  // namespace

Status can_filter_calls() {
  const uint32_t action = SCMP_ACT_ERRNO(0) & 0xffff0000;
  constexpr int kGetActionAvailable = 2;
  if (::syscall(SYS_seccomp, kGetActionAvailable, 0, &action) == 0) return {};
  return system_error("seccomp", errno);
}

Status allow_calls_of_runner(const CallListOptions& options) {
  CallList list(SCMP_ACT_ERRNO(EPERM));
  for (const char* name : kCalls) list.allow(name);
  if (options.opens_gpus)
    for (const char* name : kCallsOfGpus) list.allow(name);
#ifdef LEAT_SANITIZED
  for (const char* name : kCallsOfSanitizers) list.allow(name);
#endif
  list.allow("seccomp");  // which can only forbid more
  allow_threads(list);
  allow_sockets(list, options.opens_gpus);
  allow_ioctl(list, options.opens_gpus);
  return list.load();
}

Status forbid_listening() {
  CallList list(SCMP_ACT_ALLOW);
  list.refuse(EPERM, "bind");
  list.refuse(EPERM, "listen");
  list.set(SCMP_FLTATR_CTL_TSYNC, 1);
  return list.load();
}

}  // namespace leat
