#include "plugins/flannel/state.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

namespace {

using flannel::StateFiles;

constexpr const char* kConfig = R"({"cniVersion":"1.0.0","name":"net","type":"bridge"})";

/// A directory that goes with the test.
struct Place {
  std::string path;
  Place() {
    char text[] = "/tmp/flannel-XXXXXX";
    path = std::string(::mkdtemp(text)) + "/states";
  }
  ~Place() { std::filesystem::remove_all(std::filesystem::path(path).parent_path()); }
};

cni::Request request(const char* network, const char* ifname) {
  cni::Request out;
  out.network = network;
  out.container_id = "c1";
  out.ifname = ifname;
  return out;
}

TEST_CASE("a state file that is torn at any byte is not taken for whole") {
  const Place place;
  const StateFiles files = StateFiles::create(place.path);
  const auto asked = request("net", "eth0");
  files.put(asked, kConfig);
  CHECK(files.of(asked)->config == kConfig);
  for (std::size_t size = 0; size < std::string_view(kConfig).size(); ++size) {
    std::ofstream(place.path + "/c1") << std::string_view(kConfig).substr(0, size);
    REQUIRE(files.of(asked));
    CHECK(files.of(asked)->config.empty());
  }
  files.remove(asked, "c1");
  CHECK(std::filesystem::is_empty(place.path));
}

TEST_CASE("JSON that is no delegate's config is refused, and stays") {
  const Place place;
  const StateFiles files = StateFiles::create(place.path);
  const auto asked = request("net", "eth0");
  for (const char* const text : {"[]", "{}", R"({"name":"net"})"}) {
    CAPTURE(text);
    std::ofstream(place.path + "/c1") << text;
    CHECK_THROWS_AS(static_cast<void>(files.of(asked)), cni::Error);
    CHECK_THROWS_AS(files.put(asked, kConfig), cni::Error);
    CHECK(files.all().empty());
    CHECK(std::filesystem::file_size(place.path + "/c1") == std::string_view(text).size());
  }
}

TEST_CASE("attachments of a container have a file each, an ADD that is repeated the same") {
  const Place place;
  const StateFiles files = StateFiles::create(place.path);
  const auto first = request("net", "eth0"), other = request("other", "net1");
  files.put(first, kConfig);
  files.put(first, kConfig);
  files.put(other, R"({"name":"other","type":"bridge"})");
  CHECK(files.of(first)->name == "c1");
  CHECK(files.of(other)->name == "c1:net1");
  CHECK(files.all().size() == 2);
  files.remove(first, "c1");
  CHECK_FALSE(files.of(first));
  CHECK(files.of(other)->key.ifname == "net1");
}

}  // namespace
