// The files of host-local, as anybody may have left them: reservations, the owner index, the marks
// of where the search stopped, a resolv.conf, and /proc/stat. Lines of the form NAME=CONTENT become
// files of the store, with \n and \r escaped; names with a '>' symbolic links in .owners.
#include <filesystem>
#include <fstream>
#include <map>

#include "plugins/leases/allocate.h"
#include "plugins/leases/stale.h"
#include "tests/fuzz/fuzz.h"

namespace {

namespace fs = std::filesystem;
using fuzz::require;
using namespace leases;

const std::string kBoot = "11111111-2222";

// One folder per process, in memory.
const std::string& data_dir() {
  static const std::string path = [] {
    std::string name = "/dev/shm/patchbay-fuzz-XXXXXX";
    require(::mkdtemp(name.data()) != nullptr, "/dev/shm is there");
    fs::create_directories(name + "/net");
    std::ofstream(name + "/stat") << "cpu 1\nbtime 1700000000\n";
    return name;
  }();
  return path;
}

std::string unescaped(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool escape = text[i] == '\\' && i + 1 < text.size();
    if (!escape) {
      out += text[i];
      continue;
    }
    const char c = text[++i];
    out += c == 'n' ? '\n' : c == 'r' ? '\r' : c;
  }
  return out;
}

bool is_name(const std::string& name) {
  return !name.empty() && name.size() < 200 && name != "." && name != ".." &&
         name.find('/') == std::string::npos && name.find('\0') == std::string::npos;
}

void put(const fs::path& store, std::string_view line) {
  const std::string name(fuzz::take_until(line, "="));
  std::error_code ignored;
  const auto arrow = name.find('>');
  if (arrow != std::string::npos) {
    const std::string boot = name.substr(0, arrow), link = name.substr(arrow + 1);
    const std::string target = unescaped(line);
    if (!is_name(boot) || !is_name(link) || target.empty() || target.find('\0') != target.npos)
      return;
    fs::create_directories(store / ".owners" / boot, ignored);
    fs::create_symlink(target, store / ".owners" / boot / link, ignored);
  } else if (is_name(name)) {
    std::ofstream(store / name) << unescaped(line);
  }
}

// Parts that need no files.
void read_texts(const std::string& content) {
  if (const auto owner = owner_in(content)) {
    require(owner_in(record_of(*owner)) == owner, "an owner is read as it was written");
    require(owner_named_in(content) == owner, "whose record it is, is who is named in it");
  }
  parse_resolv_conf(content);
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view text = fuzz::text_of(data, size);
  read_texts(unescaped(text));
  const fs::path dir = fs::path(data_dir()) / "net";
  for (int lines = 0; !text.empty() && lines < 12; ++lines) put(dir, fuzz::take_until(text, "\n"));

  const Owner owner{"c1", "eth0"};
  const Host host{kBoot, data_dir() + "/none", data_dir() + "/stat"};
  {
    const auto store = Store::open(data_dir(), "net", host);
    const auto used = store->used();
    const Survey found = survey(*store, used);
    require(found.dead.size() + found.living.size() == used.size(), "each is dead or alive");
    oldest(found);
    store->owned(owner, {});
    store->last_reserved(0);
    store->index().is_complete();
    // As the reference: what is noted, then full records, then those that name no interface.
    for (int pass = 0; pass < 3; ++pass) store->release(owner, {});
    require(store->owned(owner, {}).empty(), "what is released is not owned");
  }
  std::error_code ignored;
  for (const auto& one : fs::directory_iterator(dir)) fs::remove_all(one.path(), ignored);
  return 0;
}
