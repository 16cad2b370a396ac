#include "netlink/bpf/kernel_symbols.h"

#include <charconv>
#include <cstdio>
#include <memory>
#include <string_view>

namespace netlink::bpf {

namespace {

/// "ffffffff81e44f40 T kfree_skb_reason", with "\t[module]" behind it for those of modules.
struct Symbol {
  std::uint64_t address = 0;
  std::string_view name;  ///< empty: it is no function
};
Symbol symbol_in(std::string_view line) {
  Symbol out;
  const char* const end = line.data() + line.size();
  const auto [rest, error] = std::from_chars(line.data(), end, out.address, 16);
  if (error != std::errc() || end - rest < 4 || rest[0] != ' ' || rest[2] != ' ') return {};
  if (std::string_view("tTwW").find(rest[1]) == std::string_view::npos) return {};
  const std::string_view name(rest + 3, static_cast<std::size_t>(end - rest - 3));
  out.name = name.substr(0, name.find_first_of(".\t\n "));
  return out;
}

}  // namespace

std::map<std::uint64_t, std::string> kernel_symbols(const std::vector<std::uint64_t>& addresses,
                                                    const std::string& file) {
  struct Best {
    std::uint64_t begin = 0;
    std::string name;
  };
  std::map<std::uint64_t, Best> found;
  for (const std::uint64_t one : addresses) found.try_emplace(one);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> in(std::fopen(file.c_str(), "re"),
                                                           std::fclose);
  char line[512];
  while (in && !found.empty() && std::fgets(line, sizeof line, in.get()) != nullptr) {
    const Symbol symbol = symbol_in(line);
    if (symbol.name.empty() || symbol.address == 0) continue;
    for (auto at = found.lower_bound(symbol.address); at != found.end(); ++at) {
      if (symbol.address > at->second.begin) {
        at->second = {symbol.address, std::string(symbol.name)};
      }
    }
  }
  std::map<std::uint64_t, std::string> out;
  for (auto& [address, best] : found) out[address] = std::move(best.name);
  return out;
}

bool shows_kernel_symbols(const std::string& file) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> in(std::fopen(file.c_str(), "re"),
                                                           std::fclose);
  constexpr int kMostHidden = 100;
  char line[512];
  for (int hidden = 0; in && hidden < kMostHidden;) {
    if (std::fgets(line, sizeof line, in.get()) == nullptr) break;
    const Symbol symbol = symbol_in(line);
    if (symbol.name.empty()) continue;  // those of processors are at 0 in any case
    if (symbol.address != 0) return true;
    ++hidden;
  }
  return false;
}

}  // namespace netlink::bpf
