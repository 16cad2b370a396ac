#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "libcni/common/dir.h"
#include "netlink/types/ip.h"

namespace plugins {

/// What is known of an address, in lines: a symbolic link in a folder of state files, with the
/// prefix and the address as its name, leads to them. Networks with overlapping ranges may have one
/// address. Of more lines than a link can hold, some 80, the oldest are lost.
class AddressIndex {
 public:
  using Test = std::function<bool(const std::string& line)>;
  /// Both outlive it.
  explicit AddressIndex(const cni::Dir& dir, std::string_view prefix = {})
      : dir_(dir), prefix_(prefix) {}

  /// By one system call where there are none.
  std::vector<std::string> lines(const netlink::Ip& address) const {
    return read(name_of(address));
  }
  /// Adds a line, unless it is there.
  void insert(const netlink::Ip& address, const std::string& line) const;
  void erase(const netlink::Ip& address, const std::string& line) const;
  /// Of all addresses: lists the folder.
  void erase_if(const Test& is_removed) const;
  /// In place of what is there.
  void replace(const netlink::Ip& address, const std::vector<std::string>& lines) const {
    write(name_of(address), lines);
  }

 private:
  std::string name_of(const netlink::Ip& address) const;
  std::vector<std::string> read(const std::string& name) const;
  void write(const std::string& name, const std::vector<std::string>& lines) const;
  const cni::Dir& dir_;
  std::string_view prefix_;
};

}  // namespace plugins
