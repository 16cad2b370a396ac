// What iptables-save prints of a table. Comments are others' text: whatever is in them, a rule
// stays one rule.
#include "libcni/plugin/iptables_save.h"

#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using fuzz::require;
  const std::string text(reinterpret_cast<const char*>(data), size);
  cni::decode_saved(text);
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  const auto table = cni::decode_saved("*nat\n:C - [0:0]\n-A C -m comment --comment " + quoted +
                                       "\" -j ACCEPT\nCOMMIT\n");
  require(table.chains == std::map<std::string, std::string>{{"C", "-"}}, "a chain is one chain");
  require(table.rules.size() == 1, "a rule is one rule");
  require(table.rules[0].words == cni::Words{"-m", "comment", "--comment", text, "-j", "ACCEPT"},
          "a comment is one word, as it was written");
  return 0;
}
