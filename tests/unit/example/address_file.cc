#include <filesystem>
#include <fstream>

#include "libcni/plugin.h"

namespace {

std::string file_of(const cni::Request& request) {
  std::string dir = "/run/addresses";
  request.reader().into("dir", dir);
  return cni::cat(dir, "/", request.container_id, "-", request.ifname);
}

struct RemoveFile {
  std::string file;
  void operator()() const { std::filesystem::remove(file); }
  std::string describe() const { return cni::cat("remove '", file, "'"); }
};

cni::Result add(const cni::Request& request, cni::Undo& undo) {
  const std::string file = file_of(request);  // all of the input before any change
  const auto result = request.prev_result();
  if (!result) throw cni::Error(cni::Code::kInvalidConfig, "there is no plugin before this one");
  std::ofstream out(file);
  undo.add(RemoveFile{file});
  for (const auto& address : result->ips) out << address.cidr.str() << '\n';
  if (!out.flush()) throw cni::Error(cni::Code::kIoFailure, cni::cat("write '", file, "'"));
  return *result;
}

void del(const cni::Request& request) { RemoveFile{file_of(request)}(); }

}  // namespace

int main() { return cni::plugin_main({.name = "address-file", .add = add, .del = del}); }
