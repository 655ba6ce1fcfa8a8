#include <dirent.h>
#include <dlfcn.h>
#include <grp.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>

#include "daemon/confine/abilities.h"
#include "daemon/confine/call_list.h"
#include "daemon/confine/confinement.h"
#include "daemon/confine/landlock.h"
#include "daemon/confine/own_root.h"
#include "devices/base/text.h"
#include "transport/io/descriptor.h"

namespace leat {
namespace {

constexpr const char* kLibraries[] = {"/usr", "/lib", "/lib32", "/lib64", "/libx32"};
// Names, addresses and certificates, the loader's cache, and the machine's cores and limits. No
// folder of /etc with secrets of others is among them.
constexpr const char* kSettings[] = {
    "/etc/ld.so.cache",     "/etc/ld.so.conf",      "/etc/ld.so.conf.d", "/etc/alternatives",
    "/etc/resolv.conf",     "/etc/hosts",           "/etc/host.conf",    "/etc/nsswitch.conf",
    "/etc/gai.conf",        "/etc/services",        "/etc/protocols",    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf", "/etc/ca-certificates", "/etc/localtime",    "/run/systemd/resolve",
    "/sys/devices/system",  "/sys/fs/cgroup"};
constexpr const char* kDevices[] = {"/dev/null", "/dev/zero", "/dev/full", "/dev/random",
                                    "/dev/urandom"};
// Of /proc: this process, and the machine's numbers. Not /proc/sys as a whole, nor other processes.
constexpr const char* kProc[] = {"/proc/self",
                                 "/proc/cpuinfo",
                                 "/proc/meminfo",
                                 "/proc/stat",
                                 "/proc/sys/vm/overcommit_memory",
                                 "/proc/filesystems"};
constexpr const char* kProcOfGpus[] = {"/proc/driver", "/proc/devices", "/proc/modules",
                                       "/proc/sys/vm", "/proc/sys/kernel"};

// The driver's devices.
std::vector<std::string> gpu_devices() {
  std::vector<std::string> found;
  DIR* folder = ::opendir("/dev");
  if (folder == nullptr) return found;
  while (const dirent* each = ::readdir(folder)) {
    if (std::string_view(each->d_name).starts_with("nvidia"))
      found.push_back(cat("/dev/", each->d_name));
  }
  ::closedir(folder);
  return found;
}

// The program, the plugins beside this library or in $LEAT_PLUGINS, and the folders of
// $LD_LIBRARY_PATH.
std::vector<std::string> program_paths() {
  std::vector<std::string> paths;
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) paths.push_back(program.string());
  Dl_info library{};
  if (::dladdr(reinterpret_cast<void*>(&program_paths), &library) != 0 && library.dli_fname) {
    const auto folder = std::filesystem::absolute(library.dli_fname, error).parent_path();
    for (const auto& beside : std::filesystem::directory_iterator(folder, error)) {
      if (beside.path().filename().string().starts_with("libleat_"))
        paths.push_back(beside.path().string());
    }
  }
  for (const char* name : {"LEAT_PLUGINS", "LD_LIBRARY_PATH"}) {
    const char* value = std::getenv(name);
    std::istringstream folders(value ? value : "");
    for (std::string folder; std::getline(folders, folder, ':');) {
      if (folder.starts_with("/") && folder != "/") paths.push_back(folder);
    }
  }
  return paths;
}

// Everything that the runner may open.
struct Grants {
  std::vector<std::string> system, programs, devices;
};

Grants find_grants(const Confinement& c) {
  Grants grants;
  grants.system.assign(std::begin(kLibraries), std::end(kLibraries));
  grants.system.insert(grants.system.end(), std::begin(kSettings), std::end(kSettings));
  grants.programs = program_paths();
  grants.devices.assign(std::begin(kDevices), std::end(kDevices));
  if (!c.opens_gpus) return grants;
  grants.system.emplace_back("/sys");
  const auto gpus = gpu_devices();
  grants.devices.insert(grants.devices.end(), gpus.begin(), gpus.end());
  return grants;
}

Status make_root(const Confinement& c, const Grants& grants) {
  std::vector<ShownPath> paths;
  const auto show = [&](const auto& from, Shown as) {
    for (const std::string& path : from) paths.push_back({path, as});
  };
  show(grants.system, Shown::system);
  show(grants.devices, Shown::device);
  show(grants.programs, Shown::programs);
  show(c.data, Shown::data);
  // Its own directory comes after the parent, on top of which it is mounted.
  paths.push_back({c.rooms, Shown::system});
  paths.push_back({c.directory, Shown::room});
  return enter_own_root(paths, c.directory, c.user);
}

// Files of runners that they may open; a path that this user cannot reach is told.
Result<std::string> close_files(const Confinement& c, const Grants& grants) {
  std::vector<FileRule> rules;
  const auto grant = [&](const auto& from, FileRight right) {
    for (const auto& path : from) rules.push_back({std::string(path), right});
  };
  grant(grants.system, FileRight::read);
  grant(grants.programs, FileRight::read);
  grant(grants.devices, FileRight::device);
  grant(kProc, FileRight::read);
  if (c.opens_gpus) grant(kProcOfGpus, FileRight::read);
  if (c.reads_all) rules.push_back({"/", FileRight::read});
  rules.push_back({c.directory, FileRight::room});
  // The data come by themselves: all else may be absent.
  std::erase_if(rules, [](const FileRule& rule) { return ::access(rule.path.c_str(), F_OK) != 0; });
  grant(c.data, FileRight::read);
  LEAT_ASSIGN_OR_RETURN(const auto left_out, restrict_files(rules));
  LEAT_ASSIGN_OR_RETURN(const int version, landlock_version());
  std::string how = cat("Landlock ", version);
  for (const std::string& each : left_out) how += cat(", not ", each);
  return how;
}

Status set_limit(int which, uint64_t most) {
  rlimit limit{};
  ::getrlimit(static_cast<__rlimit_resource>(which), &limit);
  limit.rlim_max = std::min<rlim_t>(limit.rlim_max, most);
  limit.rlim_cur = std::min(limit.rlim_cur, limit.rlim_max);
  if (::setrlimit(static_cast<__rlimit_resource>(which), &limit) == 0) return {};
  return system_error("a limit of the runner", errno);
}

// Descriptors and cores have their limits from before. The soft limit of the threads counts those
// of the user, so it needs a user of its own.
Result<std::string> set_limits(const Confinement& c) {
  // A file that would grow beyond its limit is an error, and no signal.
  ::signal(SIGXFSZ, SIG_IGN);
  if (c.most_file_bytes > 0) LEAT_RETURN_IF_ERROR(set_limit(RLIMIT_FSIZE, c.most_file_bytes));
  if (c.user != 0 && c.most_threads > 0)
    LEAT_RETURN_IF_ERROR(set_limit(RLIMIT_NPROC, c.most_threads));
  if (!c.opens_gpus) LEAT_RETURN_IF_ERROR(set_limit(RLIMIT_MEMLOCK, 0));
  for (const int none : {RLIMIT_MSGQUEUE, RLIMIT_RTPRIO, RLIMIT_NICE})
    LEAT_RETURN_IF_ERROR(set_limit(none, 0));
  return c.user != 0 ? cat(c.most_threads, " threads") : std::string("threads not, without a user");
}

// Gives up all capabilities but those in `kept`, a set of bits.
Status drop_capabilities(uint32_t kept) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  if (::syscall(SYS_capget, &header, data) != 0) return system_error("capabilities", errno);
  data[0].effective &= kept, data[0].permitted &= kept, data[0].inheritable = 0;
  data[1] = {};
  if (::syscall(SYS_capset, &header, data) != 0) return system_error("capabilities", errno);
  (void)::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  return {};
}

// The groups of root open too much. Those of another worker's user open the data that the operator
// has given to it.
std::vector<gid_t> groups_to_keep() {
  if (::geteuid() == 0) return {};
  std::vector<gid_t> groups(static_cast<size_t>(std::max(0, ::getgroups(0, nullptr))));
  groups.resize(static_cast<size_t>(
      std::max(0, ::getgroups(static_cast<int>(groups.size()), groups.data()))));
  groups.push_back(::getegid());
  return groups;
}

// Becomes the user, and can become no other any more.
Status become_user(const Confinement& c) {
  if (c.user != 0) {
    const auto id = static_cast<uid_t>(c.user);
    const std::vector<gid_t> groups = groups_to_keep();
    if (::setgroups(groups.size(), groups.data()) != 0 || ::setresgid(id, id, id) != 0 ||
        ::setresuid(id, id, id) != 0)
      return system_error(cat("becoming user ", c.user), errno);
  }
  const bool reads = c.user == 0 && c.reads_all;
  return drop_capabilities(reads ? 1U << CAP_DAC_READ_SEARCH : 0);
}

// Sets anew what a change of the user has taken away, the end with the worker, and closes the
// memory to other processes of the user.
Status tie_to_worker(const Confinement& c) {
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return system_error("ending with the worker", errno);
#ifdef LEAT_SANITIZED
  const bool is_open = true;  // the leak detector looks into the process
#else
  const bool is_open = c.core_dumps;
#endif
  if (::prctl(PR_SET_DUMPABLE, is_open || c.core_dumps ? 1 : 0) != 0)
    return system_error("closing the memory of the runner", errno);
  return {};
}

// Collects the states, and the first lack that must not be.
class Layers {
 public:
  explicit Layers(bool required) : required_(required) {}
  void there(ConfineLayer layer, std::string how) {
    states_.push_back({layer, true, std::move(how)});
  }
  void lacks(ConfineLayer layer, std::string why) {
    if (required_ && is_mandatory(layer) && lack_.ok())
      lack_ = failed_precondition(cat("runner.confine is 'required': ", name_of(layer), ": ", why));
    states_.push_back({layer, false, std::move(why)});
  }
  void add(ConfineLayer layer, const Result<std::string>& done) {
    done.ok() ? there(layer, *done) : lacks(layer, done.status().message());
  }
  void add(ConfineLayer layer, const Status& done) {
    done.ok() ? there(layer, "") : lacks(layer, done.message());
  }
  Result<std::vector<LayerState>> take() {
    LEAT_RETURN_IF_ERROR(lack_);
    std::sort(states_.begin(), states_.end(),
              [](const auto& a, const auto& b) { return a.layer < b.layer; });
    return std::move(states_);
  }

 private:
  const bool required_;
  Status lack_;
  std::vector<LayerState> states_;
};

void take_namespaces(const Confinement& c, const Grants& grants, Layers& layers) {
  layers.lacks(ConfineLayer::network, kNoNetwork);
  if (!c.has_namespaces) {
    for (const ConfineLayer layer :
         {ConfineLayer::root, ConfineLayer::processes, ConfineLayer::ipc})
      layers.lacks(layer, c.no_namespaces);
    return;
  }
  layers.there(ConfineLayer::processes, "");
  layers.there(ConfineLayer::ipc, "");
  // Only directories below a parent that all workers share can be shown to all peers.
  if (c.user != 0) return layers.add(ConfineLayer::root, make_root(c, grants));
  const Status hidden = hide_in_root(c.hidden);
  layers.lacks(ConfineLayer::root, hidden.ok() ? c.no_user : hidden.message());
}

}  // namespace

Result<std::vector<LayerState>> confine_process(const Confinement& c) {
  if (!c.is_on) return std::vector<LayerState>();
  Layers layers(c.required);
  const Grants grants = find_grants(c);
  take_namespaces(c, grants, layers);
  layers.add(ConfineLayer::limits, set_limits(c));
  // A user that could not be taken on would leave the worker's, with its rights.
  LEAT_RETURN_IF_ERROR(become_user(c));
  c.user != 0 ? layers.there(ConfineLayer::user, cat(c.user))
              : layers.lacks(ConfineLayer::user, c.no_user);
  LEAT_RETURN_IF_ERROR(tie_to_worker(c));
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
    return system_error("giving up new rights", errno);
  if (::chdir(c.directory.c_str()) != 0)
    return system_error(cat("the runner's directory '", c.directory, "'"), errno);
  layers.add(ConfineLayer::files, close_files(c, grants));
  // The last one, because it forbids the calls of the others.
  layers.add(ConfineLayer::calls, allow_calls_of_runner({c.opens_gpus}));
  layers.lacks(ConfineLayer::cgroup, kNoCgroup);
  return layers.take();
}

Status end_of_listening(const Confinement& c) {
  // A process whose calls the kernel cannot filter was told so when it confined itself.
  if (!c.is_on || !can_filter_calls().ok()) return {};
  return forbid_listening();
}

}  // namespace leat
