#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kubernetes/client.h"
#include "kubernetes/path.h"

namespace kubernetes {

/// Follows the objects of a collection: lists them, and watches for changes from there on.
/// Bookmarks move the place on from which it watches after a pause. It lists again when the server
/// does not have that place any more (410), and each `resync`, since a missed event is for ever.
class ListWatch {
 public:
  /// Called in the thread of run(), one after the other. What one throws goes to `failed`, and
  /// the objects are listed again.
  struct Handler {
    /// All objects that exist; replaces what was said before.
    std::function<void(const std::vector<Json>&)> listed;
    std::function<void(const Json&)> changed;  ///< was added, or has changed
    std::function<void(const Json&)> removed;  ///< its last state
    /// \param pause until it tries again.
    std::function<void(const std::exception&, std::chrono::milliseconds pause)> failed = {};
    /// Where it is set, each object of a list goes to it as its page arrives, and `listed` gets
    /// none. begin() says that what came before is no part of the list.
    Client::Sink items = {};
  };
  struct Times {
    std::chrono::seconds resync{600};  ///< up to a fifth more
    std::chrono::seconds watch{290};   ///< timeoutSeconds: then the server ends a watch
    std::chrono::seconds grace{10};    ///< after that, of a server that does not end it
    std::chrono::milliseconds first{500}, most{30'000};  ///< pauses after errors, doubled
  };

  /// \param client outlives it. Client::stop() ends run(): one client for each thread of this kind
  /// that ends by itself.
  ListWatch(Client& client, std::string path, Query query, Handler handler)
      : client_(client),
        path_(std::move(path)),
        query_(std::move(query)),
        handler_(std::move(handler)) {}
  void set_times(const Times& times) { times_ = times; }
  /// Lists before each watch, however the last one ended: a server that was restored from an older
  /// snapshot does not have the place any more from which a watch would go on, and says nothing.
  void list_always() { lists_always_ = true; }
  /// Instead of a list, watches from any state that the server has, with a change for each object
  /// of it: for whoever may miss one, and has no room for all of them at once. `listed` is not
  /// called.
  void skip_lists() { skips_lists_ = true; }
  /// resourceVersion of the last list. In the thread of run().
  const std::string& listed_version() const { return listed_version_; }

  /// Until the client is stopped.
  void run();

 private:
  void list();
  void watch();
  void event(std::string_view line);
  std::chrono::milliseconds next_pause();
  void pause_after(const std::exception& error);

  Client& client_;
  const std::string path_;
  const Query query_;
  const Handler handler_;
  Times times_;
  bool lists_always_ = false, skips_lists_ = false;
  std::string listed_version_;
  std::string version_;  ///< from which the next watch goes on; "": list first
  std::chrono::steady_clock::time_point resync_at_;
  std::chrono::milliseconds pause_{0};
};

}  // namespace kubernetes
