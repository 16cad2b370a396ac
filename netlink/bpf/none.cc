// Replaces object.cc, loaded.cc and enum_names.cc in a build without libbpf.
#include <cerrno>

#include "netlink/bpf/enum_names.h"
#include "netlink/bpf/loaded.h"
#include "netlink/bpf/object.h"
#include "netlink/types/error.h"

struct bpf_object {};
struct btf {};
struct ring_buffer {};

namespace netlink::bpf {

namespace {

[[noreturn]] void refuse() {
  throw Error(
      "load a program into the kernel: this build is without eBPF (CMake's option CNI_BPF was off)",
      EOPNOTSUPP);
}

}  // namespace

bool is_built_in() noexcept { return false; }

Object::Object(std::string name, std::span<const std::byte> /*file*/)
    : name_(std::move(name)), object_(nullptr, [](bpf_object*) {}) {
  refuse();
}
void Object::set_constants(std::span<const std::byte> /*values*/) { refuse(); }
void Object::reuse_map(const std::string& /*name*/, const Fd& /*map*/) { refuse(); }
void Object::load() { refuse(); }
int Object::program(const std::string& /*name*/) const { refuse(); }
int Object::map(const std::string& /*name*/) const { refuse(); }
Fd Object::attach(const std::string& /*name*/) const { refuse(); }

void put(int /*map*/, std::span<const std::byte> /*key*/, std::span<const std::byte> /*value*/) {
  refuse();
}
Ring::Ring(int /*map*/, Use /*use*/) : ring_(nullptr, [](ring_buffer*) {}) { refuse(); }
int Ring::fd() const { refuse(); }
void Ring::read() { refuse(); }

EnumNames::EnumNames() : kernel_(nullptr, [](btf*) {}) { refuse(); }
bool EnumNames::knows(const std::string& /*enumeration*/) const { refuse(); }
std::optional<std::string> EnumNames::name_of(const std::string& /*enumeration*/,
                                              std::uint32_t /*value*/) const {
  refuse();
}
std::optional<std::string> EnumNames::name_in(const std::string& /*module*/,
                                              std::string_view /*end*/,
                                              std::uint32_t /*value*/) const {
  refuse();
}

std::optional<std::vector<LoadedMap>> maps_of(std::uint32_t /*program_id*/) { refuse(); }
std::vector<std::byte> element(const LoadedMap& /*array*/, std::uint32_t /*index*/) { refuse(); }

}  // namespace netlink::bpf
