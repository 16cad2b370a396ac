#include "netlink/bpf/object.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <cerrno>
#include <utility>

#include "netlink/bpf/log.h"
#include "netlink/types/error.h"

namespace netlink::bpf {

namespace {

constexpr std::size_t kLogSize = std::size_t{256} * 1024;

// The pages stay untouched, and cost nothing until the kernel writes there.
std::unique_ptr<char[]> make_log() {
  std::unique_ptr<char[]> log(new char[kLogSize]);  // make_unique would clear it
  log[0] = '\0';
  return log;
}

bpf_object* open_object(const std::string& name, std::span<const std::byte> file, char* log) {
  ::libbpf_set_print(nullptr);  // it would write to stderr
  bpf_object_open_opts options{};
  options.sz = sizeof options;
  options.object_name = name.c_str();
  options.kernel_log_buf = log;
  options.kernel_log_size = kLogSize;
  bpf_object* const object = ::bpf_object__open_mem(file.data(), file.size(), &options);
  if (object == nullptr) throw Error(cat("read object '", name, "'"), errno);
  return object;
}

bpf_map& find_map(const bpf_object* object, const std::string& name) {
  bpf_map* const map = ::bpf_object__find_map_by_name(object, name.c_str());
  if (map == nullptr) throw Error(cat("find map '", name, "'"), ENOENT);
  return *map;
}

}  // namespace

bool is_built_in() noexcept { return true; }

Object::Object(std::string name, std::span<const std::byte> file)
    : name_(std::move(name)),
      log_(make_log()),
      object_(open_object(name_, file, log_.get()), ::bpf_object__close) {}

void Object::set_constants(std::span<const std::byte> values) {
  bpf_map& map = find_map(object_.get(), ".rodata");
  if (::bpf_map__set_initial_value(&map, values.data(), values.size()) != 0) {
    throw Error(cat("set the constants of '", name_, "'"), errno);
  }
}

void Object::reuse_map(const std::string& name, const Fd& map) {
  if (::bpf_map__reuse_fd(&find_map(object_.get(), name), map.get()) != 0) {
    throw Error(cat("reuse map '", name, "'"), errno);
  }
}

void Object::load() {
  if (::bpf_object__load(object_.get()) == 0) return;
  const int error = errno;
  throw Error(cat("load program '", name_, "'"), error, last_words(log_.get()));
}

int Object::program(const std::string& name) const {
  const bpf_program* const program =
      ::bpf_object__find_program_by_name(object_.get(), name.c_str());
  if (program == nullptr) throw Error(cat("find program '", name, "'"), ENOENT);
  return ::bpf_program__fd(program);
}

int Object::map(const std::string& name) const {
  return ::bpf_map__fd(&find_map(object_.get(), name));
}

// The kernel knows the place since the program was loaded.
Fd Object::attach(const std::string& name) const {
  Fd out(::bpf_raw_tracepoint_open(nullptr, program(name)));
  if (!out) throw Error(cat("attach program '", name, "'"), errno);
  return out;
}

void put(int map, std::span<const std::byte> key, std::span<const std::byte> value) {
  if (::bpf_map_update_elem(map, key.data(), value.data(), BPF_ANY) != 0) {
    throw Error("fill a map of a program", errno);
  }
}

Ring::Ring(int map, Use use)
    : use_(std::make_unique<Use>(std::move(use))), ring_(nullptr, ::ring_buffer__free) {
  const auto hand_over = [](void* to, void* data, std::size_t size) {
    (*static_cast<Use*>(to))({static_cast<const std::byte*>(data), size});
    return 0;
  };
  ring_.reset(::ring_buffer__new(map, hand_over, use_.get(), nullptr));
  if (!ring_) throw Error("read the ring of a program", errno);
}

int Ring::fd() const { return ::ring_buffer__epoll_fd(ring_.get()); }

void Ring::read() {
  const int read = ::ring_buffer__consume(ring_.get());
  if (read < 0) throw Error("read the ring of a program", -read);
}

}  // namespace netlink::bpf
