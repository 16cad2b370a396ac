#include "plugins/devices/agent/blocks.h"

#include <unistd.h>

#include <functional>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "libcni/plugin/manual.h"
#include "netlink/types/fd.h"
#include "plugins/devices/agent/files.h"
#include "plugins/devices/agent/log.h"

namespace devices {

// What serves blocks; empty without their config.
StartBeside blocks_of(const BlockOptions& options) {
  auto conf = block_agent::Conf::find(options.config);
  if (!conf) return {};
  return [conf = std::move(*conf), &options] {
    std::function<void(const std::string&)> metrics;
    if (!options.metrics.empty()) {
      metrics = [&options](const std::string& text) {
        attempt("write metrics", "", [&] { write_metrics(options.metrics, text); });
      };
    }
    return std::make_shared<block_agent::BlockAgent>(conf, options.paths, metrics);
  };
}

int describe_blocks(const Described& what) {
  if (what.schema) {
    std::cout << block_agent::blocks_schema().dump(4) << '\n';
  } else if (what.keys) {
    std::cout << cni::key_table(block_agent::kBlocksManual);
  } else if (what.validate) {
    const auto verdict = block_agent::judge(netlink::read_all(STDIN_FILENO, "stdin"));
    if (!verdict.empty()) std::cout << verdict.dump(4) << '\n';
    return verdict.contains("code") ? 1 : 0;
  } else {
    std::cerr << "patchbay-agent: blocks: --schema, --keys or --validate is missing\n";
    return 2;
  }
  return 0;
}

}  // namespace devices
