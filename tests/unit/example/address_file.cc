#include <filesystem>
#include <fstream>

#include "libcni/config/keys.h"
#include "libcni/plugin/plugin.h"

namespace {

struct Conf {
  std::string dir = "/run/addresses";
};

constexpr auto kKeys = cni::keys(cni::key<&Conf::dir>(
    {.name = "dir", .description = "the folder of the files", .default_text = "`/run/addresses`"}));

constexpr cni::Manual kManual{.purpose = "writes the pod's addresses to a file",
                              .keys = kKeys,
                              .facts = {cni::Fact::kChained}};

std::string file_of(const cni::Request& request) {
  Conf conf;
  cni::read_keys(request.reader(), kKeys, conf);
  return cni::cat(conf.dir, "/", request.container_id, "-", request.ifname);
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

int main(int argc, char** argv) {
  return cni::plugin_main(
      {.name = "address-file", .verbs = {.add = add, .del = del}, .manual = &kManual}, argc, argv);
}
