#include "tests/fuzz/plugin_conf.h"

#include "tests/fuzz/fuzz.h"

namespace fuzz {

namespace {

cni::Env environment_in(std::string_view text) {
  cni::Env env{{"CNI_COMMAND", "ADD"},
               {"CNI_CONTAINERID", "c1"},
               {"CNI_NETNS", "/run/netns/pod"},
               {"CNI_IFNAME", "eth0"},
               {"CNI_PATH", "/opt/cni/bin"}};
  while (!text.empty()) {
    std::string_view value = take_until(text, "\n");
    const std::string_view name = take_until(value, "=");
    env.insert_or_assign(std::string(name), std::string(value));
  }
  return env;
}

}  // namespace

std::optional<cni::Request> request_in(std::string_view text) {
  std::string_view variables;
  if (text.find("\n\n") != std::string_view::npos && !text.starts_with('{')) {
    variables = take_until(text, "\n\n");
  }
  cni::Request request;
  const bool is_right = accepts([&] {
    if (request.read_environment(environment_in(variables))) request.read_config(std::string(text));
  });
  request.stated_version();
  return is_right ? std::optional(std::move(request)) : std::nullopt;
}

bool takes(const cni::Request& request, void (*validate)(const cni::Request&)) {
  accepts([&] { request.valid_attachments(); });
  return accepts([&] { validate(request); });
}

}  // namespace fuzz
