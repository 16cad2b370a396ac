#pragma once

#include <string>
#include <string_view>

/// Names that ResourceSlices, claims and the ledger have for one device.
namespace devices::dra {

/// The name of a device in a ResourceSlice, a DNS label of at most 63 characters: the ID in lower
/// case, with a hyphen for each character that a label cannot have: "0000-03-00-1",
/// "eth1-macvlan-3". Where that loses more than colons and dots, or is too long, the label ends
/// with a hash of the ID.
std::string device_name(std::string_view id);

/// The ID of the device that stands for all slots of a parent, for claims that share it:
/// "eth1:macvlan". Its slots have this ID, a colon and a number.
std::string shared_id(std::string_view parent, std::string_view type);

}  // namespace devices::dra
