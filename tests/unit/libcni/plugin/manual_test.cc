#include "libcni/plugin/manual.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "tests/unit/libcni/sample_keys.h"

namespace {

void check(const cni::Request&) {}

constexpr cni::Plugin kSample{
    .name = "sample", .verbs = {.check = check}, .manual = &sample::kManual};
constexpr cni::Plugin kSilent{.name = "silent"};

bool has_line(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

}  // namespace

TEST_CASE("help says what the plugin is, its keys, capabilities and verbs") {
  const std::string text = cni::help(kSample);
  CHECK(text.starts_with(cni::version_text(kSample)));
  CHECK(has_line(text, "sample shows every kind of key."));
  CHECK(has_line(text, "Verbs: CHECK, VERSION; without effect: ADD, DEL, GC, STATUS"));
  CHECK(has_line(text, "Capabilities: given"));
  CHECK(has_line(text, "  flag  (bool; default false)\n      whether text counts"));
  CHECK(has_line(text, "  items[].net  (CIDR; required)\n      the network"));
  CHECK(has_line(text, "  MAC in CNI_ARGS  (MAC address; absent)\n      an address"));
  CHECK(text.find('`') == std::string::npos);
}

TEST_CASE("a plugin of another project has the version and the page that it states, or none") {
  constexpr cni::Plugin kWire{.name = "wire",
                              .manual = &sample::kManual,
                              .version = "v1.2.0",
                              .documentation = "https://example.com/wire"};
  CHECK(cni::about(kWire).starts_with("CNI wire plugin v1.2.0\nCNI protocol versions supported: "));
  CHECK(cni::about(kWire).find("patchbay") == std::string::npos);
  const std::string built = cni::cat("\nBuilt with libcni of patchbay ", cni::build_text());
  CHECK(cni::version_text(kWire) == cni::about(kWire) + built);
  CHECK(cni::help(kWire).ends_with("\n\nDocumentation: https://example.com/wire\n"));
  CHECK(nlohmann::json::parse(cni::answer_to(kWire, "--schema"))["description"] ==
        "Config of the CNI plugin wire, v1.2.0: shows every kind of key");

  CHECK(cni::about(kSample).starts_with("CNI sample plugin\n"));
  CHECK(cni::version_text(kSample) == cni::about(kSample) + built);
  CHECK(cni::help(kSample).find("Documentation") == std::string::npos);
  CHECK(nlohmann::json::parse(cni::answer_to(kSample, "--schema"))["description"] ==
        "Config of the CNI plugin sample: shows every kind of key");
}

TEST_CASE("the lines of help end before column 80") {
  std::string line;
  for (const char c : cni::help(kSample)) {
    line = c == '\n' ? "" : line + c;
    CAPTURE(line);
    CHECK(line.size() <= 80);
  }
}

TEST_CASE("the key table has a line a key: name, type, default, description") {
  CHECK(cni::key_table(sample::kManual) == R"(| key | type | default | description |
|---|---|---|---|
| `flag` | bool | false | whether `text` counts |
| `text` | string | `old` | some text |
| `small` | integer 0 to 255 | absent | of one byte |
| `large` | integer | absent | of eight |
| `mtu` | integer 0 or 68 to 9000 | absent | or zero |
| `colour` | `red` or `green` | `red` | a word |
| `maybe` | `red` or `green` | absent | a word |
| `texts` | list of strings | absent | several texts |
| `address` | address | absent | an address |
| `nets` | list of CIDRs | absent | networks |
| `deep` | bool | true | further down |
| `items` | list of objects | absent | things |
| `items[].net` | CIDR | required | the network |
| `items[].port` | integer 1 to 65535 | 7 | the port |
| `grid` | list of lists of integers 0 to 9 | absent | numbers |
| `shout` | string | absent | loud |
| `ports` | list of integers or strings | absent | read elsewhere |
| `runtimeConfig.given` | string | absent | what is given |
| `MAC` in `CNI_ARGS` | MAC address | absent | an address |
)");
}

TEST_CASE("options are answered, others refused") {
  CHECK(cni::answer_to(kSample, "--help") == cni::help(kSample));
  CHECK(cni::answer_to(kSample, "-h") == cni::help(kSample));
  CHECK(cni::answer_to(kSample, "--version") == cni::version_text(kSample) + "\n");
  CHECK(cni::answer_to(kSample, "--keys") == cni::key_table(sample::kManual));
  CHECK(nlohmann::json::parse(cni::answer_to(kSample, "--schema"))["title"] == "sample");
  CHECK_THROWS_WITH_AS(
      cni::answer_to(kSample, "--shema"),
      "unknown option '--shema', expected --help, --version, --schema, --keys or --validate",
      std::invalid_argument);
  CHECK_THROWS_AS(cni::answer_to(kSample, ""), std::invalid_argument);
}

TEST_CASE("a plugin without a table has help all the same, and says that it has no schema") {
  CHECK(cni::answer_to(kSilent, "--help").starts_with(cni::version_text(kSilent)));
  CHECK_THROWS_WITH_AS(cni::answer_to(kSilent, "--schema"), "the plugin has no table of its keys",
                       std::invalid_argument);
}
