#include "libcni/config/complaints.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "libcni/plugin/plugin.h"
#include "tests/unit/libcni/sample_keys.h"
#include "tests/unit/surroundings.h"

using cni::Key;
using cni::Type;
using nlohmann::json;

namespace {

constexpr std::string_view kWords[] = {"nftables", "iptables"};
bool is_small(const std::string& text) {
  return text.find_first_not_of("abcdefghijklmnopqrstuvwxyz") == std::string::npos;
}

constexpr Key kIpamKeys[] = {{.name = "subnet", .type = Type::kCidr, .required = true},
                             {.name = "dataDir"}};
constexpr Key kEntryKeys[] = {{.name = "id", .type = Type::kInteger}};
constexpr Key kKeys[] = {
    {.name = "isGateway", .type = Type::kBool},
    {.name = "mtu", .type = Type::kInteger, .minimum = 68, .maximum = 65535},
    {.name = "backend", .type = Type::kEnum, .enumeration = kWords, .or_empty = true},
    {.name = "list", .lists = 1},
    {.name = "ipam", .type = Type::kObject, .keys = kIpamKeys},
    {.name = "gateway", .type = Type::kIp, .or_empty = true},
    {.name = "entries", .type = Type::kObject, .lists = 1, .keys = kEntryKeys},
    {.name = "letters", .fits = is_small, .expected = "small letters"},
    {.name = "mac", .type = Type::kMac},
    {.name = "either", .type = Type::kIpOrCidr},
    {.name = "port", .type = Type::kIntegerOrString, .minimum = 1, .maximum = 9, .fits = is_small},
    {.name = "flags", .type = Type::kObject, .open = true, .flags = true},
    {.name = "args", .type = Type::kObject, .open = true}};
constexpr Key kObject{.type = Type::kObject, .keys = kKeys};

// One line a complaint.
std::string said(const json& config) {
  std::string out;
  for (const auto& one : cni::complaints(kObject, config)) out += one.str() + "\n";
  return out;
}

}  // namespace

TEST_CASE("a config that fits gives no complaints") {
  CHECK(said(R"({})"_json).empty());
  CHECK(said(R"({"isGateway": true, "mtu": 68, "backend": "iptables", "list": ["a"],
      "ipam": {"subnet": "10.1.2.0/24"}, "gateway": "fd00::1", "entries": [{"id": 1}, {}],
      "letters": "abc", "mac": "02:00:5e:10:20:30", "either": "10.0.0.1", "port": 9,
      "flags": {"any": true, "none": null}, "args": {"any": 5}})"_json)
            .empty());
  CHECK(said(R"({"backend": "", "gateway": "", "either": "fd00::/8", "port": "x"})"_json).empty());
}

TEST_CASE("an unknown key is complained of, with what may have been meant") {
  CHECK(said(R"({"isGatway": true})"_json) == "isGatway: unknown key (did you mean isGateway?)\n");
  CHECK(said(R"({"entries": [{}, {"ib": 5}]})"_json) == "entries[1].ib: unknown key\n");
  CHECK(said(R"({"ipam": {"subnet": "10.0.0.0/8", "datadir2": "x"}})"_json) ==
        "ipam.datadir2: unknown key (did you mean dataDir?)\n");
  CHECK(said(R"({"nonsense": 1})"_json) == "nonsense: unknown key\n");
}

TEST_CASE("a key that belongs elsewhere is shown its place") {
  CHECK(said(R"({"subnet": "10.0.0.0/8"})"_json) ==
        "subnet: unknown key (did you mean ipam.subnet?)\n");
  CHECK(said(R"({"id": 1})"_json) == "id: unknown key (did you mean entries[].id?)\n");
}

TEST_CASE("keys match as a plugin matches them: in any case") {
  CHECK(said(R"({"ISGATEWAY": true, "Ipam": {"Subnet": "10.0.0.0/8"}})"_json).empty());
  CHECK(said(R"({"MTU": 1})"_json) == "mtu: expected an integer from 68 to 65535: 1\n");
}

TEST_CASE("null is an absent key, and no element of a list") {
  CHECK(said(R"({"mtu": null, "entries": null, "gateway": null})"_json).empty());
  CHECK(said(R"({"ipam": {"subnet": null}})"_json) ==
        "ipam.subnet: expected an address with prefix length (CIDR notation, for example "
        "10.1.2.0/24): the key is missing\n");
  CHECK(said(R"({"list": [null]})"_json) == "list[0]: expected a string: null\n");
}

TEST_CASE("a value that is not allowed is complained of, with how it may be meant") {
  const struct {
    const char *config, *said;
  } table[] = {
      {R"({"isGateway": "true"})",
       "isGateway: expected true or false: \"true\" (did you mean true?)\n"},
      {R"({"isGateway": "No"})",
       "isGateway: expected true or false: \"No\" (did you mean false?)\n"},
      {R"({"isGateway": 1})", "isGateway: expected true or false: 1 (did you mean true?)\n"},
      {R"({"isGateway": "maybe"})", "isGateway: expected true or false: \"maybe\"\n"},
      {R"({"mtu": "1500"})",
       "mtu: expected an integer from 68 to 65535: \"1500\" (did you mean 1500?)\n"},
      {R"({"mtu": 1500.0})",
       "mtu: expected an integer from 68 to 65535: 1500.0 (did you mean 1500?)\n"},
      {R"({"mtu": 1500.5})", "mtu: expected an integer from 68 to 65535: 1500.5\n"},
      {R"({"mtu": "5"})", "mtu: expected an integer from 68 to 65535: \"5\"\n"},
      {R"({"mtu": 67})", "mtu: expected an integer from 68 to 65535: 67\n"},
      {R"({"mtu": 65536})", "mtu: expected an integer from 68 to 65535: 65536\n"},
      {R"({"mtu": 18446744073709551615})",
       "mtu: expected an integer from 68 to 65535: 18446744073709551615\n"},
      {R"({"list": "a"})", "list: expected a list: \"a\" (did you mean [\"a\"]?)\n"},
      {R"({"entries": {"id": 5}})",
       "entries: expected a list: {\"id\":5} (did you mean [{\"id\":5}]?)\n"},
      {R"({"entries": [{"id": -1}]})", "entries[0].id: expected an integer of at least 0: -1\n"},
      {R"({"ipam": "host-local"})", "ipam: expected an object: \"host-local\"\n"},
      {R"([])", "config: expected an object: []\n"},
      {R"({"flags": {"any": "x"}})", "flags.any: expected true or false: \"x\"\n"},
      {R"({"backend": "nftable"})",
       "backend: expected \"nftables\" or \"iptables\": \"nftable\" (did you mean "
       "\"nftables\"?)\n"},
      {R"({"backend": "pf"})", "backend: expected \"nftables\" or \"iptables\": \"pf\"\n"},
      {R"({"gateway": "10.1"})", "gateway: expected an IP address: \"10.1\"\n"},
      {R"({"ipam": {"subnet": "10.1.2.0/33"}})",
       "ipam.subnet: expected an address with prefix length (CIDR notation, for example "
       "10.1.2.0/24): "
       "\"10.1.2.0/33\"\n"},
      {R"({"letters": "A"})", "letters: expected small letters: \"A\"\n"},
      {R"({"mac": "01:00:5e:10:20:30"})",
       "mac: expected a unicast MAC address other than zero, for example 02:00:5e:10:20:30: "
       "\"01:00:5e:10:20:30\"\n"},
      {R"({"either": "x"})",
       "either: expected an IP address, with or without prefix length: \"x\"\n"},
      {R"({"port": 10})", "port: expected an integer from 1 to 9: 10\n"},
      {R"({"port": "X"})", "port: expected an integer from 1 to 9: \"X\"\n"},
  };
  for (const auto& row : table) {
    CAPTURE(row.config);
    CHECK(said(json::parse(row.config)) == row.said);
  }
}

TEST_CASE("all that is wrong is said, not only the first") {
  CHECK(cni::complaints(kObject, R"({"isGateway": 5, "mtu": "x", "what": 1,
                                     "entries": [{"id": "a"}, {"id": "b"}]})"_json)
            .size() == 5);
}

TEST_CASE("a plugin's table is completed by what every config has") {
  const auto places = [](const char* conf) {
    std::string out;
    for (const auto& one : cni::complaints(sample::kManual, json::parse(conf)))
      out += one.path + " ";
    return out;
  };
  CHECK(places(R"({"flag": true, "text": "new", "small": 255, "large": -5, "mtu": 68,
      "colour": "green", "maybe": "red", "texts": [], "address": "10.0.0.1", "nets": ["10.0.0.0/8"],
      "deep": false, "items": [{"net": "fd00::/8"}, {"net": "10.0.0.0/8", "port": 1}],
      "grid": [[1, 2], [], [3]], "shout": "ho", "runtimeConfig": {"given": "x", "more": 1},
      "ports": [1, "2-3"], "address": "", "maybe": "", "cniVersion": "1.0.0", "name": "n",
      "type": "sample", "capabilities": {"given": true}, "prevResult": {"ips": 5},
      "patchbayLog": "stderr", "cni.dev/valid-attachments": []})")
            .empty());
  CHECK(places(R"({"small": 256, "mtu": 67, "colour": "blue", "texts": [1], "address": "10.0.0.300",
      "nets": ["10.0.0.0/33"], "items": [{}, {"net": "10.0.0.0/8", "port": 0}], "grid": [[10]],
      "shout": "HO", "ports": [0, "2-", 2.5], "runtimeConfig": {"given": 1}})") ==
        "small mtu colour texts[0] address nets[0] items[0].net items[1].port grid[0][0] shout "
        "ports[0] ports[1] ports[2] runtimeConfig.given ");
  CHECK(places(R"({"cniVersion": "9", "name": "a b", "type": "a/b", "patchbayLog": "log",
                   "capabilities": {"given": 1, "more": true}, "what": 1,
                   "dns": {"nameserver": []}})") ==
        "cniVersion name type capabilities.given capabilities.more dns.nameserver patchbayLog "
        "what ");
}

TEST_CASE("of an unknown plugin only what every config has is checked") {
  const cni::Manual any{.purpose = "", .facts = {cni::Fact::kIpam}};
  CHECK(cni::complaints(any, R"({"type": "x", "name": "n", "what": 1,
                                 "capabilities": {"any": true}})"_json)
            .empty());
  CHECK(cni::complaints(any, R"({"type": "a/b"})"_json).size() == 1);
  CHECK(cni::complaints(any, R"({"dns": {"nameserver": []}})"_json).size() == 1);
  CHECK(cni::complaints(any, R"({"capabilities": {"any": 1}})"_json).size() == 1);
}

TEST_CASE("complaints are read as they were written, and other entries are ignored") {
  const auto all = cni::complaints(kObject, R"({"isGatway": true, "mtu": 1})"_json);
  CHECK(all.size() == 2);
  CHECK(cni::complaints_in(json(cni::json_of(all))) == all);
  CHECK(cni::complaints_in(R"([5, {}, {"message": 5}, null, {"path": 5, "message": "x"}])"_json)
            .empty());
  CHECK(cni::complaints_in(R"("text")"_json).empty());
}

namespace {

struct Answer {
  int status;
  json said;
};

// What --validate says of a config with these keys.
Answer validated(const std::string& keys, void (*parser)(const cni::Request&)) {
  const netlink::Fd in = surroundings::file_with(
      R"({"cniVersion": "1.1.0", "name": "n", "type": "sample", )" + keys + "}");
  const netlink::Fd out = surroundings::file_with("");
  const int status =
      cni::validate({.name = "sample", .verbs = {.validate = parser}, .manual = &sample::kManual},
                    {.env = {}, .in = in.get(), .out = out.get()});
  const std::string text = surroundings::content_of(out);
  return {status, text.empty() ? json() : json::parse(text)};
}

void parse(const cni::Request& request) {
  sample::Conf conf;
  cni::read_keys(request.reader(), sample::kKeys, conf);
}

}  // namespace

TEST_CASE("--validate prints the complaints beside the error that ADD would fail with") {
  const Answer refused = validated(R"("flag": 1, "small": 256)", parse);
  CHECK(refused.status == 1);
  CHECK(refused.said["code"] == 7);
  CHECK(refused.said["msg"] == "failed to load netconf: flag: expected true or false: 1");
  CHECK(refused.said["findings"].size() == 2);
  const Answer misspelt = validated(R"("flagg": true)", parse);
  CHECK(misspelt.status == 0);
  CHECK(misspelt.said == R"({"findings": [
      {"path": "flagg", "message": "unknown key", "suggestion": "flag"}]})"_json);
  const Answer right = validated(R"("flag": true)", parse);
  CHECK(right.status == 0);
  CHECK(right.said.is_null());
}
