#include "plugins/devices/agent/ledger_cache.h"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <string>

#include "tests/unit/surroundings.h"

using devices::Entry;
using devices::Ledger;
using devices::LedgerCache;

namespace {

Entry cached_entry(const std::string& id, std::int64_t promised = 7) {
  return {.id = id, .resource = "vendor.example/nic", .promised = promised};
}

/// As long as it exists, the process can open no file.
class NoFiles {
 public:
  NoFiles() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit none{0, before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &none);
  }
  ~NoFiles() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  NoFiles(const NoFiles&) = delete;
  NoFiles& operator=(const NoFiles&) = delete;

 private:
  rlimit before_{};
};

// Of the files, whatever was read before.
devices::Entries all_of(const Ledger& ledger) {
  devices::Entries out;
  for (const Entry& one : ledger.all()) out.emplace(one.id, one);
  return out;
}

void check_that_it_follows(LedgerCache& cache, const Ledger& ledger, const std::string& folder) {
  CHECK(cache.all() == all_of(ledger));
  ledger.put(cached_entry("b"));
  ledger.put_unsynced(cached_entry("a"));
  CHECK(cache.all() == all_of(ledger));
  CHECK(cache.all().size() >= 2);
  ledger.put_unsynced(cached_entry("a", 8));
  CHECK(cache.all() == all_of(ledger));
  ledger.put_holder("a", {.resource = "vendor.example/nic", .promised = 8});
  CHECK(cache.all() == all_of(ledger));
  ledger.add_result("a", "{}");
  CHECK(cache.all() == all_of(ledger));
  CHECK(cache.find([](const Entry& one) { return one.is_attached(); })->id == "a");
  ledger.remove_holder("a");
  ledger.remove("b");
  CHECK(cache.all() == all_of(ledger));
  CHECK_FALSE(cache.find([](const Entry& one) { return one.id == "b"; }));
  std::ofstream(folder + "/b") << cached_entry("b").text();  // by hand
  CHECK(cache.all() == all_of(ledger));
  std::ofstream(folder + "/b") << "torn";
  CHECK(cache.all() == all_of(ledger));
  std::ofstream(folder + "/b") << R"({"format":9})";
  CHECK(cache.all() == all_of(ledger));
}

}  // namespace

TEST_CASE("the cache follows each change of the ledger") {
  const surroundings::Folder folder;
  const Ledger ledger = Ledger::create(folder.path());
  ledger.put(cached_entry("x"));
  LedgerCache cache(ledger);
  check_that_it_follows(cache, ledger, folder.path());
}

TEST_CASE("without inotify the cache reads all files") {
  const surroundings::Folder folder;
  const Ledger ledger = Ledger::create(folder.path());
  const auto cache = [&] {
    const NoFiles none;
    return std::make_unique<LedgerCache>(ledger);
  }();
  check_that_it_follows(*cache, ledger, folder.path());
}

TEST_CASE("a change that could not be read is read the next time") {
  const surroundings::Folder folder;
  const Ledger ledger = Ledger::create(folder.path());
  LedgerCache cache(ledger);
  CHECK(cache.all().empty());
  ledger.put(cached_entry("a"));
  {
    const NoFiles none;
    CHECK_THROWS(cache.all());
  }
  CHECK(cache.all() == all_of(ledger));
  CHECK(cache.all().size() == 1);
}

TEST_CASE("after more changes than the kernel keeps, the cache reads all files") {
  const surroundings::Folder folder;
  const Ledger ledger = Ledger::create(folder.path());
  LedgerCache cache(ledger);
  CHECK(cache.all().empty());
  const std::string other = folder.file("other");
  for (int i = 0; i < 9000; ++i) {  // fs.inotify.max_queued_events is 16384
    ::mknod(other.c_str(), S_IFREG | 0600, 0);
    ::unlink(other.c_str());
  }
  ledger.put_unsynced(cached_entry("a"));
  CHECK(cache.all() == all_of(ledger));
  ledger.remove("a");
  CHECK(cache.all() == all_of(ledger));
}
