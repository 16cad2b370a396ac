// A network list: cni::list_from().
#include "libcni/runtime/conflist.h"

#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using fuzz::require;
  cni::NetworkList list;
  if (!fuzz::accepts([&] { list = cni::list_from(fuzz::text_of(data, size)); })) return 0;
  require(!list.name.empty() && !list.plugins.empty(), "a list has a name and plugins");
  for (const cni::PluginConf& plugin : list.plugins) {
    require(!plugin.type.empty(), "a plugin has a type");
    plugin.own_name();
    plugin.capabilities();
  }
  fuzz::accepts([&] { list.is_at_least("1.1.0"); });
  const cni::NetworkList again = cni::list_from(list.text);
  require(again.name == list.name && again.version == list.version &&
              again.plugins.size() == list.plugins.size(),
          "its text says the same");
  return 0;
}
