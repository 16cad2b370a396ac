#include "netlink/bpf/kernel_symbols.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

using netlink::bpf::kernel_symbols;
using netlink::bpf::shows_kernel_symbols;

namespace {

// A file as /proc/kallsyms, for one call.
auto with_file(const char* text, const auto& call) {
  const auto path = std::filesystem::temp_directory_path() / "patchbay_kallsyms_test";
  std::ofstream(path) << text;
  auto out = call(path.string());
  std::filesystem::remove(path);
  return out;
}

std::map<std::uint64_t, std::string> symbols_in(const char* text,
                                                const std::vector<std::uint64_t>& addresses) {
  return with_file(text, [&](const std::string& path) { return kernel_symbols(addresses, path); });
}

bool shows(const char* text) {
  return with_file(text, [](const std::string& path) { return shows_kernel_symbols(path); });
}

constexpr const char kText[] =
    "0000000000001000 T kfree_skb\n"
    "0000000000003000 t ip_rcv_finish_core.isra.0\n"
    "0000000000002000 T nf_hook_slow\n"
    "0000000000003100 d not_a_function\n"
    "0000000000004000 t br_forward\t[bridge]\n"
    "garbage\n\n0 T\n";

}  // namespace

TEST_CASE("an address is in the function that begins last before it, in any order of the file") {
  const auto found = symbols_in(kText, {0x1000, 0x2fff, 0x3200, 0x4010, 0x500});
  CHECK(found.at(0x1000) == "kfree_skb");
  CHECK(found.at(0x2fff) == "nf_hook_slow");
  CHECK(found.at(0x3200) == "ip_rcv_finish_core");
  CHECK(found.at(0x4010) == "br_forward");
  CHECK(found.at(0x500).empty());
}

TEST_CASE("hidden addresses and a file that does not exist give no names") {
  CHECK(symbols_in("0000000000000000 T nf_hook_slow\n", {0x2000}).at(0x2000).empty());
  CHECK(kernel_symbols({0x2000}, "/nonexistent").at(0x2000).empty());
  CHECK(kernel_symbols({}).empty());
}

TEST_CASE("a file shows addresses where a function has one, whatever the data of processors have") {
  CHECK(shows("0000000000000000 A fixed_percpu_data\n0000000000001000 T kfree_skb\n"));
  CHECK_FALSE(shows("0000000000000000 A fixed_percpu_data\n0000000000000000 T kfree_skb\n"));
  CHECK_FALSE(shows_kernel_symbols("/nonexistent"));
}
