#include "tests/daemon/jobs/sqlite_on_disk.h"

#include <sqlite3.h>

#include <algorithm>
#include <cstring>

#include "devices/base/files.h"

namespace leat {

// SQLite's interface to a file system (sqlite3_vfs), and to a file (sqlite3_io_methods).
struct SqliteOnDisk::Layer {
  // In the memory that SQLite gives for a file.
  struct File {
    sqlite3_file base;
    Layer* layer;
    size_t file;
    bool is_log;
    bool is_new_name;      // made, and its directory not synced since
    const char* filename;  // lives as long as the file is open
  };

  explicit Layer(SqliteOnDisk& of, CrashFiles& first) : owner(of), disk(&first) {
    vfs.iVersion = 1;
    vfs.szOsFile = sizeof(File);
    vfs.mxPathname = 512;
    vfs.zName = "disk in memory";
    vfs.pAppData = this;
    vfs.xOpen = open;
    vfs.xDelete = remove;
    vfs.xAccess = access;
    vfs.xFullPathname = full_path;
    vfs.xRandomness = randomness;
    vfs.xSleep = [](sqlite3_vfs*, int microseconds) { return microseconds; };
    vfs.xCurrentTime = [](sqlite3_vfs*, double* day) { return *day = 2460000, SQLITE_OK; };
    vfs.xGetLastError = [](sqlite3_vfs*, int, char*) { return 0; };
    sqlite3_vfs_register(&vfs, 1);
  }
  ~Layer() { sqlite3_vfs_unregister(&vfs); }

  int fault() const { return owner.fault ? owner.fault() : SQLITE_OK; }

  static Layer& of(sqlite3_vfs* vfs) { return *static_cast<Layer*>(vfs->pAppData); }
  static File& of(sqlite3_file* file) { return *reinterpret_cast<File*>(file); }

  static int open(sqlite3_vfs* vfs, const char* path, sqlite3_file* file, int flags, int* given) {
    Layer& layer = of(vfs);
    file->pMethods = nullptr;
    if (path == nullptr) return SQLITE_CANTOPEN;  // a temporary file: the journal needs none
    const bool is_new = !*layer.disk->exists(path);
    if (is_new && (flags & SQLITE_OPEN_CREATE) != 0)
      if (const int code = layer.fault()) return code;
    const auto found = layer.disk->open_in_place(path, (flags & SQLITE_OPEN_CREATE) != 0);
    if (!found) return SQLITE_CANTOPEN;
    const bool has_directory_synced =
        (flags & (SQLITE_OPEN_WAL | SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_SUPER_JOURNAL)) != 0;
    of(file) = {
        {&methods}, &layer, *found, (flags & SQLITE_OPEN_WAL) != 0, is_new && has_directory_synced,
        path};
    if (given != nullptr) *given = flags;
    return SQLITE_OK;
  }

  static int remove(sqlite3_vfs* vfs, const char* path, int sync_directory) {
    Layer& layer = of(vfs);
    if (!*layer.disk->exists(path)) return SQLITE_IOERR_DELETE_NOENT;
    if (const int code = layer.fault()) return code;
    if (!layer.disk->remove(path).ok()) return SQLITE_IOERR_DELETE;
    if (sync_directory != 0) (void)layer.disk->sync_directory(directory_of(path));
    return SQLITE_OK;
  }

  static int access(sqlite3_vfs* vfs, const char* path, int, int* out) {
    *out = *of(vfs).disk->exists(path) ? 1 : 0;
    return SQLITE_OK;
  }

  static int full_path(sqlite3_vfs*, const char* path, int size, char* out) {
    if (std::strlen(path) >= static_cast<size_t>(size)) return SQLITE_CANTOPEN;
    std::strcpy(out, path);
    return SQLITE_OK;
  }

  static int randomness(sqlite3_vfs* vfs, int size, char* out) {
    uint64_t& random = of(vfs).random;
    for (int i = 0; i < size; ++i) out[i] = static_cast<char>(random = CrashFiles::mix(random));
    return size;
  }

  static int read(sqlite3_file* file, void* out, int size, sqlite3_int64 offset) {
    const auto bytes = of(file).layer->disk->bytes_in_place(of(file).file);
    const auto begin = std::min<uint64_t>(static_cast<uint64_t>(offset), bytes.size());
    const auto there = std::min<uint64_t>(static_cast<uint64_t>(size), bytes.size() - begin);
    if (there > 0) std::memcpy(out, bytes.data() + begin, there);
    if (there == static_cast<uint64_t>(size)) return SQLITE_OK;
    std::memset(static_cast<char*>(out) + there, 0, static_cast<size_t>(size) - there);
    return SQLITE_IOERR_SHORT_READ;
  }

  static int write(sqlite3_file* file, const void* data, int size, sqlite3_int64 offset) {
    if (const int code = of(file).layer->fault()) return code;
    const std::span bytes(static_cast<const std::byte*>(data), static_cast<size_t>(size));
    of(file).layer->disk->write_in_place(of(file).file, static_cast<uint64_t>(offset), bytes);
    return SQLITE_OK;
  }

  static int truncate(sqlite3_file* file, sqlite3_int64 size) {
    if (const int code = of(file).layer->fault()) return code;
    of(file).layer->disk->truncate(of(file).file, static_cast<uint64_t>(size));
    return SQLITE_OK;
  }

  static int sync(sqlite3_file* file, int) {
    const Layer& layer = *of(file).layer;
    if (const int code = layer.fault()) return code;
    const Omits& omits = layer.owner.omits;
    if (of(file).is_log ? omits.log_syncs : omits.database_syncs) return SQLITE_OK;
    layer.disk->sync_in_place(of(file).file);
    if (std::exchange(of(file).is_new_name, false) && !omits.directory_syncs)
      (void)layer.disk->sync_directory(directory_of(of(file).filename));
    return SQLITE_OK;
  }

  static int size(sqlite3_file* file, sqlite3_int64* out) {
    const auto bytes = of(file).layer->disk->bytes_in_place(of(file).file);
    *out = static_cast<sqlite3_int64>(bytes.size());
    return SQLITE_OK;
  }

  // SQLite asks its files whether they take a pragma upon themselves. The text of its value is
  // SQLite's, and used after that: "FULL" has room for what replaces it.
  static int control(sqlite3_file* file, int operation, void* argument) {
    const std::string& instead = of(file).layer->owner.omits.synchronous;
    if (operation != SQLITE_FCNTL_PRAGMA || instead.empty()) return SQLITE_NOTFOUND;
    char** const pragma = static_cast<char**>(argument);
    if (std::strcmp(pragma[1], "synchronous") == 0 && pragma[2] != nullptr)
      std::strncpy(pragma[2], instead.c_str(), std::strlen(pragma[2]));
    return SQLITE_NOTFOUND;
  }

  static const sqlite3_io_methods methods;

  SqliteOnDisk& owner;
  CrashFiles* disk;
  sqlite3_vfs vfs = {};
  uint64_t random = 1;
};

const sqlite3_io_methods SqliteOnDisk::Layer::methods = {
    .iVersion = 1,
    .xClose = [](sqlite3_file*) { return SQLITE_OK; },
    .xRead = read,
    .xWrite = write,
    .xTruncate = truncate,
    .xSync = sync,
    .xFileSize = size,
    .xLock = [](sqlite3_file*, int) { return SQLITE_OK; },
    .xUnlock = [](sqlite3_file*, int) { return SQLITE_OK; },
    .xCheckReservedLock = [](sqlite3_file*, int* out) { return *out = 0, SQLITE_OK; },
    .xFileControl = control,
    .xSectorSize = [](sqlite3_file*) { return 4096; },
    .xDeviceCharacteristics = [](sqlite3_file*) { return SQLITE_IOCAP_POWERSAFE_OVERWRITE; },
    .xShmMap = nullptr,
    .xShmLock = nullptr,
    .xShmBarrier = nullptr,
    .xShmUnmap = nullptr,
    .xFetch = nullptr,
    .xUnfetch = nullptr,
};

SqliteOnDisk::SqliteOnDisk(CrashFiles& disk) : layer_(std::make_unique<Layer>(*this, disk)) {}
SqliteOnDisk::~SqliteOnDisk() = default;

void SqliteOnDisk::mount(CrashFiles& disk, uint64_t seed) {
  layer_->disk = &disk;
  layer_->random = seed;
  sqlite3_randomness(0, nullptr);  // forget what was drawn before, and ask for a seed anew
}

}  // namespace leat
