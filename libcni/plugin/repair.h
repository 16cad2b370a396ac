#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libcni/common/error.h"

namespace cni {

/// The form that the objects of an attachment have on the node: that of ADD of this plugin, or that
/// of the reference plugin, as far as they differ.
enum class Form { kOwn, kReference };

/// One run of REPAIR, a verb of these plugins: makes again what ADD made on the node and others
/// removed, part by part. Or of RECLAIM, for an attachment whose pod or interface does not exist:
/// gives the node back what ADD took from it. A part that is as it should be is not touched, so
/// that a run on a healthy node changes nothing, and one that was killed is simply run again. Or of
/// MIGRATE, which gives the objects another form: the new ones are made before the old are removed.
class Repair {
 public:
  /// only_look: what is wrong is found and named, and stays.
  explicit Repair(bool only_look = false, Form form = Form::kOwn)
      : only_look_(only_look), form_(form) {}

  /// Runs check; where it throws an Error, that is a finding, and fix is run.
  /// False where the part is not whole, since it was only to be looked at.
  template <class Check, class Fix>
  bool part(Check&& check, Fix&& fix) {
    try {
      std::forward<Check>(check)();
      return true;
    } catch (const Error& e) {
      found_.push_back(cat(e.what(), e.details().empty() ? "" : "; ", e.details()));
    }
    if (only_look_) return false;
    std::forward<Fix>(fix)();
    return true;
  }

  /// The same for a difference that is known, if there is one.
  template <class Fix>
  bool change(const std::optional<std::string>& difference, Fix&& fix) {
    const auto check = [&] {
      if (difference) throw Error(Code::kInternal, *difference);
    };
    return part(check, std::forward<Fix>(fix));
  }

  /// Adds the differences that a delegate reported.
  void add(const std::vector<std::string>& found) {
    found_.insert(found_.end(), found.begin(), found.end());
  }

  bool only_looks() const { return only_look_; }
  /// MIGRATE: the form that the attachment is to have.
  bool to_reference() const { return form_ == Form::kReference; }

  /// The differences, in the words of CHECK, details included.
  const std::vector<std::string>& found() const { return found_; }

  /// The key of the config that asks for a look only, and the key of the answer to VERSION that
  /// says that a plugin has the verb ("GC": that its GC knows the key of a look). VERSION has it
  /// where kAsk is in the environment: nobody else is told more than the spec says.
  static constexpr const char* kLookKey = "patchbay/onlyLook";
  /// The form for MIGRATE, kToReference or another text.
  static constexpr const char* kFormKey = "patchbay/form";
  static constexpr const char* kToReference = "reference";
  static constexpr const char* kVerbsKey = "patchbay/verbs";
  static constexpr const char* kAsk = "PATCHBAY_VERBS";

 private:
  bool only_look_;
  Form form_;
  std::vector<std::string> found_;
};

}  // namespace cni
