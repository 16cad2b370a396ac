#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "netlink/types/fd.h"

struct bpf_object;
struct ring_buffer;

/// Programs that run in the kernel (eBPF), over libbpf. Everything throws netlink::Error.
namespace netlink::bpf {

/// Whether this build can load programs (CMake's option CNI_BPF). Without, every function here that
/// would need it throws EOPNOTSUPP.
bool is_built_in() noexcept;

/// An object file of `clang -target bpf`: opened, adjusted, then loaded into the kernel. What was
/// loaded stays as long as the Object, or whoever the kernel knows to use it: a filter keeps its
/// program, a program its maps.
class Object {
 public:
  /// Parses the file; the kernel sees nothing of it yet. Its name is the first part of the name of
  /// its constants' map.
  Object(std::string name, std::span<const std::byte> file);

  /// Sets all constants of the program (section .rodata) at once.
  void set_constants(std::span<const std::byte> values);
  /// The program uses a map that is in the kernel already, not one of its own. They must be alike.
  void reuse_map(const std::string& name, const Fd& map);
  /// \throws Error, with the verifier's last lines where it refuses the program.
  void load();

  /// The descriptor of a loaded program or map; closed with the Object.
  int program(const std::string& name) const;
  int map(const std::string& name) const;
  /// Attaches a loaded program to the place of the kernel that its section names (tp_btf), until
  /// the descriptor is closed, as at the end of the process.
  Fd attach(const std::string& name) const;

 private:
  std::string name_;
  /// Filled by the kernel when it refuses a program.
  std::unique_ptr<char[]> log_;
  std::unique_ptr<bpf_object, void (*)(bpf_object*)> object_;
};

/// Adds the key to a hash of a loaded object, or replaces its value. Both as large as its own.
void put(int map, std::span<const std::byte> key, std::span<const std::byte> value);

/// Hears what a program writes into its ring (BPF_MAP_TYPE_RINGBUF, since Linux 5.8).
class Ring {
 public:
  using Use = std::function<void(std::span<const std::byte>)>;
  /// The map of a loaded object, which outlives the Ring; use hears each event.
  Ring(int map, Use use);
  /// Readable where there are events.
  int fd() const;
  /// Hands over the events so far, in order.
  void read();

 private:
  std::unique_ptr<Use> use_;
  std::unique_ptr<ring_buffer, void (*)(ring_buffer*)> ring_;
};

}  // namespace netlink::bpf
