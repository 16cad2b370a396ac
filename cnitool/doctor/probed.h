#pragma once

#include "cnitool/probe/probe.h"
#include "cnitool/settings.h"

namespace tool::doctor {

/// What probe() finds. Where it cannot send at all, that is an error among its findings, because
/// the other checks say as much without it. \throws cni::Error.
probe::Outcome probe_pods(const Settings& settings, const probe::Options& options);

}  // namespace tool::doctor
