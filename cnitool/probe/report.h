#pragma once

#include "cnitool/output.h"
#include "cnitool/probe/probe.h"
#include "cnitool/settings.h"

/// What `cnitool probe` prints.
namespace tool::probe {

/// Probes, and prints it: a line for each question, and what is wrong; or the questions alone; or
/// changes, until the user wants an end. False: a pod cannot do what its config promises, or not
/// all was asked.
bool report(const Settings& settings, const Options& options, const Output& output);

/// report() of rounds: a line for each question that fails, fails for another reason or is
/// answered again, with --json an object. True: the last whole round found nothing wrong.
bool watch(const Settings& settings, const Options& options, const Output& output);

}  // namespace tool::probe
