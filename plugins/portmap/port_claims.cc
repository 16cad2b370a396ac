#include "plugins/portmap/port_claims.h"

#include "libcni/common/error.h"

namespace portmap {

namespace {

using cni::cat;
using cni::Dir;

constexpr const char* kClaims = "claims";
constexpr const char* kNewClaims = "claims.new";

std::string file_name(const Key& key) {
  return cat(key.family == Family::kIpv4 ? "4-" : "6-", name_of(key.protocol), "-", key.port, "-",
             key.address ? key.address->str() : "any");
}

// Of a process that was killed.
void discard_new(const Dir& dir) {
  const auto claims = dir.sub(kNewClaims);
  if (!claims) return;
  for (const std::string& name : claims->names()) claims->remove(name);
  dir.remove_dir(kNewClaims);
}

}  // namespace

bool PortClaims::exist() const { return dir_.has(kClaims); }

void PortClaims::tidy() const {
  if (const auto claims = dir_.sub(kClaims)) claims->remove(Dir::kAside);
  discard_new(dir_);
}

void PortClaims::make(const std::vector<std::pair<Key, Owner>>& all) const {
  if (all.empty()) return;  // put() makes the directory
  discard_new(dir_);
  try {
    const Dir claims = dir_.make_sub(kNewClaims);
    for (const auto& [key, owner] : all) claims.make_link(file_name(key), Tag(owner).str());
    dir_.rename(kNewClaims, kClaims);
  } catch (const netlink::Error&) {
    discard_new(dir_);
    throw;
  }
}

Tag PortClaims::claimant(const Key& key) const {
  const auto claims = dir_.sub(kClaims);
  return Tag(claims ? claims->read_link(file_name(key)).value_or("") : "");
}

void PortClaims::put(const Key& key, const Owner& owner) const {
  const Dir claims = dir_.make_sub(kClaims);
  if (claims.make_link(file_name(key), Tag(owner).str())) return;
  claims.replace_link(file_name(key), Tag(owner).str(), Dir::kAside);
}

bool PortClaims::release(const Key& key, const Tag& owner) const {
  const auto claims = dir_.sub(kClaims);
  if (!claims || claims->read_link(file_name(key)) != owner.str()) return false;
  return claims->remove(file_name(key));
}

void PortClaims::release_if(const std::function<bool(const Tag& tag)>& is_stale) const {
  const auto claims = dir_.sub(kClaims);
  if (!claims) return;
  for (const std::string& name : claims->names()) {
    const Tag tag(claims->read_link(name).value_or(""));
    if (tag.empty() || is_stale(tag)) claims->remove(name);
  }
}

}  // namespace portmap
