#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

struct btf;

namespace netlink::bpf {

/// The running kernel's own enumerations, and those of its modules (BTF, below /sys/kernel/btf).
class EnumNames {
 public:
  /// \throws Error where the kernel has no BTF.
  EnumNames();
  bool knows(const std::string& enumeration) const;
  /// The name of the first constant of that value; empty: there is none.
  std::optional<std::string> name_of(const std::string& enumeration, std::uint32_t value) const;
  /// The same of the enumerations of a module whose names end so.
  std::optional<std::string> name_in(const std::string& module, std::string_view end,
                                     std::uint32_t value) const;

 private:
  std::unique_ptr<btf, void (*)(btf*)> kernel_;
};

}  // namespace netlink::bpf
