#include "libcni/runtime/operation.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "tests/unit/libcni/runtime_node.h"
#include "tests/unit/libcni/stderr.h"

using namespace runtime_node;

TEST_CASE("ADD: every plugin in order, each with the result of the one before") {
  Node node;
  node.plugin("one", R"([ $CNI_COMMAND = ADD ] && { echo '{"cniVersion": "1.1.0", "of": "one",
      "interfaces": [{"name": "x"}]}'; exit; })");
  const auto result = node.runtime().add(node.list, node.target);
  CHECK(node.log() == "ADD:one ADD:two ADD:three ");
  CHECK(node.input("one", "ADD") == json::parse(R"({"cniVersion": "1.1.0", "name": "net",
      "type": "one", "key": {"x": [1]}, "capabilities": {"ips": true, "mac": false}})"));
  CHECK(node.input("two", "ADD").at("prevResult") ==
        json::parse(R"({"cniVersion": "1.1.0", "of": "one", "interfaces": [{"name": "x"}]})"));
  CHECK(node.input("two", "ADD").at("name") == "net");  // not the plugin's own
  CHECK(node.input("three", "ADD").at("prevResult") == json::parse(kResult));
  CHECK(json(result) == json::parse(kResult));
}

TEST_CASE("ADD: what DEL will need is in the cache") {
  Node node;
  node.target.args = {{"A", "b"}};
  node.target.capabilities = json({{"ips", {"10.0.0.2/8"}}});
  node.add();
  const auto cached = node.find();
  REQUIRE(cached);
  CHECK(cached->netns == "/nowhere/ns");
  CHECK(cached->args == node.target.args);
  CHECK(*cached->capabilities == *node.target.capabilities);
  CHECK(cached->config == node.list.text);
  CHECK(*cached->result == json::parse(kResult));
}

TEST_CASE("ADD: the attachment is in the cache before the first plugin is called") {
  Node node;
  node.plugin("one", cat("cat ", node.cached(), " >", node.file("seen")));
  node.add();
  const json seen = json::parse(netlink::read_file(node.file("seen")).value());
  CHECK(seen.at("containerId") == "c1");
  CHECK(seen.at("netns") == "/nowhere/ns");
  CHECK_FALSE(seen.contains("result"));
}

TEST_CASE("ADD: when a plugin fails, it and those before it are undone, the last one first") {
  Node node;
  node.plugin("two", fails("ADD", 11, "no ports"));
  const Error e = error_of([&] { node.add(); });
  CHECK(std::string(e.what()) == "plugin type=\"two\" name=\"second\" failed (add): no ports");
  CHECK(e.code() == Code::kTryAgainLater);
  CHECK(e.details() == "d");
  CHECK(node.log() == "ADD:one ADD:two DEL:two DEL:one ");
  CHECK(node.input("one", "DEL").at("prevResult") == json::parse(kResult));
  CHECK_FALSE(node.has_cached());
}

TEST_CASE("ADD: what cannot be undone is said, and the cache goes on to know of it") {
  Node node;
  node.plugin("two", fails("ADD") + "\n" + fails("DEL", 5, "stuck"));
  const StderrKept kept;
  CHECK(error_of([&] { node.add(); }).code() == static_cast<Code>(100));
  CHECK(node.log() == "ADD:one ADD:two DEL:two DEL:one ");
  CHECK(kept.text() == "undo: plugin type=\"two\" name=\"second\" failed (delete): stuck\n");
  REQUIRE(node.find());
  CHECK(node.find()->result->is_null());
  node.plugin("two");
  node.gc();
  CHECK(node.log().starts_with("DEL:three DEL:two DEL:one "));
  CHECK_FALSE(node.has_cached());
}

TEST_CASE("ADD: an earlier one that did not come to its end is undone first") {
  Node node;
  node.target.args = {{"A", "old"}};
  node.plugin("two", "[ $CNI_COMMAND != ADD ] || kill -9 $PPID");
  const pid_t child = ::fork();
  if (child == 0) {
    node.add();
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
  CHECK(node.log() == "ADD:one ADD:two ");
  REQUIRE(node.find());
  node.plugin("two");
  node.target.args = {{"A", "new"}};
  const StderrKept kept;
  node.add();
  CHECK(node.log() == "DEL:three DEL:two DEL:one ADD:one ADD:two ADD:three ");
  CHECK(node.variable("one", "DEL", "CNI_ARGS") == "A=old");
  CHECK(node.variable("one", "ADD", "CNI_ARGS") == "A=new");
  CHECK(kept.text() ==
        "an earlier ADD of interface 'eth0' of container 'c1' in network 'net' did "
        "not come to its end, and is undone\n");
  CHECK(*node.find()->result == json::parse(kResult));
}

TEST_CASE("ADD: nothing is undone where that is not wanted") {
  Node node;
  node.options.undo_failed_add = false;
  node.plugin("two", fails("ADD"));
  CHECK_THROWS_AS(node.add(), Error);
  CHECK(node.log() == "ADD:one ADD:two ");
  CHECK(node.has_cached());
}

TEST_CASE("ADD: what was in the namespace before is not taken down") {
  Node node;
  node.target.netns = "/proc/self/ns/net";
  node.target.ifname = "lo";
  node.plugin("two", fails("ADD"));
  CHECK_THROWS_AS(node.add(), Error);
  CHECK(node.log() == "ADD:one ADD:two DEL:two DEL:one ");  // lo is everywhere: nobody's yet
  node.plugin("two");
  node.add();
  CHECK(node.log() == "ADD:one ADD:two ADD:three ");
  node.plugin("two", fails("ADD"));
  CHECK(error_of([&] { node.add(); }).details() ==
        "d; nothing was undone, as 'lo' was in the namespace before");
  CHECK(node.log() == "ADD:one ADD:two ");
  const auto cached = Cache(node.options.cache_dir).find({"net", "c1", "lo"});
  REQUIRE(cached);
  CHECK(*cached->result == json::parse(kResult));  // still the first one's
}

TEST_CASE("ADD: an attachment whose interface the pod renamed is not taken down") {
  Node node;
  node.target.netns = "/proc/self/ns/net";
  node.target.ifname = "gone0";
  node.add();
  CHECK(node.log() == "ADD:one ADD:two ADD:three ");
  node.plugin("two", fails("ADD"));
  CHECK(error_of([&] { node.add(); }).details() ==
        "d; nothing was undone, as the namespace has an earlier ADD of interface 'gone0' of "
        "container 'c1' in network 'net': call DEL");
  CHECK(node.log() == "ADD:one ADD:two ");
  const auto cached = Cache(node.options.cache_dir).find({"net", "c1", "gone0"});
  REQUIRE(cached);
  CHECK(*cached->result == json::parse(kResult));
  node.target.netns = "/nowhere/ns";  // the same container with another namespace
  CHECK_THROWS_AS(node.add(), Error);
  CHECK(node.log() == "ADD:one ADD:two DEL:two DEL:one ");
}

TEST_CASE("ADD: nothing is called where something is wrong from the start") {
  Node node;
  const auto complaint = [&] { return std::string(error_of([&] { node.add(); }).what()); };
  node.list.plugins[2].type = "absent";
  CHECK(complaint() == cat("plugin type=\"absent\" failed (add): failed to find plugin \"absent\" "
                           "in path [",
                           node.options.path[0], "]"));
  node.list.plugins[2].type = "../three";
  CHECK(complaint() == "plugin type=\"../three\" failed (add): invalid plugin name: ../three");
  node.list.plugins[2].type = "three";
  node.target.container_id = "";
  CHECK(complaint() == "missing containerID");
  node.target.container_id = "a/b";
  CHECK(complaint() == "invalid characters in containerID");
  node.target.container_id = "c1";
  node.target.ifname = "a/b";
  CHECK(complaint() == "interface name contains / or : or whitespace characters");
  node.target.ifname = "eth0";
  node.list.name = "..";
  CHECK(complaint() == "invalid characters found in network name");
  node.list.name = "net";
  node.target.container_id = std::string(300, 'c');
  CHECK(complaint().ends_with("' cannot be a file's name"));
  node.target.container_id = "c1";
  node.options.cache_dir = "/proc/nowhere";
  CHECK_THROWS_AS(node.add(), Error);
  CHECK(node.log().empty());
}

TEST_CASE("DEL: every plugin in reverse order, with the final result") {
  Node node;
  node.target.args = {{"A", "b"}};
  node.target.capabilities = json({{"ips", {"10.0.0.2/8"}}});
  node.add();
  node.log();
  node.target.args.clear();
  node.target.capabilities = {};  // as given to ADD
  node.del();
  CHECK(node.log() == "DEL:three DEL:two DEL:one ");
  for (const char* plugin : {"one", "two", "three"}) {
    CHECK(node.input(plugin, "DEL").at("prevResult") == json::parse(kResult));
    CHECK(node.variable(plugin, "DEL", "CNI_ARGS") == "A=b");
  }
  CHECK(node.input("one", "DEL").at("runtimeConfig").contains("ips"));
  CHECK_FALSE(node.has_cached());
  node.del();  // nothing is known any more
  CHECK(node.log() == "DEL:three DEL:two DEL:one ");
  CHECK_FALSE(node.input("one", "DEL").contains("prevResult"));
}

TEST_CASE("DEL: stops at the first failure, and is remembered") {
  Node node;
  node.add();
  node.log();
  node.plugin("two", fails("DEL", 11, "busy"));
  const Error e = error_of([&] { node.del(); });
  CHECK(std::string(e.what()) == "plugin type=\"two\" name=\"second\" failed (delete): busy");
  CHECK(e.code() == Code::kTryAgainLater);
  CHECK(node.log() == "DEL:three DEL:two ");
  CHECK(node.has_cached());
  node.plugin("two");
  node.del();
  CHECK(node.input("one", "DEL").at("prevResult") == json::parse(kResult));
  CHECK_FALSE(node.has_cached());
}

TEST_CASE("DEL: before 0.4.0 there is no previous result") {
  Node node;
  node.list.version = "0.3.1";
  node.add();
  node.del();
  CHECK_FALSE(node.input("one", "DEL").contains("prevResult"));
}

TEST_CASE("DEL and CHECK: the result is in the words of the list's version") {
  Node node;
  node.add();
  node.list.version = "0.4.0";  // edited since
  node.check();
  node.del();
  for (const char* verb : {"CHECK", "DEL"}) {
    CHECK(node.input("one", verb).at("prevResult") == json::parse(R"({"cniVersion": "0.4.0",
        "ips": [{"version": "4", "address": "10.0.0.2/8"}], "dns": {}})"));
  }
}

TEST_CASE("DEL: goes on without a result that cannot be said, CHECK does not") {
  Node node;
  node.add();
  node.write_cached(R"({"kind": "cniCacheV1", "networkName": "net", "containerId": "c1",
      "ifName": "eth0", "result": {"cniVersion": "9.9.9"}})");
  CHECK(std::string(error_of([&] { node.check(); }).what()) ==
        "failed to get network \"net\" cached result: unsupported CNI result version \"9.9.9\"");
  const StderrKept kept;
  node.del();
  CHECK_FALSE(node.input("one", "DEL").contains("prevResult"));
  CHECK(kept.text().find("unsupported CNI result version \"9.9.9\"") != std::string::npos);
  CHECK_FALSE(node.has_cached());
}

TEST_CASE("CHECK: every plugin in order, with the final result; the first failure ends it") {
  Node node;
  node.add();
  node.log();
  node.check();
  CHECK(node.log() == "CHECK:one CHECK:two CHECK:three ");
  CHECK(node.input("one", "CHECK").at("prevResult") == json::parse(kResult));
  CHECK(node.has_cached());
  node.plugin("two", fails("CHECK", 105, "gone"));
  const Error e = error_of([&] { node.check(); });
  CHECK(e.code() == static_cast<Code>(105));
  CHECK(std::string(e.what()) == "plugin type=\"two\" name=\"second\" failed (check): gone");
  CHECK(node.log() == "CHECK:one CHECK:two ");
}

TEST_CASE("CHECK: is refused before 0.4.0, and left out with disableCheck") {
  Node node;
  node.list.version = "0.3.1";
  const Error e = error_of([&] { node.check(); });
  CHECK(e.code() == Code::kIncompatibleVersion);
  CHECK(std::string(e.what()) ==
        "configuration version \"0.3.1\" does not support the CHECK command");
  node.list.version = "0.4.0";
  node.list.disable_check = true;
  node.check();
  CHECK(node.log().empty());
}

TEST_CASE("CHECK: says that there is no result where a plugin fails for want of it") {
  Node node;
  node.check();
  CHECK_FALSE(node.input("one", "CHECK").contains("prevResult"));
  node.plugin("one", fails("CHECK"));
  CHECK(
      error_of([&] { node.check(); }).details() ==
      "d; the cache has no result of ADD for interface 'eth0' of container 'c1' in network 'net'");
}

TEST_CASE(
    "GC: DEL for what is not valid, then GC of every plugin with what is, in both spellings") {
  Node node;
  node.target.args = {{"A", "b"}};
  node.target.capabilities = json({{"ips", {"10.0.0.2/8"}}});
  node.add();
  node.target.container_id = "c2";
  node.add();
  node.target.ifname = "eth1";
  node.add();
  node.list.name = "other";
  node.add();
  node.list.name = "net";
  node.log();
  node.gc({{"c2", "eth0"}, {"c9", "eth0"}});
  CHECK(node.log() ==
        "DEL:three DEL:two DEL:one DEL:three DEL:two DEL:one GC:one GC:two GC:three ");
  CHECK(node.variable("one", "DEL", "CNI_CONTAINERID") == "c2");
  CHECK(node.variable("one", "DEL", "CNI_IFNAME") == "eth1");
  CHECK(node.variable("one", "DEL", "CNI_NETNS") == "/nowhere/ns");
  CHECK(node.variable("one", "DEL", "CNI_ARGS") == "A=b");
  CHECK(node.input("one", "DEL").at("prevResult") == json::parse(kResult));
  CHECK(node.input("one", "DEL").at("runtimeConfig").contains("ips"));
  const json valid = json::parse(R"([{"containerID": "c2", "ifname": "eth0"},
                                     {"containerID": "c9", "ifname": "eth0"}])");
  CHECK(node.input("three", "GC") == json{{"type", "three"},
                                          {"name", "net"},
                                          {"cniVersion", "1.1.0"},
                                          {"cni.dev/valid-attachments", valid},
                                          {"cni.dev/attachments", valid}});
  const Cache cache(node.options.cache_dir);
  std::string left;
  for (const auto& one : cache.list().attachments) left += one.key.file_name() + " ";
  CHECK(left == "net-c2-eth0 other-c2-eth1 ");
}
