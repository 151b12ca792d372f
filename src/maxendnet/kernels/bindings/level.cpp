#include "bindings/level.hpp"

#include <atomic>
#include <stdexcept>

#ifdef _WIN32
#include <windows.h>

#include <filesystem>
#else
#include <dlfcn.h>
#endif

namespace maxendnet {
namespace {

std::atomic<const KernelTable*> in_use{nullptr};

// Symbols are local: two levels contain the same inline functions, and each must call its own.
void* entry(const std::string& path) {
#ifdef _WIN32
  const HMODULE library = LoadLibraryW(std::filesystem::u8path(path).c_str());
  if (!library) throw std::runtime_error(path + " cannot be loaded, error " + std::to_string(GetLastError()));
  return reinterpret_cast<void*>(GetProcAddress(library, "maxendnet_kernels"));
#else
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) throw std::runtime_error(dlerror());
  return dlsym(library, "maxendnet_kernels");
#endif
}

}  // namespace

const KernelTable& kernels() { return *in_use.load(std::memory_order_acquire); }

void use_library(const std::string& path) {
  const auto table_of = reinterpret_cast<const void* (*)()>(entry(path));
  const auto* table = table_of ? static_cast<const KernelTable*>(table_of()) : nullptr;
  if (!table || table->size != int64_t(sizeof(KernelTable)))
    throw std::runtime_error(path + " is not from the build of this module; install maxendnet again");
  in_use.store(table, std::memory_order_release);
}

}  // namespace maxendnet
