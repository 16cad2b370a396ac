#include "libcni/runtime/runtime.h"

#include <doctest/doctest.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/unit/libcni/runtime_node.h"
#include "tests/unit/libcni/stderr.h"

using namespace runtime_node;

TEST_CASE("a broken cache file stops no operation") {
  for (const std::string& content : {std::string(), std::string("{"), std::string("\0\0\0", 3),
                                     std::string(R"({"kind": "cniCacheV1"})"), std::string("[]")}) {
    CAPTURE(content);
    Node node;
    const StderrKept kept;
    node.write_cached(content);
    node.add();
    CHECK(node.find());
    node.write_cached(content);
    node.check();
    node.write_cached(content);
    node.del();
    CHECK_FALSE(node.has_cached());
    node.write_cached(content);
    node.log();
    node.gc();
    CHECK(node.log() == "DEL:three DEL:two DEL:one GC:one GC:two GC:three ");
    CHECK_FALSE(node.has_cached());
    CHECK(kept.text().find("net-c1-eth0' is passed over: ") != std::string::npos);
    CHECK(kept.text().find("net-c1-eth0' is broken: ") != std::string::npos);
  }
}

TEST_CASE("DEL: an entry that cannot be removed is an Error") {
  Node node;
  std::filesystem::create_directories(node.cached());  // a folder in its place: unlink(2) fails
  const Error e = error_of([&] { node.del(); });
  CHECK(e.code() == Code::kInternal);
  CHECK(std::string(e.what()).find("net-c1-eth0': is a directory") != std::string::npos);
}

TEST_CASE("GC: none is valid, so all of the network goes, and plugins get an empty list") {
  Node node;
  node.add();
  node.gc();
  CHECK_FALSE(node.has_cached());
  CHECK(node.input("one", "GC").at("cni.dev/valid-attachments") == json::array());
}

TEST_CASE("GC: a malformed set deletes nothing") {
  Node node;
  node.add();
  node.log();
  for (const Attachment& bad : {Attachment{"", "eth0"}, Attachment{"c2", ""},
                                Attachment{"../c1", "eth0"}, Attachment{"c2", "a/b"}}) {
    const Error e = error_of([&] { node.gc({{"c2", "eth0"}, bad}); });
    CHECK(e.code() == Code::kInvalidConfig);
    CHECK(std::string(e.what()).starts_with("valid attachments[1]: "));
  }
  CHECK(node.log().empty());
  CHECK(node.has_cached());
}

TEST_CASE("GC: goes on past failures and names them all") {
  Node node;
  node.add();
  node.target.container_id = "c2";
  node.add();
  node.log();
  node.plugin("three", fails("DEL", 11, "busy") + "\n" + fails("GC", 5, "worse"));
  const Error e = error_of([&] { node.gc(); });
  CHECK(node.log() == "DEL:three DEL:three GC:one GC:two GC:three ");
  CHECK(e.code() == Code::kTryAgainLater);
  CHECK(std::string(e.what()) ==
        "failed to delete stale attachment c1 eth0: plugin type=\"three\" failed (delete): busy; "
        "failed to delete stale attachment c2 eth0: plugin type=\"three\" failed (delete): busy; "
        "plugin type=\"three\" failed (gc): worse");
  CHECK(e.details() == "d; d; d");
  CHECK(node.has_cached());
}

TEST_CASE("GC: before 1.1.0 there is DEL alone; with disableGC nothing") {
  Node node;
  node.list.version = "1.0.0";
  node.add();
  node.log();
  node.list.disable_gc = true;
  node.gc();
  CHECK(node.log().empty());
  node.list.disable_gc = false;
  node.gc();
  CHECK(node.log() == "DEL:three DEL:two DEL:one ");
}

TEST_CASE("GC: what is made, or finished, after the cache was seen stays") {
  Node node;
  const cni::Cache cache(node.options.cache_dir);
  cni::CachedAttachment unfinished;
  unfinished.key = {"net", "c1", "eth0"};
  unfinished.config = "{}";
  cache.put(unfinished);
  const cni::Cache::Listing seen = cache.list();
  REQUIRE(seen.attachments.size() == 1);
  const StderrKept kept;
  node.add();
  node.runtime().gc(node.list, {}, seen);
  CHECK(node.has_cached());
  node.gc();
  CHECK_FALSE(node.has_cached());
}

TEST_CASE("GC: what is made while it waits stays") {
  Node node;
  node.plugin("one", cat("[ $CNI_COMMAND != ADD ] || { touch ", node.file("running"),
                         "; while [ ! -e ", node.file("go"), " ]; do sleep 0.01; done; }"));
  std::thread adder([&] { node.add(); });
  while (!std::filesystem::exists(node.file("running"))) std::this_thread::yield();
  std::thread collector([&] { node.gc(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // it has asked, and waits
  netlink::write_all(surroundings::open_for_writing(node.file("go")).get(), "x", "go");
  adder.join();
  collector.join();
  CHECK(node.log() == "ADD:one ADD:two ADD:three GC:one GC:two GC:three ");
  CHECK(node.find());
  CHECK(node.input("one", "GC").at("cni.dev/valid-attachments") ==
        json::parse(R"([{"containerID": "c1", "ifname": "eth0"}])"));
  node.gc();
  CHECK_FALSE(node.find());
}

TEST_CASE("STATUS: every plugin is asked, and the first failure's code counts") {
  Node node;
  node.runtime().status(node.list);
  CHECK(node.log() == "STATUS:one STATUS:two STATUS:three ");
  CHECK(node.input("one", "STATUS") == json::parse(R"({"cniVersion": "1.1.0", "name": "net",
      "type": "one", "key": {"x": [1]}, "capabilities": {"ips": true, "mac": false}})"));
  CHECK(node.variable("one", "STATUS", "CNI_CONTAINERID") == "");
  node.plugin("two", fails("STATUS", 50, "pool empty"));
  const Error one = error_of([&] { node.runtime().status(node.list); });
  CHECK(one.code() == Code::kPluginUnavailable);
  CHECK(one.details() == "d");
  CHECK(std::string(one.what()) ==
        "plugin type=\"two\" name=\"second\" failed (status): pool empty");
  CHECK(node.log() == "STATUS:one STATUS:two STATUS:three ");
  node.plugin("three", fails("STATUS", 51, "slow"));
  CHECK(error_of([&] { node.runtime().status(node.list); }).code() == Code::kPluginUnavailable);
  node.log();
  node.list.version = "1.0.0";
  node.runtime().status(node.list);
  CHECK(node.log().empty());
}

TEST_CASE("VERSION: plugins of every age say what they know") {
  Node node;
  node.plugin("one", R"(echo '{"cniVersion": "1.0.0", "supportedVersions": ["0.4.0", "1.0.0"]}')");
  node.plugin("two", R"(echo '{"cniVersion": "0.2.0"}')");
  node.plugin("three", R"(echo '{"code": 4, "msg": "unknown CNI_COMMAND: VERSION"}'; exit 1)");
  const auto versions = node.runtime().versions(node.list);
  REQUIRE(versions.size() == 3);
  CHECK(versions[0].type == "one");
  CHECK(versions[0].file == node.file("one"));
  CHECK(versions[0].versions == std::vector<std::string>{"0.4.0", "1.0.0"});
  CHECK(versions[1].versions == std::vector<std::string>{"0.1.0", "0.2.0"});
  CHECK(versions[2].versions == std::vector<std::string>{"0.1.0"});
  CHECK(node.variable("one", "VERSION", "CNI_NETNS") == "dummy");
  CHECK(node.input("one", "VERSION") == json{{"cniVersion", "1.1.0"}});
  for (const char* printed : {"", "[]", R"({"cniVersion": "1.0.0"})", "{}"}) {
    node.plugin("two", cat("echo '", printed, "'"));
    CHECK_THROWS_AS(node.runtime().versions(node.list), Error);
  }
}

TEST_CASE("an operation that is given up is undone all the same") {
  Node node;
  auto [reads, writes] = surroundings::make_pipe();
  node.options.stop_fd = reads.get();
  node.plugin("two",
              cat("[ $CNI_COMMAND != ADD ] || { touch ", node.file("running"), "; sleep 60; }"));
  std::thread stopper([&node, &end = writes] {
    while (!std::filesystem::exists(node.file("running"))) std::this_thread::yield();
    netlink::write_all(end.get(), "x", "a pipe");
  });
  CHECK(error_of([&] { node.add(); }).code() == Code::kTryAgainLater);
  stopper.join();
  CHECK(node.log() == "ADD:one ADD:two DEL:two DEL:one ");
  CHECK_FALSE(node.has_cached());
}

TEST_CASE("threads may use one runtime at once: containers in parallel, one container in turn") {
  Node node;
  node.plugin("one",
              cat("mkdir ", node.file("busy"), ".$CNI_CONTAINERID || exit 9; sleep 0.02; rmdir ",
                  node.file("busy"), ".$CNI_CONTAINERID"));
  const Runtime runtime = node.runtime();
  std::atomic<int> failed = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 16; ++i) {
    threads.emplace_back([&, i] {
      Target target = node.target;
      target.container_id = cat("c", i % 4);
      target.ifname = cat("eth", i / 4);
      try {
        runtime.add(node.list, target);
        runtime.check(node.list, target);
        runtime.del(node.list, target);
      } catch (const Error&) {
        ++failed;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(failed == 0);
  CHECK(Cache(node.options.cache_dir).list().attachments.empty());
}
