#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/devices/agent/nri/log/addresses.h"
#include "plugins/devices/agent/nri/session.h"

namespace devices::nri {

/// The life of pods as lines of JSON. What a sandbox had when it was run is repeated in its later
/// lines: by then the cache and older runtimes do not have it any more.
class Life {
 public:
  using Write = std::function<void(const std::string& line)>;

  /// \param cache_dir of interfaces_of()
  Life(std::string cache_dir, Write write);

  void connected(const Configuration& runtime);
  void synchronized(const std::vector<Sandbox>& listed);
  void happened(Event event, const Sandbox& sandbox, const Container* container);

 private:
  struct Known {
    Sandbox sandbox;
    std::vector<Attached> interfaces;
  };
  Known with_earlier(const Sandbox& sandbox, std::vector<Attached> interfaces) const;
  void keep(Known known);
  void write(std::string_view event, const Known& of, const Container* container = nullptr) const;

  std::string cache_dir_;
  Write write_;
  std::map<std::string, Known> known_;  // by ID, kMaxSandboxes at most
};

}  // namespace devices::nri
