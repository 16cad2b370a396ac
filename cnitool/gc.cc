#include "cnitool/gc.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "cnitool/cached.h"
#include "cnitool/find_by.h"
#include "cnitool/gc_look.h"
#include "cnitool/leftovers.h"
#include "cnitool/sightings.h"
#include "cnitool/waiting.h"
#include "libcni/common/dir.h"
#include "libcni/common/undo.h"
#include "libcni/config/nearest.h"

namespace tool {

namespace {

using cni::Attachment;
using cni::CachedAttachment;
using cni::Life;
using nlohmann::ordered_json;
using Found = cni::Runtime::Found;

std::vector<Attachment> kept_by(const Operation& operation) {
  std::vector<Attachment> keep = operation.keep;
  keep.insert(keep.end(), operation.keep_known.begin(), operation.keep_known.end());
  return keep;
}

ordered_json json_of(const std::vector<Unknown>& unknown) {
  auto out = ordered_json::array();
  for (const Unknown& one : unknown) out.push_back({{"what", one.what}, {"why", one.why}});
  return out;
}

bool is_kept(const std::vector<Attachment>& keep, const std::string& network,
             const cni::Leftover& one) {
  return std::ranges::any_of(keep, [&](const Attachment& kept) {
    return one.tag == cni::AttachmentKey{network, kept.container_id, kept.ifname}.tag();
  });
}

// A misspelt name keeps nothing, and its pod would be detached.
void require_known(const Operation& operation, const cni::NetworkList& list,
                   const cni::RuntimeOptions& options) {
  if (operation.keep_known.empty()) return;
  const cni::Cache::Listing seen = cni::Cache(options.cache_dir).list();
  for (const Attachment& one : operation.keep_known) {
    const cni::AttachmentKey key{list.name, one.container_id, one.ifname};
    std::vector<std::string> names;
    bool is_known = find_by(seen.broken, &cni::Cache::Broken::name, key.file_name()) != nullptr;
    for (const CachedAttachment& cached : seen.attachments) {
      is_known |= cached.key == key;
      if (cached.key.network != list.name) continue;
      names.push_back(cat(cached.key.container_id, ":", cached.key.ifname));
    }
    if (is_known) continue;
    const auto found = leftovers_of(list, {}, options);
    const auto is_it = [&](const auto& of) { return is_kept({one}, list.name, of.leftover); };
    if (std::ranges::any_of(found, is_it)) continue;
    const std::string name = cat(one.container_id, ":", one.ifname);
    const std::string meant = cni::nearest(name, names);
    throw cni::Error(cni::Code::kUnknownContainer,
                     cat("keep '", name, "': network '", list.name, "' has no such attachment",
                         meant.empty() ? "" : cat(" (did you mean ", meant, "?)")),
                     cat("nothing was removed; `cnitool list ", list.name, "` lists all"));
  }
}

// The attachments that live, or may, a line each.
std::string living_in(const GcLook& look, const std::string& network) {
  std::string out;
  for (const BrokenEntry& one : look.broken) {
    if (one.life == Life::kDead) continue;
    out += cat("  ", name_of(one, network), ", whose cache entry is broken: it may be alive\n");
  }
  for (const Entry& one : look.entries) {
    if (one.life == Life::kDead) continue;
    out +=
        cat("  ", one.cached.key.str(), one.life == Life::kAlive ? "" : ": it may be alive", "\n");
  }
  return out;
}

// \throws cni::Error unless the answer on the terminal is yes.
void ask_about(const std::string& pods, int stop_fd) {
  cni::note(cat("gc detaches pods that are alive (--keep-alive keeps them, --yes does not ask):\n",
                pods, "Go on? [y/N]"));
  pollfd sources[] = {{STDIN_FILENO, POLLIN, 0}, {stop_fd, POLLIN, 0}};
  char answer = 0;
  const bool is_answered = ::poll(sources, 2, -1) > 0 && sources[1].revents == 0;
  if (!is_answered || ::read(STDIN_FILENO, &answer, 1) != 1 || (answer != 'y' && answer != 'Y')) {
    throw cni::Error(cni::Code::kInvalidEnvironment, "gc: nothing was removed");
  }
}

void require_consent(const Operation& operation, const std::string& pods, int stop_fd) {
  if (pods.empty() || operation.is_agreed) return;
  if (operation.can_ask) return ask_about(pods, stop_fd);
  throw cni::Error(cni::Code::kInvalidEnvironment,
                   cat("gc: it would detach pods that are alive:\n", pods, "nothing was removed"),
                   "--keep-alive keeps them, --yes detaches them");
}

// Keeps attachments that the cache does not have but whose pods live: GC would collect what they
// have. The user must name an attachment that nothing identifies, but not one that a pod made up.
void keep_unlisted(const cni::NetworkList& list, const std::vector<Found>& found,
                   std::vector<Attachment>& keep) {
  const auto lives = [&](const cni::Leftover& one) { return one.life == Life::kAlive; };
  for (const auto& [plugin, one] : found) {
    if (!lives(one) || one.container_id.empty() || one.ifname.empty()) continue;
    if (!is_kept(keep, list.name, one)) keep.push_back({one.container_id, one.ifname});
  }
  for (const auto& [plugin, one] : found) {
    if (!lives(one) || one.is_claim || !one.container_id.empty()) continue;
    if (is_kept(keep, list.name, one)) continue;
    throw cni::Error(cni::Code::kUnknownContainer,
                     cat("keep ", one.what,
                         ": its pod lives, but the cache does not have it, and the "
                         "container's ID is not known"),
                     "name it by --keep CONTAINER:IFNAME; `ip link show` has its alias");
  }
}

// The error names the plugin and its reason; this adds what became of the attachments.
cni::Error incomplete(const cni::Error& error, const std::vector<std::string>& stays,
                      const std::vector<std::string>& removed) {
  const auto add = [](std::string& to, const char* what, const std::vector<std::string>& names) {
    if (!names.empty()) to += cat(to.empty() ? "" : "; ", what, joined(names));
  };
  std::string details = error.details();
  add(details, "not removed: ", stays);
  add(details, "removed: ", removed);
  return {error.code(), error.what(), details};
}

template <class Fn>
std::optional<cni::Error> failure_of(Fn&& fn) try {
  fn();
  return std::nullopt;
} catch (const cni::Error& e) {
  return e;
}

// Splits names by whether the cache still has the attachment.
void sort_out(const std::vector<cni::AttachmentKey>& going, const std::string& cache_dir,
              std::vector<std::string>& stays, std::vector<std::string>& removed) {
  for (const cni::AttachmentKey& key : going) {
    const bool is_cached = cni::Dir::exists(cat(cache_dir, "/results/", key.file_name()));
    (is_cached ? stays : removed).push_back(key.str());
  }
}

// All but what is kept.
ordered_json collect_others(const Operation& operation, const cni::NetworkList& list,
                            const cni::RuntimeOptions& options) {
  std::vector<Attachment> keep = kept_by(operation);
  const GcLook look = look_at(list, options, keep, Asks::kIfNeeded);
  require_consent(operation, living_in(look, list.name), options.stop_fd);
  const Waiting waiting(operation.verb);
  std::vector<std::string> stays, removed;
  std::vector<cni::AttachmentKey> going;
  for (const Entry& one : look.entries) going.push_back(one.cached.key);
  if (list.is_at_least("1.1.0")) {
    for (const auto& [file, whose, life] : look.broken) {
      going.push_back({list.name, whose.container_id, whose.ifname});
    }
    keep_unlisted(list, look.found, keep);
    for (const Found& one : look.found) {
      if (one.leftover.life != Life::kAlive) removed.push_back(text_of(one));
    }
  }
  const auto failed = failure_of([&] { cni::Runtime(options).gc(list, keep, look.cache); });
  sort_out(going, options.cache_dir, stays, removed);
  if (failed) throw incomplete(*failed, stays, removed);
  return {{"removed", removed}};
}

cni::Runtime::Dead dead_in(const GcLook& look) {
  cni::Runtime::Dead out;
  for (const Entry& one : look.entries) {
    if (one.life == Life::kDead) out.attachments.push_back(one.cached);
  }
  for (const BrokenEntry& one : look.broken) {
    if (one.life == Life::kDead) out.broken.push_back(one.file);
  }
  for (const Found& one : look.found) {
    if (one.leftover.life == Life::kDead) out.tags.push_back(one.leftover.tag);
  }
  out.is_dead = [](const CachedAttachment& one) { return life_now(one) == Life::kDead; };
  return out;
}

// What was seen dead.
ordered_json collect_dead(const Operation& operation, const cni::NetworkList& list,
                          const cni::RuntimeOptions& options) {
  const Waiting waiting(operation.verb);
  const auto [look, unknown] = settled_look(list, options, kept_by(operation), Asks::kIfNeeded);
  std::vector<cni::Cache::Broken> broken;
  for (const BrokenEntry& one : look.broken) broken.push_back(one.file);
  note_broken(cni::Cache(options.cache_dir), broken);
  const cni::Runtime::Dead dead = dead_in(look);
  const cni::Runtime::Removal done = cni::Runtime(options).remove(list, dead);
  std::vector<std::string> stays, removed;
  for (const Found& one : done.things) removed.push_back(text_of(one));
  for (const cni::AttachmentKey& key : done.attachments) removed.push_back(key.str());
  for (const Unknown& one : unknown) cni::note(cat("stays: ", one.what, ": ", one.why));
  if (!done.error) return {{"removed", removed}, {"unknown", json_of(unknown)}};
  for (const CachedAttachment& one : dead.attachments) {
    const auto& all = done.attachments;
    if (std::ranges::find(all, one.key) == all.end()) stays.push_back(one.key.str());
  }
  throw incomplete(*done.error, stays, removed);
}

/// What a dry run prints of a network.
struct Stale {
  std::string network;
  std::vector<std::string> attachments = {};  ///< that would be removed
  std::vector<Found> found = {};
  std::vector<Unknown> unknown = {};
};

Stale stale_of(const Operation& operation, const Settings& settings,
               const cni::RuntimeOptions& options) {
  const cni::NetworkList list = network_of(operation, settings);
  require_known(operation, list, options);
  Settled settled;
  if (operation.keep_alive) {
    settled = settled_look(list, options, kept_by(operation), Asks::kAlways);
  } else {
    settled.look = look_at(list, options, kept_by(operation), Asks::kAlways);
  }
  Stale out{list.name};
  const auto goes = [&](Life life) { return !operation.keep_alive || life == Life::kDead; };
  for (const Entry& one : settled.look.entries) {
    if (goes(one.life)) out.attachments.push_back(one.cached.key.str());
  }
  for (const BrokenEntry& one : settled.look.broken) {
    if (goes(one.life)) out.attachments.push_back(name_of(one, list.name));
  }
  out.found = std::move(settled.look.found);
  out.unknown = std::move(settled.unknown);
  return out;
}

ordered_json json_of(const Stale& stale) {
  std::vector<cni::Leftover> left;
  for (const auto& one : stale.found) left.push_back(one.leftover);
  return {{"attachments", stale.attachments},
          {"found", cni::json_of(left)},
          {"unknown", json_of(stale.unknown)}};
}

// \param place is where the things are; an attachment's text says it.
void print_text(const Stale& stale, const std::string& place, bool keeps_unknown,
                const Output& output) {
  for (const auto& found : stale.found) {
    const Life life = found.leftover.life;
    const bool stays = life == Life::kAlive || (keeps_unknown && is_unknown(life));
    if (is_unknown(life) && stays) continue;
    output.out << (stays ? "" : "would remove ") << text_of(found) << place
               << (stays ? cat(": stays, ", why_it_stays(life)) : "") << '\n';
  }
  for (const auto& one : stale.attachments) output.out << "would remove " << one << '\n';
  for (const Unknown& one : stale.unknown) {
    output.out << one.what << ": stays, " << one.why << '\n';
  }
}

// A network that cannot be looked at does not hide the others.
bool look_for_all_stale(Operation operation, const Settings& settings,
                        const cni::RuntimeOptions& options, const Output& output) {
  ordered_json networks = ordered_json::array();
  std::optional<cni::Error> error;
  bool is_known = true;
  for (const std::string& name : network_names(settings)) {
    operation.network = name;
    try {
      const Stale stale = stale_of(operation, settings, options);
      is_known = is_known && stale.unknown.empty();
      if (!output.json) {
        print_text(stale, cat(" in network '", name, "'"), operation.keep_alive, output);
      }
      networks.push_back({{"network", name}});
      networks.back().update(json_of(stale));
    } catch (const cni::Error& e) {
      if (error) cni::note(text_of(*error));
      error = e;
    }
  }
  if (error) throw *error;
  if (output.json) output.print({{"networks", networks}});
  return is_known;
}

}  // namespace

ordered_json collect(const Operation& operation, const cni::NetworkList& list,
                     const cni::RuntimeOptions& options) {
  require_known(operation, list, options);
  if (list.disable_gc) return {{"removed", ordered_json::array()}};
  return operation.keep_alive ? collect_dead(operation, list, options)
                              : collect_others(operation, list, options);
}

bool look_for_stale(const Operation& operation, const Settings& settings,
                    const cni::RuntimeOptions& options, const Output& output) {
  const Waiting waiting(operation.verb);
  if (operation.network.empty()) return look_for_all_stale(operation, settings, options, output);
  const Stale stale = stale_of(operation, settings, options);
  output.json ? output.print(json_of(stale)) : print_text(stale, "", operation.keep_alive, output);
  return stale.unknown.empty();
}

}  // namespace tool
