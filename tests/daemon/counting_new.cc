// Not built with sanitizers, because they replace operator new.
#if !defined(LEAT_SANITIZED)

#include "tests/daemon/counting_new.h"

#include <dlfcn.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>

namespace {

std::atomic<bool> counting{false};
std::atomic<int64_t> ours{0}, libraries{0};

void count(void* caller) {
  Dl_info info;
  const bool known = dladdr(caller, &info) != 0 && info.dli_fname != nullptr;
  const bool own = known && (std::strstr(info.dli_fname, "libleat_") != nullptr ||
                             std::strstr(info.dli_fname, "_tests") != nullptr);
  (own ? ours : libraries).fetch_add(1, std::memory_order_relaxed);
}

void* allocate(size_t bytes, size_t alignment, void* caller) {
  if (counting.load(std::memory_order_relaxed)) count(caller);
  for (;;) {
    void* memory =
        alignment <= alignof(std::max_align_t)
            ? std::malloc(bytes == 0 ? 1 : bytes)
            : std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    if (memory != nullptr) return memory;
    const std::new_handler handler = std::get_new_handler();
    if (handler == nullptr) throw std::bad_alloc();
    handler();
  }
}

}  // namespace

void* operator new(size_t bytes) { return allocate(bytes, 1, __builtin_return_address(0)); }
void* operator new[](size_t bytes) { return allocate(bytes, 1, __builtin_return_address(0)); }
void* operator new(size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<size_t>(alignment), __builtin_return_address(0));
}
void* operator new[](size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<size_t>(alignment), __builtin_return_address(0));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }

namespace leat {

CountedNew::CountedNew() {
  ours = libraries = 0;
  counting = true;
}
CountedNew::~CountedNew() { counting = false; }
CountedNew::Counts CountedNew::counts() const { return {ours.load(), libraries.load()}; }

}  // namespace leat

#endif
