#include "libcni/runtime/cache.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "libcni/common/error.h"
#include "libcni/runtime/base64.h"
#include "netlink/types/fd.h"
#include "tests/unit/libcni/stderr.h"
#include "tests/unit/surroundings.h"

using cni::AttachmentKey;
using cni::Cache;
using cni::CachedAttachment;
using cni::cat;
using cni::Error;
using surroundings::Folder;

namespace {

const AttachmentKey kKey{"net", "c1", "eth0"};

CachedAttachment full() {
  return {.key = kKey,
          .netns = "/run/netns/x",
          .args = {{"IgnoreUnknown", "1"}, {"A", "b"}},
          .capabilities = nlohmann::json::parse(R"({"ips": ["10.0.0.2/8"], "mac": "x"})"),
          .config = "{\"name\": \"net\"}\n",
          .result = nlohmann::json::parse(R"({"cniVersion": "1.0.0", "ips": []})")};
}

CachedAttachment bare(const AttachmentKey& key) {
  return {.key = key, .netns = {}, .args = {}, .capabilities = {}, .config = {}, .result = {}};
}

// A cache in a folder of its own.
class Cached {
 public:
  std::string file(const std::string& name = "net-c1-eth0") const {
    return folder_.file("cni/results/" + name);
  }
  std::string text(const std::string& name = "net-c1-eth0") const {
    return netlink::read_file(file(name)).value_or("(absent)");
  }
  bool has(const std::string& name = "net-c1-eth0") const {
    return std::filesystem::exists(file(name));
  }
  void write(std::string_view content, const std::string& name = "net-c1-eth0") const {
    std::filesystem::create_directories(folder_.file("cni/results"));
    std::filesystem::remove(file(name));
    netlink::write_all(surroundings::open_for_writing(file(name)).get(), content, name);
  }
  std::string names() const {
    std::set<std::string> sorted;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.file("cni/results"))) {
      sorted.insert(entry.path().filename().string());
    }
    std::string out;
    for (const auto& name : sorted) out += name + " ";
    return out;
  }

 private:
  Folder folder_;

 public:
  const Cache cache{folder_.file("cni")};
};

unsigned mode_of(const std::string& path) {
  struct stat info {};
  CHECK(::stat(path.c_str(), &info) == 0);
  return info.st_mode & 07777U;
}

}  // namespace

TEST_CASE("cache: a file has the reference's name, keys and modes") {
  const Cached at;
  at.cache.put(full());
  CHECK(at.text() ==
        R"({"kind":"cniCacheV1","containerId":"c1","config":"eyJuYW1lIjogIm5ldCJ9Cg==",)"
        R"("ifName":"eth0","networkName":"net","netns":"/run/netns/x",)"
        R"("cniArgs":[["IgnoreUnknown","1"],["A","b"]],)"
        R"("capabilityArgs":{"ips":["10.0.0.2/8"],"mac":"x"},)"
        R"("result":{"cniVersion":"1.0.0","ips":[]}})");
  CHECK(mode_of(at.file()) == 0600);
  CHECK(mode_of(at.cache.dir() + "/results") == 0700);
  CHECK(at.names() == "net-c1-eth0 ");
}

TEST_CASE("cache: what there is nothing of is left out") {
  const Cached at;
  at.cache.put(bare(kKey));
  CHECK(at.text() == R"({"kind":"cniCacheV1","containerId":"c1","config":"","ifName":"eth0",)"
                     R"("networkName":"net"})");
  const auto found = at.cache.find(kKey);
  REQUIRE(found);
  CHECK(found->result->is_null());
  CHECK(found->args.empty());
}

TEST_CASE("cache: what was put is found") {
  const Cached at;
  CHECK_FALSE(at.cache.find(kKey));
  at.cache.put(bare(kKey));
  at.cache.put(full());  // in its place
  const auto found = at.cache.find(kKey);
  REQUIRE(found);
  CHECK(found->key == kKey);
  CHECK(found->netns == "/run/netns/x");
  CHECK(found->args == full().args);
  CHECK(*found->capabilities == *full().capabilities);
  CHECK(found->config == full().config);
  CHECK(*found->result == *full().result);
  CHECK(found->modified >= std::time(nullptr) - 60);
  CHECK(at.names() == "net-c1-eth0 ");
}

TEST_CASE("cache: every interface of a container has a file of its own") {
  const Cached at;
  at.cache.put(full());
  at.cache.put(bare({"net", "c1", "eth1"}));
  at.cache.put(bare({"net2", "c1", "eth0"}));
  CHECK(at.names() == "net-c1-eth0 net-c1-eth1 net2-c1-eth0 ");
  at.cache.remove(kKey);
  CHECK(at.names() == "net-c1-eth1 net2-c1-eth0 ");
  at.cache.remove(kKey);
  CHECK_FALSE(at.cache.find(kKey));
}

TEST_CASE("cache: what else the reference writes is read") {
  const Cached at;
  at.write(R"({"kind":"cniCacheV1","containerId":"c1","config":"e30=","ifName":"eth0",)"
           R"("networkName":"net","cniArgs":null,"capabilityArgs":null,"result":null})");
  const auto found = at.cache.find(kKey);
  REQUIRE(found);
  CHECK(found->config == "{}");
  CHECK(found->result->is_null());
  CHECK(found->capabilities->is_null());
}

TEST_CASE("cache: a bare result of old times is the result of who asks, and of nobody else") {
  const Cached at;
  at.write(R"({"cniVersion": "0.4.0", "ips": []})");
  REQUIRE(at.cache.find(kKey));
  CHECK(at.cache.find(kKey)->result->at("cniVersion") == "0.4.0");
  const StderrKept kept;
  const auto listing = at.cache.list();
  CHECK(listing.attachments.empty());
  CHECK(listing.broken.size() == 1);
  at.cache.remove(kKey);
  CHECK_FALSE(at.has());
}

TEST_CASE("cache: a broken file is reported, passed over and removed") {
  const std::string whole = [] {
    const Cached at;
    at.cache.put(full());
    return at.text();
  }();
  std::vector<std::string> contents = {
      std::string(1000, '\0'),
      "\xff\xfe",
      "[]",
      "null",
      "5",
      "\"x\"",
      "{}",
      R"({"kind": 5})",
      R"({"kind": "cniCacheV2", "containerId": "c1", "ifName": "eth0", "networkName": "net"})",
      R"({"kind": "cniCacheV1", "ifName": "eth0", "networkName": "net"})",
      R"({"kind": "cniCacheV1", "containerId": "", "ifName": "eth0", "networkName": "net"})",
      R"({"kind": "cniCacheV1", "containerId": "../../c1", "ifName": "eth0", "networkName": "net"})",
      R"({"kind": "cniCacheV1", "containerId": "c2", "ifName": "eth0", "networkName": "net"})",
      R"({"kind": "cniCacheV1", "containerId": "c1", "ifName": "eth0", "networkName": "net",
          "config": "!"})",
      R"({"kind": "cniCacheV1", "containerId": "c1", "ifName": "eth0", "networkName": "net",
          "cniArgs": [["a"]]})",
      R"({"kind": "cniCacheV1", "containerId": "c1", "ifName": "eth0", "networkName": "net",
          "result": []})",
      std::string(100'000, '[')};
  for (std::size_t length = 0; length < whole.size(); ++length) {
    contents.push_back(whole.substr(0, length));
  }
  for (const std::string& content : contents) {
    CAPTURE(content.substr(0, 200));
    const Cached at;
    at.write(content);
    {
      const StderrKept kept;
      CHECK_FALSE(at.cache.find(kKey));
      CHECK(kept.text().starts_with(cat("cache file '", at.file(), "' is passed over: ")));
    }
    const auto listing = at.cache.list();
    CHECK(listing.attachments.empty());
    REQUIRE(listing.broken.size() == 1);
    CHECK(listing.broken[0].name == "net-c1-eth0");
    CHECK_FALSE(listing.broken[0].why.empty());
    at.cache.remove(kKey);
    CHECK_FALSE(at.has());
  }
}

TEST_CASE("cache: a broken file is replaced by the next one") {
  const Cached at;
  at.write("{");
  at.cache.put(full());
  CHECK(at.cache.find(kKey));
  CHECK(at.names() == "net-c1-eth0 ");
}

TEST_CASE("cache: two attachments may share a file's name; none takes the other's") {
  const Cached at;
  const AttachmentKey one{"a-b", "c", "eth0"};
  const AttachmentKey other{"a", "b-c", "eth0"};
  at.cache.put(bare(one));
  {
    const StderrKept kept;
    CHECK_FALSE(at.cache.find(other));
    CHECK(kept.text().find("it is of interface 'eth0' of container 'c' in network 'a-b'") !=
          std::string::npos);
  }
  at.cache.remove(other);
  CHECK(at.cache.find(one));
}

TEST_CASE("cache: no name leaves the directory") {
  const Cached at;
  for (const AttachmentKey& key :
       {AttachmentKey{"..", "..", "x/../../y"}, AttachmentKey{"../x", "c", "e"},
        AttachmentKey{"n", std::string("c\0d", 3), "e"},
        AttachmentKey{"n", std::string(250, 'c'), "e"}, AttachmentKey{"", "c", "e"}}) {
    CHECK_THROWS_AS(at.cache.put(bare(key)), Error);
    CHECK_THROWS_AS(at.cache.find(key), Error);
    CHECK_THROWS_AS(at.cache.remove(key), Error);
  }
  CHECK_THROWS_WITH_AS(at.cache.find({"n", "", "e"}),
                       "cache file path requires network name (\"n\"), container ID (\"\"), and "
                       "interface name (\"e\")",
                       Error);
  at.cache.put(bare({"n", std::string(246, 'c'), "e"}));  // the longest name
  CHECK(at.cache.list().attachments.size() == 1);
}

TEST_CASE("cache: a listing is by file name, and shows whole files only") {
  const Cached at;
  CHECK(at.cache.list().attachments.empty());  // there is no directory yet
  at.cache.put(bare({"b", "c", "eth0"}));
  at.cache.put(bare({"a", "c", "eth1"}));
  at.cache.put(bare({"a", "c", "eth0"}));
  at.write("half", ".a-c-eth2.new");
  std::filesystem::create_directory(at.file("directory"));
  std::filesystem::create_symlink(at.file("a-c-eth0"), at.file("link"));
  const auto listing = at.cache.list();
  CHECK(listing.broken.empty());
  std::string found;
  for (const auto& one : listing.attachments) found += one.key.file_name() + " ";
  CHECK(found == "a-c-eth0 a-c-eth1 b-c-eth0 ");
}

TEST_CASE("cache: what was half written goes with the attachment") {
  const Cached at;
  at.write("half", ".net-c1-eth0.new");
  at.cache.remove(kKey);
  CHECK(at.names().empty());
  at.write("half", ".net-c1-eth0.new");
  at.cache.put(full());
  at.cache.put(full());
  CHECK(at.names() == "net-c1-eth0 ");
}

TEST_CASE("cache: a file of an older runtime has the namespace in its result") {
  const Cached at;
  at.write(R"({"kind": "cniCacheV1", "containerId": "c1", "config": "", "ifName": "eth0",
      "networkName": "net", "result": {"cniVersion": "0.4.0", "interfaces": [{"name": "cni0"},
          {"name": "eth0", "sandbox": "/run/netns/x"}]}})",
           "net-c1-eth0");
  CHECK(at.cache.find(kKey)->netns == "/run/netns/x");
  at.write(R"({"kind": "cniCacheV1", "containerId": "c1", "config": "", "ifName": "eth0",
      "networkName": "net", "result": {"cniVersion": "9"}})",
           "net-c1-eth0");
  CHECK(at.cache.find(kKey)->netns.empty());
}

TEST_CASE("cache: the stamp tells whether a file was written since") {
  const Cached at;
  at.cache.put(full());
  const auto before = at.cache.find(kKey)->stamp;
  CHECK(at.cache.find(kKey)->stamp == before);
  at.cache.put(full());
  CHECK(at.cache.find(kKey)->stamp != before);
}

TEST_CASE("cache: where there can be no directory, nothing is found and nothing is put") {
  const Folder folder;
  const Cache cache(folder.script("file", ""));
  CHECK_THROWS_AS(cache.put(full()), netlink::Error);
  CHECK_THROWS_AS(cache.list(), netlink::Error);
  const StderrKept kept;
  CHECK_FALSE(cache.find(kKey));
  CHECK(kept.text().find("not a directory") != std::string::npos);
}
