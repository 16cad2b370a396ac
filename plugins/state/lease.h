#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "libcni/common/attachment.h"
#include "netlink/types/ip.h"

/// Leases of host-local: in `dataDir`/NETWORK a file with the address as its name, in the format of
/// the reference plugin.
namespace leases {

/// The owner of an address. ifname is empty for a record of before interface names were kept.
using Owner = cni::Attachment;

/// The content of the lease: ID CR LF IFNAME, as the reference plugin writes it on every system;
/// without an ifname the ID alone.
std::string record_of(const Owner& owner);
/// The two lines of whatever content, without the white space around it.
Owner lines_of(std::string_view content);
/// Empty: content is neither a record nor a bare container ID.
std::optional<Owner> owner_in(std::string_view content);
/// The same for whatever a DEL may ask for, also what owner_in() takes for torn: an owner whose
/// record is content without the white space around it.
std::optional<Owner> owner_named_in(std::string_view content);
/// Whether a record of which nothing else is known is a lease: it names an interface, or an ID as
/// runtimes make them. A word like "printer" may be what an operator wrote to reserve the
/// address.
bool is_surely_a_lease(const Owner& owner);
/// "'ID' 'IFNAME'".
std::string str(const Owner& owner);

/// The address that a file of this name reserves; nothing for any other file.
std::optional<netlink::Ip> ip_of(const std::string& file_name);

/// Text without the white space around it.
std::string_view trimmed(std::string_view text);

}  // namespace leases
