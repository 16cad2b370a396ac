#include "netlink/bpf/loaded.h"

#include <bpf/bpf.h>

#include <cerrno>

#include "netlink/types/error.h"

namespace netlink::bpf {

namespace {

// Fills what the kernel knows of a program or a map; older kernels leave the rest zero.
template <class Info>
void read_info(const Fd& fd, Info& info) {
  std::uint32_t size = sizeof info;
  if (::bpf_obj_get_info_by_fd(fd.get(), &info, &size) != 0) {
    throw Error("ask about a program of the kernel", errno);
  }
}

std::vector<std::uint32_t> map_ids(const Fd& program) {
  bpf_prog_info info{};
  read_info(program, info);
  std::vector<std::uint32_t> ids(info.nr_map_ids);
  info = {};  // else the kernel takes what it wrote for requests
  info.nr_map_ids = static_cast<std::uint32_t>(ids.size());
  info.map_ids = reinterpret_cast<std::uintptr_t>(ids.data());
  read_info(program, info);
  if (info.nr_map_ids < ids.size()) ids.resize(info.nr_map_ids);
  return ids;
}

std::size_t padded(std::size_t size) { return (size + 7) & ~std::size_t{7}; }

}  // namespace

std::optional<std::vector<LoadedMap>> maps_of(std::uint32_t program_id) {
  const Fd program(::bpf_prog_get_fd_by_id(program_id));
  if (!program && errno == ENOENT) return std::nullopt;
  if (!program) throw Error(cat("open program #", program_id), errno);
  std::vector<LoadedMap> out;
  for (const std::uint32_t id : map_ids(program)) {
    Fd fd(::bpf_map_get_fd_by_id(id));
    if (!fd) throw Error(cat("open map #", id), errno);
    bpf_map_info info{};
    read_info(fd, info);
    out.push_back({.fd = std::move(fd),
                   .name = info.name,
                   .type = info.type,
                   .key_size = info.key_size,
                   .value_size = info.value_size,
                   .max_entries = info.max_entries});
  }
  return out;
}

std::vector<std::byte> element(const LoadedMap& array, std::uint32_t index) {
  std::vector<std::byte> out(padded(array.value_size));  // what the kernel copies
  if (::bpf_map_lookup_elem(array.fd.get(), &index, out.data()) != 0) {
    throw Error(cat("read map '", array.name, "'"), errno);
  }
  out.resize(array.value_size);
  return out;
}

}  // namespace netlink::bpf
