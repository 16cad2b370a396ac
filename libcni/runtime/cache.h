#pragma once

#include <ctime>
#include <optional>
#include <string>
#include <vector>

#include "libcni/common/attachment.h"
#include "libcni/config/args.h"
#include "libcni/config/conf.h"
#include "libcni/config/json_value.h"

namespace cni {

/// An ADD's arguments and result, for the CHECK, DEL and GC that follow.
struct CachedAttachment {
  AttachmentKey key;
  std::string netns;  ///< a file of an older runtime without it: the sandbox of the result
  Args args;
  JsonValue capabilities;    ///< capability arguments, an object; null: none
  std::string config;        ///< the network list, as text
  JsonValue result;          ///< of the last plugin; null: that ADD did not come to its end
  std::time_t modified = 0;  ///< seconds since the epoch; set by reading
  std::string stamp = {};    ///< another one after every put(); set by reading
};

/// The results cache, in the reference's place and format ("cniCacheV1"), so that runtimes built on
/// either go on with what the other left. Files are replaced at once, so that a reader sees an old
/// or a new one. A file that is empty, torn or foreign all the same (a full disk, a power cut, the
/// reference's own writes) is said so on stderr and then is as good as absent.
class Cache {
 public:
  static constexpr const char* kDefaultDir = "/var/lib/cni";

  /// The files are in dir/results.
  explicit Cache(std::string dir = kDefaultDir) : dir_(std::move(dir)) {}

  const std::string& dir() const { return dir_; }

  /// Makes or replaces the file of an attachment; the caller keeps others from the same file.
  /// \throws netlink::Error, Error as file_name().
  void put(const CachedAttachment& attachment) const;
  /// Empty: the entry is absent, broken, unreadable or of another attachment. A bare result, which
  /// very old runtimes left, counts as this attachment's.
  std::optional<CachedAttachment> find(const AttachmentKey& key) const;
  /// Removes the file, broken or not, unless it is another attachment's.
  void remove(const AttachmentKey& key) const;

  /// A file that cannot be read as what it should be.
  struct Broken {
    std::string name;  ///< in dir/results
    std::string why;
    std::string stamp;  ///< as CachedAttachment::stamp
    /// The likely owner, from the name; empty: of another network. Interfaces rarely have a dash in
    /// their names. A wrong guess is without harm: there is no such container.
    std::optional<Attachment> owner_in(const std::string& network) const;
    auto operator<=>(const Broken&) const = default;
  };
  struct Listing {
    std::vector<CachedAttachment> attachments;  ///< by file name
    std::vector<Broken> broken;
  };
  /// Everything there is. \throws netlink::Error where the directory cannot be read.
  Listing list() const;

 private:
  std::string dir_;
};

}  // namespace cni
