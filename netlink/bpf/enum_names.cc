#include "netlink/bpf/enum_names.h"

#include <bpf/btf.h>

#include <cerrno>

#include "netlink/types/error.h"

namespace netlink::bpf {

namespace {

std::optional<std::string> name_in_type(const btf* types, int id, std::uint32_t value) {
  const btf_type* const type = ::btf__type_by_id(types, static_cast<__u32>(id));
  const auto* const constants = ::btf_enum(type);
  for (int i = 0; i < ::btf_vlen(type); ++i) {
    if (static_cast<std::uint32_t>(constants[i].val) != value) continue;
    return ::btf__name_by_offset(types, constants[i].name_off);
  }
  return std::nullopt;
}

}  // namespace

EnumNames::EnumNames() : kernel_(::btf__load_vmlinux_btf(), ::btf__free) {
  if (!kernel_) throw Error("read the kernel's types (BTF)", errno);
}

bool EnumNames::knows(const std::string& enumeration) const {
  return ::btf__find_by_name_kind(kernel_.get(), enumeration.c_str(), BTF_KIND_ENUM) > 0;
}

std::optional<std::string> EnumNames::name_of(const std::string& enumeration,
                                              std::uint32_t value) const {
  const int id = ::btf__find_by_name_kind(kernel_.get(), enumeration.c_str(), BTF_KIND_ENUM);
  return id > 0 ? name_in_type(kernel_.get(), id, value) : std::nullopt;
}

std::optional<std::string> EnumNames::name_in(const std::string& module, std::string_view end,
                                              std::uint32_t value) const {
  const std::unique_ptr<btf, void (*)(btf*)> types(
      ::btf__load_module_btf(module.c_str(), kernel_.get()), ::btf__free);
  if (!types) return std::nullopt;
  const auto count = static_cast<int>(::btf__type_cnt(types.get()));
  for (auto id = static_cast<int>(::btf__type_cnt(kernel_.get())); id < count; ++id) {
    const btf_type* const type = ::btf__type_by_id(types.get(), static_cast<__u32>(id));
    const char* const name = ::btf__name_by_offset(types.get(), type->name_off);
    if (!::btf_is_enum(type) || !std::string_view(name).ends_with(end)) continue;
    if (auto found = name_in_type(types.get(), id, value)) return found;
  }
  return std::nullopt;
}

}  // namespace netlink::bpf
