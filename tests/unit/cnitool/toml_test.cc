#include "cnitool/toml.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

using nlohmann::json;
using tool::parse_toml;

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
cni.bin_dirs = ["/a", "/b"]
cni.setup_serially = true
limits = {files = 1024}
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
  CHECK(config["plugins"]["io.containerd.cri.v1.runtime"]["limits"]["files"] == 1024);
  CHECK(cni["conf_dir"] == "/etc/cni\nnet.d");
  REQUIRE(config["proxy"].size() == 2);
  CHECK(config["proxy"][1]["name"] == "two");
  CHECK(config["proxy"][1]["proxy"]["rate"] == "1.5");
}

TEST_CASE("toml: a mistake is named with its line") {
  try {
    parse_toml("a = 1\nb\n");
    FAIL("it was taken");
  } catch (const std::invalid_argument& e) {
    CHECK(std::string(e.what()).starts_with("line 2: "));
  }
}
