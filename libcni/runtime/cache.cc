#include "libcni/runtime/cache.h"

#include <algorithm>
#include <cerrno>

#include "libcni/common/error.h"
#include "libcni/common/undo.h"
#include "libcni/config/names.h"
#include "libcni/runtime/cache_entry.h"

namespace cni {

namespace {

std::optional<Dir> results_in(const std::string& dir) { return Dir::open(dir + "/results"); }

std::string aside_of(const std::string& name) { return cat(".", name, ".new"); }

struct Content {
  std::optional<CachedAttachment> attachment;
  std::string why;  // there is none
};

Content content_of(const std::string& name, const File& file, const AttachmentKey* key) try {
  return {.attachment = attachment_in(name, file, key), .why = {}};
} catch (const Error& e) {
  return {.attachment = std::nullopt, .why = e.what()};
}

}  // namespace

void Cache::put(const CachedAttachment& attachment) const {
  constexpr unsigned kMode = 0700;  // as the reference: configs may hold secrets
  const std::string name = attachment.key.file_name();
  const std::string text = text_of(attachment);
  const Dir dir = Dir::create(dir_);
  auto moved = dir.sub_or_link("results");  // to another disk
  const Dir results = moved ? *std::move(moved) : dir.make_sub("results", kMode);
  // The first time without a file beside it, which a kill would leave there for ever.
  if (results.publish(name, text, aside_of(name))) return;
  results.replace(name, text, aside_of(name));
}

std::optional<CachedAttachment> Cache::find(const AttachmentKey& key) const {
  const std::string name = key.file_name();
  Content content;
  try {
    const auto results = results_in(dir_);
    const auto file = results ? results->read(name) : std::nullopt;
    if (!file) return std::nullopt;
    content = content_of(name, *file, &key);
  } catch (const netlink::Error& e) {
    content.why = e.what();
  }
  if (content.attachment && content.attachment->key == key) return content.attachment;
  if (content.attachment) content.why = cat("it is of ", content.attachment->key.str());
  note(cat("cache file '", dir_, "/results/", name, "' is passed over: ", content.why));
  return std::nullopt;
}

void Cache::remove(const AttachmentKey& key) const {
  const std::string name = key.file_name();
  std::optional<Dir> results;
  try {
    results = results_in(dir_);
  } catch (const netlink::Error& e) {
    if (e.code().value() != ENOTDIR) throw;  // where there is no directory there is no record
  }
  if (!results) return;
  results->remove(aside_of(name));
  std::optional<File> file;
  try {
    file = results->read(name);
  } catch (const netlink::Error&) {  // what cannot be read is as good as broken, and goes too
  }
  const auto other = file ? content_of(name, *file, &key).attachment : std::nullopt;
  if (!other || other->key == key) results->remove(name);
}

std::optional<Attachment> Cache::Broken::owner_in(const std::string& network) const {
  if (!name.starts_with(network + "-")) return std::nullopt;
  const std::string rest = name.substr(network.size() + 1);
  const auto dash = rest.rfind('-');
  if (dash == std::string::npos) return std::nullopt;
  try {
    Attachment out{rest.substr(0, dash), rest.substr(dash + 1)};
    check_container_id(out.container_id);
    check_ifname(out.ifname);
    return out;
  } catch (const Error&) {
    return std::nullopt;
  }
}

Cache::Listing Cache::list() const {
  Listing out;
  const auto results = results_in(dir_);
  if (!results) return out;
  auto names = results->names();
  std::ranges::sort(names);
  for (const std::string& name : names) {
    if (name.starts_with('.')) continue;  // half written
    const auto file = results->read(name);
    if (!file) continue;  // removed since, or no file
    Content content = content_of(name, *file, nullptr);
    if (content.attachment) {
      out.attachments.push_back(std::move(*content.attachment));
    } else {
      out.broken.push_back({name, std::move(content.why), file->stamp});
    }
  }
  return out;
}

}  // namespace cni
