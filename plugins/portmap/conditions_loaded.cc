#include <dlfcn.h>

#include <cstdint>
#include <memory>

#include "libcni/common/error.h"
#include "plugins/portmap/conditions.h"

namespace portmap {

namespace {

using cni::cat;
using cni::Code;

// Of libnftables(3); declared here so that building needs no nftables. The context is theirs.
struct Context;
using ContextNew = Context* (*)(std::uint32_t flags);
using ContextFree = void (*)(Context*);
using BufferOn = int (*)(Context*);
using RunText = int (*)(Context*, const char* text);
using ErrorText = const char* (*)(Context*);

class Library {
 public:
  Library() : handle_(::dlopen("libnftables.so.1", RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) {
      throw cni::Error(Code::kPluginUnavailable,
                       cat("conditions in nft's language need libnftables.so.1: ", ::dlerror()));
    }
  }
  // Never closed: the process ends soon, and the library has destructors of its own.

  template <class Function>
  Function symbol(const char* name) const {
    void* const found = ::dlsym(handle_, name);
    if (found == nullptr) {
      throw cni::Error(Code::kPluginUnavailable, cat("libnftables.so.1 has no '", name, "'"));
    }
    return reinterpret_cast<Function>(found);
  }

 private:
  void* handle_;
};

// What libnftables says, without the picture of the line that it draws below.
std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

std::string_view elsewhere(const cni::Request&) { return {}; }

void run_nft(const std::string& commands) {
  const Library library;
  const std::unique_ptr<Context, ContextFree> context(library.symbol<ContextNew>("nft_ctx_new")(0),
                                                      library.symbol<ContextFree>("nft_ctx_free"));
  if (!context) throw cni::Error(Code::kInternal, "set up libnftables: out of memory");
  library.symbol<BufferOn>("nft_ctx_buffer_output")(context.get());
  library.symbol<BufferOn>("nft_ctx_buffer_error")(context.get());
  const int status =
      library.symbol<RunText>("nft_run_cmd_from_buffer")(context.get(), commands.c_str());
  if (status == 0) return;
  const char* const text = library.symbol<ErrorText>("nft_ctx_get_error_buffer")(context.get());
  throw cni::Error(Code::kInvalidConfig,
                   cat("nft says: ", first_line(text == nullptr ? "nothing" : text)));
}

}  // namespace portmap
