#include "plugins/devices/agent/kubelet/feed.h"

#include <memory>

namespace devices {

namespace {

std::shared_ptr<const Feed::List> list_of(const std::vector<Offer>& offers) {
  auto out = std::make_shared<Feed::List>();
  for (const Offer& offer : offers) {
    v1beta1::Device& device = *out->add_devices();
    device.set_id(offer.id);
    device.set_health(offer.healthy ? "Healthy" : "Unhealthy");
    if (offer.numa) device.mutable_topology()->add_nodes()->set_id(*offer.numa);
  }
  return out;
}

}  // namespace

void Feed::publish(const std::vector<Offer>& offers) {
  {
    const std::lock_guard hold(mutex_);
    if (offers == offers_) return;
    offers_ = offers;
  }
  streams_.publish(list_of(offers));
}

}  // namespace devices
