#pragma once

#include "installer/options.h"

namespace installer {

/// Whether runtimes would use the network's file: it is a list, no other file of the folder comes
/// first, and none of another network has its name. \throws cni::Error(kInvalidConfig).
void require_usable(const Options& options);

/// By rename. False: it is there already.
bool put_config(const Options& options);
/// False: it is not there, or somebody changed it.
bool remove_config(const Options& options);

}  // namespace installer
