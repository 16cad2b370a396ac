#include "libcni/runtime/conflist.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "netlink/types/fd.h"
#include "tests/unit/surroundings.h"

using cni::cat;
using cni::Code;
using cni::Error;
using cni::list_from;
using cni::load_list;
using cni::load_networks;
using cni::NetworkList;
using cni::Networks;
using surroundings::Folder;

namespace {

class Confs : public Folder {
 public:
  // Writes a file, with its directory.
  std::string put(const std::string& name, std::string_view text) const {
    std::string path = file(name);
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::filesystem::remove(path);
    netlink::write_all(surroundings::open_for_writing(path).get(), text, path);
    return path;
  }
  const NetworkList& find(const std::string& name) {
    networks = load_networks(path());
    return networks.find(name);
  }

  Networks networks;
};

std::string list_text(const std::string& name, const std::string& more = "") {
  return cat(R"({"cniVersion": "1.0.0", "name": ")", name, R"(", "plugins": [{"type": "one"}])",
             more, "}");
}

std::string types(const NetworkList& list) {
  std::string out;
  for (const auto& plugin : list.plugins) out += plugin.type + " ";
  return out;
}

std::string complaint(const std::string& text) {
  try {
    list_from(text);
  } catch (const Error& e) {
    return e.what();
  }
  return "(none)";
}

std::string version_of(const std::string& keys) {
  return list_from(cat(R"({"name": "n", "plugins": [{"type": "x"}])", keys, "}")).version;
}

template <class Fn>
Error error_of(Fn&& fn) {
  try {
    fn();
  } catch (const Error& e) {
    return e;
  }
  FAIL("nothing was thrown");
  return {Code::kInternal, ""};
}

}  // namespace

TEST_CASE("a list has its plugins in order, with every key that was written") {
  const std::string text = R"({"cniVersion": "0.4.0", "name": "net", "unknown": 1,
      "plugins": [{"type": "b", "x": {"y": [1, 12345678901234567890]}}, {"type": "a", "name": "p"}]})";
  const NetworkList list = list_from(text);
  CHECK(list.name == "net");
  CHECK(list.version == "0.4.0");
  CHECK(types(list) == "b a ");
  CHECK(list.plugins[0].conf->dump() == R"({"type":"b","x":{"y":[1,12345678901234567890]}})");
  CHECK(list.plugins[0].own_name().empty());
  CHECK(list.plugins[1].own_name() == "p");
  CHECK(list.text == text);
  CHECK(list.file.empty());
  CHECK_FALSE(list.disable_check);
  CHECK_FALSE(list.disable_gc);
}

TEST_CASE("capabilities are those that a plugin declares true") {
  const NetworkList list = list_from(R"({"name": "n", "plugins": [
      {"type": "x", "capabilities": {"ips": true, "mac": false, "portMappings": true, "dns": null}},
      {"type": "y"}, {"type": "z", "capabilities": null}]})");
  CHECK(list.plugins[0].capabilities() == std::set<std::string>{"ips", "portMappings"});
  CHECK(list.plugins[1].capabilities().empty());
  CHECK(list.plugins[2].capabilities().empty());
}

TEST_CASE("of cniVersions and cniVersion the newest that is known counts") {
  CHECK(version_of("") == "");
  CHECK(version_of(R"(, "cniVersion": "0.3.1")") == "0.3.1");
  CHECK(version_of(R"(, "cniVersion": "1.2.3")") == "1.2.3");  // as it stands, known or not
  CHECK(version_of(R"(, "cniVersions": ["0.4.0", "1.0.0", "0.3.1"])") == "1.0.0");
  CHECK(version_of(R"(, "cniVersions": ["0.4.0", "1.9.0"])") == "0.4.0");
  CHECK(version_of(R"(, "cniVersion": "1.1.0", "cniVersions": ["0.4.0"])") == "1.1.0");
  CHECK(version_of(R"(, "cniVersion": "1.2.0", "cniVersions": ["0.4.0"])") == "0.4.0");
  CHECK(version_of(R"(, "cniVersion": "0.3.1", "cniVersions": ["2.0.0"])") == "0.3.1");
  CHECK(version_of(R"(, "cniVersions": ["0.9.0", "0.4.0"])") == "0.4.0");  // there is no 0.9.0
  CHECK(version_of(R"(, "cniVersions": [])") == "");
  CHECK(version_of(R"(, "cniVersion": "0.4.0", "cniVersions": [])") == "0.4.0");
}

TEST_CASE("versions compare by their numbers") {
  NetworkList list = list_from(list_text("n"));
  CHECK(list.is_at_least("0.4.0"));
  CHECK(list.is_at_least("1.0.0"));
  CHECK_FALSE(list.is_at_least("1.1.0"));
  list.version = "1.10.0";
  CHECK(list.is_at_least("1.9.0"));
  list.version = "";
  CHECK_FALSE(list.is_at_least("0.2.0"));
}

TEST_CASE("flags are true or false, as JSON or as text in any case") {
  const auto flags = [](const std::string& value) {
    const NetworkList list =
        list_from(list_text("n", cat(R"(, "disableCheck": )", value, R"(, "disableGC": )", value)));
    CHECK(list.disable_check == list.disable_gc);
    return list.disable_check;
  };
  CHECK(flags("true"));
  CHECK(flags(R"("true")"));
  CHECK(flags(R"("TRUE")"));
  CHECK_FALSE(flags("false"));
  CHECK_FALSE(flags(R"("False")"));
  CHECK_FALSE(flags("null"));
  CHECK_THROWS_WITH_AS(flags(R"("yes")"), "disableCheck: expected true or false: \"yes\"", Error);
  CHECK_THROWS_WITH_AS(flags("1"), "disableCheck: expected true or false: 1", Error);
}

TEST_CASE("a complaint about a list names the place in it and what is there") {
  const struct {
    const char *text, *complaint;
  } table[] = {
      {"[]", "expected a JSON object"},
      {R"({"plugins": [{"type": "x"}]})", "name: expected a string: the key is missing"},
      {R"({"name": 5, "plugins": [{"type": "x"}]})", "name: expected a string: 5"},
      {R"({"name": "", "plugins": [{"type": "x"}]})", "missing network name"},
      {R"({"name": "../x", "plugins": [{"type": "x"}]})",
       "invalid characters found in network name"},
      {R"({"name": "n"})", "no plugin configs found"},
      {R"({"name": "n", "plugins": []})", "plugins: no plugins in list: []"},
      {R"({"name": "n", "plugins": {}})", "plugins: expected a list: {}"},
      {R"({"name": "n", "plugins": [5]})", "plugins[0]: expected an object: 5"},
      {R"({"name": "n", "plugins": [{"type": "x"}, {"typ": "y"}]})",
       "plugins[1].type: expected the name of a plugin: the key is missing"},
      {R"({"name": "n", "plugins": [{"type": ""}]})",
       "plugins[0].type: expected the name of a plugin: \"\""},
      {R"({"name": "n", "plugins": [{"type": ["x"]}]})",
       "plugins[0].type: expected a string: [\"x\"]"},
      {R"({"name": "n", "plugins": [{"type": "x", "capabilities": {"ips": 1}}]})",
       "plugins[0].capabilities.ips: expected true or false: 1"},
      {R"({"name": "n", "plugins": [{"type": "x", "capabilities": []}]})",
       "plugins[0].capabilities: expected an object: []"},
      {R"({"name": "n", "cniVersion": 1, "plugins": [{"type": "x"}]})",
       "cniVersion: expected a string: 1"},
      {R"({"name": "n", "cniVersions": ["1.0.0", "x"], "plugins": [{"type": "x"}]})",
       "cniVersions[1]: expected a version like 1.0.0: \"x\""},
      {R"({"name": "n", "loadOnlyInlinedPlugins": true})",
       "plugins: expected a list, as loadOnlyInlinedPlugins is true: the key is missing"},
  };
  for (const auto& row : table) CHECK(complaint(row.text) == row.complaint);
  // What follows is nlohmann_json's, and another text in 3.11.3 than in 3.11.2.
  CHECK(
      complaint("").starts_with("the network list is not JSON: parse error at line 1, column 1: "));
}

TEST_CASE("a complaint about a file starts with its name") {
  const Confs dir;
  const auto of = [](const std::string& file) {
    return std::string(error_of([&] { load_list(file); }).what());
  };
  CHECK(of(dir.put("a.conflist", "{"))
            .starts_with(
                cat("read '", dir.file("a.conflist"), "': it is not JSON: parse error at line 1")));
  CHECK(of(dir.put("b.conflist", R"({"name": "n", "plugins": [{}]})")) ==
        cat("read '", dir.file("b.conflist"),
            "': plugins[0].type: expected the name of a plugin: the key is missing"));
  CHECK(of(dir.file("none.conflist")) ==
        cat("read '", dir.file("none.conflist"), "': no such file or directory"));
  CHECK(of(dir.put("c.conf", R"({"name": "n", "plugins": [{"type": "x"}]})")) ==
        cat("read '", dir.file("c.conf"),
            "': a list of plugins stands in a file *.conflist, this is read as one plugin"));
}

TEST_CASE("one plugin's config becomes a list of one, all of its keys kept") {
  const Confs dir;
  const std::string text =
      R"({"cniVersion": "0.4.0", "name": "n", "type": "x", "key": 1, "capabilities": {"ips": true}})";
  for (const char* name : {"x.conf", "x.json"}) {
    const NetworkList list = load_list(dir.put(name, text));
    CHECK(list.name == "n");
    CHECK(list.version == "0.4.0");
    CHECK(types(list) == "x ");
    CHECK(*list.plugins[0].conf == nlohmann::json::parse(text));
    CHECK(list.plugins[0].capabilities() == std::set<std::string>{"ips"});
    CHECK(*list_from(list.text).plugins[0].conf == *list.plugins[0].conf);
    CHECK(list.file == dir.file(name));
  }
  CHECK_THROWS(load_list(dir.put("y.conf", R"({"name": "n"})")));
  CHECK_THROWS(load_list(dir.put("y.conf", R"({"type": "n"})")));
}

TEST_CASE("plugins in the directory of a network's name come after its own") {
  Confs dir;
  const std::string file = dir.put("10.conflist", list_text("net"));
  CHECK(types(load_list(file)) == "one ");  // no such directory
  std::filesystem::create_directory(dir.file("net"));
  CHECK(types(load_list(file)) == "one ");  // nothing in it
  dir.put("net/20.conf", R"({"type": "three"})");
  dir.put("net/10.conf", R"({"type": "two", "key": 1})");
  dir.put("net/05.conflist", "not read");
  dir.put("other/10.conf", R"({"type": "no"})");
  const NetworkList list = load_list(file);
  CHECK(types(list) == "one two three ");
  CHECK(list.plugins[1].conf->at("key") == 1);
  // What is kept in the cache has them too, and does not look for them again.
  CHECK(types(list_from(list.text)) == "one two three ");
  CHECK(nlohmann::json::parse(list.text).at("loadOnlyInlinedPlugins") == true);

  dir.put("10.conflist", R"({"name": "net"})");
  CHECK(types(load_list(file)) == "two three ");
  dir.put("10.conflist", list_text("net", R"(, "loadOnlyInlinedPlugins": true)"));
  CHECK(types(load_list(file)) == "one ");
  CHECK(load_list(file).text == list_text("net", R"(, "loadOnlyInlinedPlugins": true)"));

  dir.put("10.conflist", list_text("net"));
  dir.put("net/20.conf", R"({"typ": "three"})");
  CHECK(std::string(error_of([&] { load_list(file); }).what()) ==
        cat("read '", dir.file("net/20.conf"),
            "': type: expected the name of a plugin: the key is missing"));
}

TEST_CASE("a network is found by its name, the first by file name") {
  Confs dir;
  dir.put("20.conflist", list_text("b", R"(, "from": 20)"));
  dir.put("10.conflist", list_text("a"));
  dir.put("30.conflist", list_text("b", R"(, "from": 30)"));
  dir.put("40.conf", R"({"name": "c", "type": "x"})");
  dir.put("50.txt", list_text("d"));
  dir.put("sub/10.conflist", list_text("e"));
  std::filesystem::create_directory(dir.file("60.conflist"));
  std::filesystem::create_symlink(dir.file("sub/10.conflist"), dir.file("80.conflist"));
  CHECK(dir.find("a").file == dir.file("10.conflist"));
  CHECK(dir.find("b").file == dir.file("20.conflist"));
  CHECK(dir.find("c").file == dir.file("40.conf"));
  CHECK(dir.find("e").file == dir.file("80.conflist"));  // a link, as a config map is mounted
  CHECK(dir.networks.lists.size() == 5);
  CHECK(dir.networks.broken.empty());
  const Error e = error_of([&] { dir.find("d"); });
  CHECK(std::string(e.what()) == cat("no net configuration with name \"d\" in ", dir.path()));
  CHECK(e.code() == Code::kInvalidConfig);
}

TEST_CASE("a list comes before a single config of the same name") {
  Confs dir;
  dir.put("05.conf", R"({"name": "n", "type": "x"})");
  dir.put("05.json", R"({"name": "n", "type": "y"})");
  dir.put("99.conflist", list_text("n"));
  CHECK(types(dir.find("n")) == "one ");
  std::filesystem::remove(dir.file("99.conflist"));
  CHECK(types(dir.find("n")) == "x ");
}

TEST_CASE("a directory without networks says so, one that is not there too") {
  Confs dir;
  CHECK_THROWS_WITH_AS(dir.find("n"), cat("no net configurations found in ", dir.path()).c_str(),
                       Error);
  CHECK_THROWS_WITH_AS(load_networks("/nowhere/at/all").find("n"),
                       "no net configurations found in /nowhere/at/all", Error);
  const std::string file = dir.put("file", "");
  CHECK_THROWS_WITH_AS(load_networks(file), cat("list '", file, "': Not a directory").c_str(),
                       Error);
}

TEST_CASE("a broken file does not hide the others, and is named where it may be what was meant") {
  Confs dir;
  dir.put("10.conflist", "{");
  dir.put("20.conflist", list_text("n"));
  std::filesystem::create_symlink("/nowhere", dir.file("30.conflist"));
  REQUIRE(::mkfifo(dir.file("40.conflist").c_str(), 0600) == 0);  // a read would wait for ever
  CHECK(dir.find("n").file == dir.file("20.conflist"));
  REQUIRE(dir.networks.broken.size() == 3);
  CHECK(dir.networks.broken[0].file == dir.file("10.conflist"));
  CHECK(dir.networks.broken[1].error.what() ==
        cat("read '", dir.file("30.conflist"), "': no such file or directory"));
  CHECK(std::string(dir.networks.broken[2].error.what())
            .starts_with(cat("read '", dir.file("40.conflist"), "', which is not a regular file")));
  CHECK(error_of([&] { dir.find("x"); })
            .details()
            .starts_with(cat("read '", dir.file("10.conflist"), "': it is not JSON")));
}

TEST_CASE("a broken file of the name that is asked for is an error, an older one is not taken") {
  Confs dir;
  dir.put("10.conflist", R"({"name": "n", "plugins": [{}]})");
  dir.put("20.conflist", list_text("n"));
  dir.put("20.conf", R"({"name": "n", "type": "x"})");
  CHECK(std::string(error_of([&] { dir.find("n"); }).what())
            .starts_with(cat("read '", dir.file("10.conflist"), "': plugins[0].type")));
  dir.put("10.conflist", list_text("m"));
  dir.put("30.conflist", R"({"name": "n", "plugins": [{}]})");  // comes too late to count
  CHECK(dir.find("n").file == dir.file("20.conflist"));
  dir.put("20.conflist", R"({"name": "n", "plugins": [{}]})");
  CHECK_THROWS_AS(dir.find("n"), Error);
}
