#include "cnitool/doctor/kubernetes/toml.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

using nlohmann::json;
using tool::doctor::kubernetes::parse_toml;

TEST_CASE("toml: containerd's config of version 2 and 3") {
  const json config = parse_toml(R"toml(
version = 2   # of the config
imports = [
  "/etc/containerd/conf.d/*.toml",  # more
  'a\b',
]
disabled_plugins = []
[plugins]
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/opt/cni/bin"
    conf_template = ""
    max_conf_num = 1_0
[plugins.'io.containerd.cri.v1.runtime']
cni = {bin_dirs = ["/a", "/b"], setup_serially = true}
cni.conf_dir = '''/etc/cni
net.d'''
[[proxy]]
name = "one"
[[proxy]]
name = "two"
proxy.rate = 1.5
)toml");
  CHECK(config["version"] == 2);
  CHECK(config["imports"] == json{"/etc/containerd/conf.d/*.toml", "a\\b"});
  CHECK(config["disabled_plugins"] == json::array());
  const json& cri = config["plugins"]["io.containerd.grpc.v1.cri"]["cni"];
  CHECK(cri == json{{"bin_dir", "/opt/cni/bin"}, {"conf_template", ""}, {"max_conf_num", 10}});
  const json& cni = config["plugins"]["io.containerd.cri.v1.runtime"]["cni"];
  CHECK(cni["bin_dirs"] == json{"/a", "/b"});
  CHECK(cni["setup_serially"] == true);
  CHECK(cni["conf_dir"] == "/etc/cni\nnet.d");
  REQUIRE(config["proxy"].size() == 2);
  CHECK(config["proxy"][1]["name"] == "two");
  CHECK(config["proxy"][1]["proxy"]["rate"] == "1.5");
}

TEST_CASE("toml: escapes, and lines that end in a backslash") {
  const json text = parse_toml("a = \"\\u00e9\\t\\\"\\U0001F600\"\nb = \"\"\"x \\\n   y\"\"\"\n");
  CHECK(text["a"] == "\xc3\xa9\t\"\xf0\x9f\x98\x80");
  CHECK(text["b"] == "x y");
}

TEST_CASE("toml: what is none has a line") {
  for (const auto& [wrong, line] : {std::pair("a = \n", "line 1: "),
                                    {"a = 1\nb\n", "line 2: "},
                                    {"\n\na = \"x\n", "line 3: "},
                                    {"a = [1 2]", "line 1: "},
                                    {"[a\n", "line 1: "},
                                    {"a = 1\na = 2\n", "line 2: "},
                                    {"a = 1 2\n", "line 1: "},
                                    {"a = \"\\q\"", "line 1: "},
                                    {"a = \"\\u12\"", "line 1: "},
                                    {"a = bare", "line 1: "},
                                    {"a = 1\na.b = 2\n", "line 2: "},
                                    {"a = {b = 1\n", "line 2: "},
                                    {"a = '''x", "line 1: "},
                                    {"= 1", "line 1: "},
                                    {"a = 1\n[a]\n", "line 2: "}}) {
    const std::string text = wrong;  // clang 14 captures no structured binding
    CAPTURE(text);
    try {
      parse_toml(wrong);
      FAIL("it was taken");
    } catch (const std::invalid_argument& e) {
      CHECK(std::string(e.what()).starts_with(line));
    }
  }
  CHECK_THROWS_AS(parse_toml("a = " + std::string(100'000, '[')), std::invalid_argument);
}
