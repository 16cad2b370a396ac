#include "libcni/tool/graph.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>

#include "libcni/common/undo.h"
#include "libcni/runtime/liveness.h"
#include "libcni/tool/graph_formats.h"
#include "netlink/types/fd.h"

namespace tool {

namespace {

std::string state_of(const cni::CachedAttachment& one) {
  if (one.result->is_null()) return "unfinished";
  return std::string(str(cni::liveness_of(one.netns, one.key.ifname)));
}

std::vector<cni::CachedAttachment> attachments(const Settings& settings) {
  const cni::Cache cache(settings.cache_dir);
  cni::Cache::Listing found = cache.list();
  for (const auto& one : found.broken) {
    cni::note(cat("cache file '", cache.dir(), "/results/", one.name, "' is broken: ", one.why));
  }
  std::sort(found.attachments.begin(), found.attachments.end(),
            [](const auto& a, const auto& b) { return a.key < b.key; });
  return std::move(found.attachments);
}

void write_file(const std::string& file, const std::string& text) {
  constexpr unsigned kMode = 0644;
  const netlink::Fd fd(::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kMode));
  if (!fd) throw netlink::Error(cat("write '", file, "'"), errno);
  netlink::write_all(fd.get(), text, cat("'", file, "'"));
}

std::string drawn(const Graph& graph, const GraphOptions& options, const Output& output) {
  if (output.json) {
    return json_of(graph).dump(4, ' ', false, nlohmann::ordered_json::error_handler_t::replace) +
           '\n';
  }
  if (options.format == "svg") return graph_svg(graph);
  if (options.format == "dot") return graph_dot(graph);
  const bool colours = output.colours && options.file.empty();
  return graph_text(graph, {.out = output.out, .colours = colours});
}

}  // namespace

void graph(const GraphOptions& options, const Settings& settings, const Output& output) {
  const Graph whole = graph_of(attachments(settings), KernelState::read(), state_of);
  const std::string text = drawn(whole, options, output);
  if (options.file.empty()) {
    output.out << text;
  } else {
    write_file(options.file, text);
  }
}

}  // namespace tool
