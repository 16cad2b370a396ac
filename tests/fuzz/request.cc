// A call of a plugin: the environment, CNI_ARGS, and what every config has.
#include "libcni/plugin/request.h"

#include "libcni/config/args.h"
#include "libcni/config/names.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/plugin_conf.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using fuzz::require;
  const auto request = fuzz::request_in(fuzz::text_of(data, size));
  if (!request) return 0;
  using cni::Command;
  const Command verb = request->command;
  if (verb == Command::kVersion) return 0;
  cni::check_network_name(request->network);
  if (verb != Command::kGc && verb != Command::kStatus) {
    cni::check_container_id(request->container_id);
    cni::check_ifname(request->ifname);
  }
  for (const std::string& folder : request->path) require(!folder.empty(), "no folder is empty");
  require(request->stated_version() == request->version, "the version is the config's");
  fuzz::accepts([&] { request->prev_result(); });
  fuzz::accepts([&] {
    const auto valid = request->valid_attachments();
    for (const cni::Attachment& one : valid.value_or(std::vector<cni::Attachment>())) {
      require(!one.container_id.empty() && !one.ifname.empty(), "an attachment has both names");
    }
  });
  constexpr cni::Key kArgs[] = {
      {.name = "IP"}, {.name = "GATEWAY"}, {.name = "MAC"}, {.name = "K8S_POD_NAME"}};
  fuzz::accepts([&] { cni::parse_args(request->args, kArgs); });
  return 0;
}
