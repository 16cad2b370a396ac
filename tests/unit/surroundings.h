#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include "netlink/types/fd.h"

/// What a unit test needs around it: descriptors to read from and write to, and a folder of its
/// own.
namespace surroundings {

/// A file in memory that holds text, to be read from its start.
netlink::Fd file_with(std::string_view text);
/// All that was written to a file in memory, from its start.
std::string content_of(const netlink::Fd& file);
/// A pipe: first reads, second writes.
std::pair<netlink::Fd, netlink::Fd> make_pipe();
/// An open file, as of "/dev/full".
netlink::Fd open_for_writing(const std::string& path);

/// A file of tests/fuzz/corpus. Those whose names end with "_of_0.1.0" are of commit a8abc1f, in
/// the form in which its executables wrote state files.
std::string corpus(const std::string& name);

/// A folder that is removed with its owner.
class Folder {
 public:
  Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder();

  std::string path() const { return path_.string(); }
  std::string file(std::string_view name) const { return (path_ / name).string(); }
  /// Writes a shell script that can be run; returns its path.
  std::string script(std::string_view name, std::string_view body) const;

 private:
  std::filesystem::path path_;
};

}  // namespace surroundings
