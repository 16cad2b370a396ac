#include "netlink/bpf/log.h"

#include <vector>

namespace netlink::bpf {

std::string last_words(std::string_view log) {
  constexpr std::size_t kMaxLines = 3;
  std::vector<std::string_view> lines;
  while (!log.empty()) {
    const std::size_t end = log.find('\n');
    const std::string_view line = log.substr(0, end);
    log.remove_prefix(end == std::string_view::npos ? log.size() : end + 1);
    if (line.empty()) continue;
    // "processed 12 insns (limit 1000000) ..." and "verification time 9 usec" end every log.
    if (line.starts_with("processed ") || line.starts_with("verification time ")) continue;
    // Behind an instruction stands all that is known of the registers.
    const std::string_view shown = line.substr(0, line.find(" ; R"));
    lines.push_back(shown.substr(0, shown.find_last_not_of(' ') + 1));
  }
  std::string out;
  const std::size_t first = lines.size() > kMaxLines ? lines.size() - kMaxLines : 0;
  for (std::size_t i = first; i < lines.size(); ++i) {
    if (!out.empty()) out += "; ";
    out += lines[i];
  }
  return out;
}

}  // namespace netlink::bpf
