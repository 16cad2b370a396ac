#include "plugins/state/ledger.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "libcni/common/error.h"
#include "tests/unit/surroundings.h"

using devices::Entry;
using devices::Holder;
using devices::Ledger;

namespace {

Entry entry_of(const std::string& id, const std::string& resource = "vendor.example/nic") {
  return {.id = id, .resource = resource, .promised = 7};
}

void write(const std::string& file, std::string_view text) { std::ofstream(file) << text; }

std::string ids_of(const Ledger& ledger, Entry::Promise promise = Entry::Promise::kReadable) {
  std::string out;
  for (const Entry& one : ledger.all()) {
    if (one.promise == promise) out += out.empty() ? one.id : " " + one.id;
  }
  return out;
}

}  // namespace

TEST_CASE("a ledger has entries sorted by resource and ID, and no others") {
  const surroundings::Folder folder;
  CHECK_FALSE(Ledger::find(folder.file("absent")));
  const Ledger ledger = Ledger::create(folder.file("devices"));
  ledger.put(entry_of("b"));
  ledger.put_unsynced(entry_of("a"));
  ledger.put(entry_of("c", "a.example/x"));
  write(folder.file("devices/torn"), R"({"id":"to)");
  write(folder.file("devices/other"), entry_of("b").text());
  write(folder.file("devices/.x.new"), entry_of("x").text());
  CHECK(ids_of(ledger) == "c a b");
  CHECK(ledger.read("b") == entry_of("b"));
  CHECK_FALSE(ledger.read("torn"));
  CHECK_FALSE(ledger.read("../devices/b"));
  write(folder.file("devices/later"), R"({"format":9})");
  CHECK(ids_of(ledger, Entry::Promise::kTorn) == "other torn");
  CHECK(ids_of(ledger, Entry::Promise::kForeign) == "later");
}

TEST_CASE(
    "sweeping removes torn holders and files of killed processes, and none of a later format") {
  const surroundings::Folder folder;
  const Ledger ledger = Ledger::create(folder.path());
  ledger.put(entry_of("a"));
  write(folder.file("torn"), "");
  write(folder.file(".b.new"), "x");
  write(folder.file("later"), R"({"format":9})");
  write(folder.file(".held=torn"), "{");
  CHECK(ledger.sweep() == std::vector<std::string>{".held=torn"});
  CHECK(cni::Dir::exists(folder.file("torn")));  // nobody knows whose device it is
  CHECK(ledger.read("a"));
  CHECK_FALSE(cni::Dir::exists(folder.file(".b.new")));
  CHECK(cni::Dir::exists(folder.file("later")));
  CHECK_THROWS_AS(ledger.read("later"), cni::Error);
}

TEST_CASE("a holder has a file of its own, which promises do not change") {
  const surroundings::Folder folder;
  const Ledger ledger = Ledger::create(folder.path());
  Entry entry = entry_of("x.new");
  entry.pod = devices::Pod{"shop", "web-0", "u1"};
  ledger.put(entry);
  const Holder holder{.resource = entry.resource, .promised = 7, .pod = entry.pod};
  ledger.put_holder("x.new", holder);
  CHECK(ledger.sweep().empty());
  CHECK(ledger.read("x.new")->holder == holder);
  CHECK(ledger.read("x.new")->promised == 7);
  ledger.add_result("x.new", "{}");
  CHECK(ledger.read("x.new")->is_attached());
  ledger.put(entry_of("x.new"));
  CHECK(ledger.read("x.new")->is_attached());
  CHECK(ledger.read("x.new")->is_unclaimed());
  ledger.remove_holder("x.new");
  ledger.remove_holder("x.new");
  CHECK(ledger.read("x.new") == entry_of("x.new"));
}

TEST_CASE("after its holder a pod's device is the pod's, one of no pod is free") {
  const surroundings::Folder folder;
  const Ledger ledger = Ledger::create(folder.path());
  Entry entry = entry_of("a");
  entry.pod = devices::Pod{"shop", "web-0", "u1"};
  Holder holder{.resource = entry.resource, .promised = 7, .pod = entry.pod, .result = "{}"};
  ledger.put(entry);
  ledger.put_holder("a", holder);
  ledger.remove_holder("a");
  CHECK(ledger.read("a") == entry);
  entry.promised = 0;
  entry.pod.reset();
  ledger.put(entry);
  ledger.put_holder("a", holder);
  ledger.remove_holder("a");
  CHECK_FALSE(ledger.read("a"));
  CHECK(ledger.all().empty());
  CHECK_FALSE(cni::Dir::exists(folder.file("a")));
}

TEST_CASE("a holder whose promise is lost is an entry, and a torn promise stays") {
  const surroundings::Folder folder;
  const Ledger ledger = Ledger::create(folder.path());
  const Holder holder{.resource = "vendor.example/nic", .plugins = "[]", .promised = 7};
  ledger.put_holder("a", holder);
  ledger.put_holder("b", holder);
  write(folder.file("b"), "{");
  write(folder.file(".held=c"), "{");
  const auto found = ledger.all();
  REQUIRE(found.size() == 2);
  CHECK(found[0].resource == holder.resource);
  CHECK(found[0].plugins == "[]");
  CHECK_FALSE(found[0].is_wanted());
  CHECK(ids_of(ledger, Entry::Promise::kTorn) == "b");
  ledger.remove_holder("a");
  ledger.remove_holder("b");
  CHECK(ids_of(ledger).empty());
  CHECK(ids_of(ledger, Entry::Promise::kTorn) == "b");
  CHECK(ledger.sweep() == std::vector<std::string>{".held=c"});
}

TEST_CASE("files of a later format stay, and hide no holder that is readable") {
  const surroundings::Folder folder;
  const Ledger ledger = Ledger::create(folder.path());
  const plugins::StateOwner owner{{"net", "c1", "eth0"}};
  const Holder holder{.owner = owner, .resource = "vendor.example/nic", .result = "{}"};
  ledger.put_mark(owner, "a");
  ledger.put_holder("a", holder);
  write(folder.file("a"), R"({"format":9})");
  REQUIRE(ledger.held_by(owner).size() == 1);
  CHECK(ids_of(ledger, Entry::Promise::kForeign) == "a");
  CHECK_THROWS_AS(ledger.read("a"), cni::Error);
  ledger.remove_holder("a");
  CHECK(ledger.held_by(owner).empty());
  CHECK(cni::Dir::exists(folder.file("a")));
  write(folder.file(".held=a"), "{\"format\":9}\n");
  CHECK(ledger.all().at(0).is_holder_unreadable);
  CHECK_THROWS_AS(ledger.held_by(owner), cni::Error);
  CHECK(ledger.sweep().empty());
}

TEST_CASE("a ledger is removed with its path") {
  const surroundings::Folder folder;
  const Ledger ledger = Ledger::create(folder.file("devices"));
  CHECK_FALSE(ledger.is_removed());
  std::filesystem::rename(folder.file("devices"), folder.file("moved"));
  CHECK(ledger.is_removed());
  const Ledger other = Ledger::create(folder.file("devices"));
  CHECK(ledger.is_removed());
  CHECK_FALSE(other.is_removed());
}

TEST_CASE("a mark has the devices of an attachment") {
  const surroundings::Folder folder;
  const Ledger ledger = Ledger::create(folder.path());
  const plugins::StateOwner one{{"net", "c1", "eth0"}}, other{{"net", "c1", "eth1"}};
  for (const char* id : {"b", "a", "c"}) {
    Entry entry = entry_of(id);
    ledger.put_mark(one, id);
    ledger.put_mark(one, id);
    ledger.put(entry);
    ledger.put_holder(id, {.owner = std::string(id) == "c" ? other : one});
  }
  CHECK(ledger.has_mark(one));
  CHECK_FALSE(ledger.has_mark(other));
  const auto held = [&] {
    std::string out;
    for (const Entry& each : ledger.held_by(one)) out += each.id;
    return out;
  };
  CHECK(held() == "ab");
  CHECK(ledger.held_by(other).empty());
  write(folder.file(".of-" + one.key.tag()), "a\nb");  // torn by a power loss
  CHECK(held() == "ab");
  ledger.put_mark(one, "c");
  CHECK(held() == "ab");
  ledger.remove_idle_mark(one);
  CHECK(ledger.has_mark(one));
  ledger.remove_holder("a");
  ledger.remove_holder("b");
  ledger.remove_idle_mark(one);
  ledger.remove_idle_mark(one);
  CHECK_FALSE(ledger.has_mark(one));
}
