#pragma once

#include <deviceplugin.pb.h>

#include <algorithm>
#include <mutex>
#include <string>
#include <vector>

#include "plugins/devices/agent/kubelet/streams.h"
#include "plugins/devices/agent/stock/stock.h"

namespace devices {

/// The open streams of ListAndWatch of one resource. Thread-safe.
class Feed {
 public:
  using List = v1beta1::ListAndWatchResponse;

  Streams<List>& streams() { return streams_; }
  const Streams<List>& streams() const { return streams_; }
  /// Sends the offers, sorted by ID, to all streams, if they differ from the last ones.
  void publish(const std::vector<Offer>& offers);
  /// Whether the device exists, to refuse a request before it changes anything.
  bool has(const std::string& id) const {
    const std::lock_guard hold(mutex_);
    return std::ranges::binary_search(offers_, id, {}, &Offer::id);
  }

 private:
  mutable std::mutex mutex_;
  std::vector<Offer> offers_;
  Streams<List> streams_;
};

}  // namespace devices
