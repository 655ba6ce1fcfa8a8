#include "daemon/base/dependencies.h"

#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <link.h>

#include <climits>
#include <cstdlib>
#include <map>

#include "devices/base/text.h"

#define LEAT_TEXT_OF(x) #x
#define LEAT_EXPANDED(x) LEAT_TEXT_OF(x)

namespace leat {
namespace {

// The versions that CMake has found, as "capnp=0.9.2 CLI11=2.1.2 ...". Without the headers of the
// libraries, which only the files that use them include.
std::string built_with(std::string_view name) {
  const std::string all = cat(" ", LEAT_BUILT_WITH, " "), key = cat(" ", name, "=");
  const size_t at = all.find(key);
  if (at == all.npos) return "";
  const size_t begin = at + key.size();
  return all.substr(begin, all.find(' ', begin) - begin);
}

// "1.2.3" of 1, 2 and 3.
std::string dotted(int major, int minor, int patch) { return cat(major, ".", minor, ".", patch); }

// A function of a library that this process has loaded already, because our libraries need it; null
// if it has none of that name.
template <typename Function>
Function* loaded_function(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_DEFAULT, name));
}

// The answer of a function that returns the version as text.
template <typename... Arguments>
std::string told_by(const char* name, Arguments... arguments) {
  const auto function = loaded_function<const char*(Arguments...)>(name);
  const char* text = function == nullptr ? nullptr : function(arguments...);
  return text == nullptr ? "" : text;
}

// "7.88.1" of "libcurl/7.88.1 OpenSSL/3.0.19 ...".
std::string told_by_curl() {
  const std::string text = told_by("curl_version");
  const size_t slash = text.find('/');
  return slash == text.npos ? text : text.substr(slash + 1, text.find(' ') - slash - 1);
}

std::string told_by_dnnl() {
  struct Version {  // dnnl_version_t begins so
    int major, minor, patch;
  };
  const auto function = loaded_function<const Version*()>("dnnl_version");
  const Version* version = function == nullptr ? nullptr : function();
  return version == nullptr ? "" : dotted(version->major, version->minor, version->patch);
}

std::string told_by_webp() {
  const auto function = loaded_function<int()>("WebPGetDecoderVersion");
  if (function == nullptr) return "";
  const int number = function();  // a byte for each part
  return dotted(number >> 16 & 0xff, number >> 8 & 0xff, number & 0xff);
}

// "libdnnl" of "/usr/lib/libdnnl.so.3", and "libcapnp-rpc" of "/usr/lib/libcapnp-rpc-0.9.2.so".
std::string library_name(std::string_view path) {
  std::string_view name = path.substr(path.rfind('/') + 1);
  name = name.substr(0, name.find(".so"));
  const size_t dash = name.rfind('-');
  if (dash == name.npos) return std::string(name);
  const std::string_view version = name.substr(dash + 1);
  // Not the 64 of ld-linux-x86-64.
  const bool has_version =
      version.find('.') != version.npos && version.find_first_not_of("0123456789.") == version.npos;
  return std::string(has_version ? name.substr(0, dash) : name);
}

// The files of the libraries that are loaded, by those names.
std::map<std::string, std::string> loaded_files() {
  std::map<std::string, std::string> files;
  const auto note = [](dl_phdr_info* info, size_t, void* into) {
    char real[PATH_MAX];
    const char* resolved = ::realpath(info->dlpi_name, real);
    static_cast<std::map<std::string, std::string>*>(into)->emplace(
        library_name(info->dlpi_name), resolved == nullptr ? info->dlpi_name : resolved);
    return 0;
  };
  ::dl_iterate_phdr(note, &files);
  return files;
}

constexpr int kOpenSslVersionString = 6;  // OPENSSL_VERSION_STRING

std::vector<Dependency> known_dependencies() {
  const std::string gcc = cat(_GLIBCXX_RELEASE, " of ", LEAT_EXPANDED(__GLIBCXX__));
  const char* const gcc_license = "GPL-3.0-or-later WITH GCC-exception-3.1";
  return {
      {"Boost", "BSL-1.0", built_with("boost")},
      {"Cap'n Proto",
       "MIT",
       built_with("capnp"),
       "",
       {"libcapnp", "libcapnp-rpc", "libkj", "libkj-async"}},
      {"CLI11", "BSD-3-Clause", built_with("CLI11")},
      {"curl", "curl", built_with("libcurl"), told_by_curl(), {"libcurl"}},
      {"fmt", "MIT", built_with("fmt"), "", {"libfmt"}},
      {"GCC libraries", gcc_license, gcc, "", {"libstdc++", "libgcc_s", "libgomp"}},
      {"GNU C Library",
       "LGPL-2.1-or-later",
       cat(__GLIBC__, ".", __GLIBC_MINOR__),
       ::gnu_get_libc_version(),
       {"libc", "libm", "ld-linux-x86-64"}},
      {"libjpeg-turbo", "IJG AND BSD-3-Clause AND Zlib", built_with("libjpeg"), "", {"libjpeg"}},
      {"libpng",
       "libpng-2.0",
       built_with("libpng"),
       told_by<const void*>("png_get_libpng_ver", nullptr),
       {"libpng16"}},
      {"libseccomp", "LGPL-2.1-or-later", built_with("libseccomp"), "", {"libseccomp"}},
      {"libsystemd", "LGPL-2.1-or-later", built_with("libsystemd"), "", {"libsystemd"}},
      {"libwebp", "BSD-3-Clause", built_with("libwebp"), told_by_webp(), {"libwebp"}},
      {"nlohmann-json", "MIT", built_with("nlohmann_json")},
      {"oneDNN", "Apache-2.0", built_with("dnnl"), told_by_dnnl(), {"libdnnl"}},
      {"OpenSSL",
       "Apache-2.0",
       built_with("libcrypto"),
       told_by("OpenSSL_version", kOpenSslVersionString),
       {"libcrypto", "libssl"}},
      {"Protocol Buffers", "BSD-3-Clause", built_with("protobuf-lite"), "", {"libprotobuf-lite"}},
      {"spdlog", "MIT", built_with("spdlog"), "", {"libspdlog"}},
      {"SQLite", "blessing", built_with("sqlite3"), told_by("sqlite3_libversion"), {"libsqlite3"}},
      {"yaml-cpp", "MIT", built_with("yaml-cpp"), "", {"libyaml-cpp"}},
      {"zlib", "Zlib", built_with("zlib"), told_by("zlibVersion"), {"libz"}},
  };
}

}  // namespace

std::vector<Dependency> dependencies() {
  std::vector<Dependency> all = known_dependencies();
  const auto files = loaded_files();
  for (Dependency& each : all) {
    for (const std::string& name : each.libraries) {
      if (const auto file = files.find(name); file != files.end())
        each.files.push_back(file->second);
    }
  }
  return all;
}

std::string_view compiler_version() {
#ifdef __clang__
  return __VERSION__;  // has its name in front
#else
  return "GCC " __VERSION__;
#endif
}

}  // namespace leat
