// Objects of blocks as etcd and the API server have them: keys and values, and custom resources.
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "libcni/config/json.h"
#include "plugins/cluster-pool/agent/engine_etcd.h"
#include "plugins/cluster-pool/agent/engine_kubernetes.h"
#include "plugins/cluster-pool/agent/object.h"
#include "tests/fuzz/fuzz.h"

using namespace block_agent;

namespace {

void check(const Object& object) {
  const auto again = object_in_text(object.kind, spec_of(object).dump());
  fuzz::require(again.has_value(), "what is stored is read again");
  Object same = *again;
  same.version = object.version;
  fuzz::require(same == object, "and says the same");
  fuzz::require(is_node_name(name_of(object)), "a name is one of Kubernetes");
  const auto of_key = object_of_key("/p", "/p/" + key_of(object), spec_of(object).dump());
  fuzz::require(of_key && of_key->claim == object.claim, "a key is read again");
}

}  // namespace

// The first line is a key, the rest a value; all of it is a resource.
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  const auto line = text.find('\n');
  const std::string_view key = text.substr(0, line);
  const std::string_view value = line == text.npos ? "" : text.substr(line + 1);
  if (const auto object = object_of_key("/p", key, value)) {
    if (!object->claim.empty()) check(*object);
  }
  const auto resource = cni::try_parse_json(text);
  for (const Kind kind : kKinds) {
    if (const auto object = object_of_resource(kind, resource)) check(*object);
  }
  return 0;
}
