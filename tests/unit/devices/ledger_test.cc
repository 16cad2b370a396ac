#include "plugins/devices/ledger/ledger.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>

#include "libcni/common/error.h"
#include "tests/unit/surroundings.h"

using devices::Entry;
using devices::Ledger;

namespace {

Entry entry_of(const std::string& id, const std::string& resource = "vendor.example/nic") {
  return {.id = id, .resource = resource, .promised = 7};
}

void write(const std::string& file, std::string_view text) { std::ofstream(file) << text; }

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
  const auto all = ledger.all();
  REQUIRE(all.size() == 3);
  CHECK(all[0].id == "c");
  CHECK(all[1].id == "a");
  CHECK(ledger.read("b") == entry_of("b"));
  CHECK_FALSE(ledger.read("torn"));
  CHECK_FALSE(ledger.read("../devices/b"));
  write(folder.file("devices/later"), R"({"format":9})");
  auto unreadable = ledger.content().unreadable;
  std::ranges::sort(unreadable);
  CHECK(unreadable == std::vector<std::string>{"later", "other", "torn"});
}

TEST_CASE("sweeping removes torn files and those of killed processes, and none of a later format") {
  const surroundings::Folder folder;
  const Ledger ledger = Ledger::create(folder.path());
  ledger.put(entry_of("a"));
  write(folder.file("torn"), "");
  write(folder.file(".b.new"), "x");
  write(folder.file("later"), R"({"format":9})");
  CHECK(ledger.sweep() == std::vector<std::string>{"torn"});
  CHECK(ledger.read("a"));
  CHECK_FALSE(cni::Dir::exists(folder.file(".b.new")));
  CHECK(cni::Dir::exists(folder.file("later")));
  CHECK_THROWS_AS(ledger.read("later"), cni::Error);
}

TEST_CASE("an entry that is free has no file") {
  const surroundings::Folder folder;
  const Ledger ledger = Ledger::create(folder.path());
  Entry entry = entry_of("a");
  ledger.put_or_remove(entry);
  CHECK(ledger.read("a"));
  entry.promised = 0;
  ledger.put_or_remove(entry);
  CHECK_FALSE(cni::Dir::exists(folder.file("a")));
  entry.promised = 7;
  ledger.put_or_remove_unsynced(entry);
  CHECK(ledger.read("a"));
  entry.promised = 0;
  ledger.put_or_remove_unsynced(entry);
  CHECK_FALSE(cni::Dir::exists(folder.file("a")));
}

TEST_CASE("each change has another stamp") {
  const surroundings::Folder folder;
  const Ledger ledger = Ledger::create(folder.path());
  std::string last = ledger.changed();
  for (int i = 0; i < 100; ++i) {
    ledger.put_unsynced(entry_of("a"));
    const std::string now = ledger.changed();
    CHECK(now != last);
    last = now;
  }
}

TEST_CASE("a mark has the devices of an attachment") {
  const surroundings::Folder folder;
  const Ledger ledger = Ledger::create(folder.path());
  const plugins::StateOwner one{"net", "c1", "eth0"}, other{"net", "c1", "eth1"};
  for (const char* id : {"b", "a", "c"}) {
    Entry entry = entry_of(id);
    ledger.put_mark(one, id);
    ledger.put_mark(one, id);
    entry.holder = {.owner = std::string(id) == "c" ? other : one};
    ledger.put(entry);
  }
  CHECK(ledger.has_mark(one));
  CHECK_FALSE(ledger.has_mark(other));
  const auto ids_of = [&] {
    std::string out;
    for (const Entry& each : ledger.held_by(one)) out += each.id;
    return out;
  };
  CHECK(ids_of() == "ab");
  CHECK(ledger.held_by(other).empty());
  write(folder.file(".of-" + one.file_name()), "a\nb");  // torn by a power loss
  CHECK(ids_of() == "ab");
  ledger.put_mark(one, "c");
  CHECK(ids_of() == "ab");
  ledger.remove_idle_mark(one);
  CHECK(ledger.has_mark(one));
  ledger.remove("a");
  ledger.remove("b");
  ledger.remove_idle_mark(one);
  ledger.remove_idle_mark(one);
  CHECK_FALSE(ledger.has_mark(one));
}
