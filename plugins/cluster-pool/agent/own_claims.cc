#include "plugins/cluster-pool/agent/own_claims.h"

#include <algorithm>

namespace block_agent {

namespace {

// From the start of an agent on, and after a restore: claims of an earlier process, which may
// arrive late. One that appears after it, and was not made here, is the copy's.
constexpr cni::BootTime kTrust = std::chrono::minutes(2);
// For an answer, which an agent that runs gives at once.
constexpr cni::BootTime kAnswer = std::chrono::seconds(2);
// Of a claim that was left over: an agent that knows no questions claims it again.
constexpr unsigned kMaxRemovals = 2;

}  // namespace

void OwnClaims::trust(const std::vector<Object>& own, const blocks::Held& held, Time now) {
  if (!trusts_until_) trusts_until_ = std::max(now, begins_at_) + kTrust;
  is_trusting_ = now < *trusts_until_;
  if (!is_trusting_) return;
  for (const blocks::Block& one : held.blocks) trusted_.insert(one.claim);
  for (const Object& one : own) trusted_.insert(one.claim);
}

void OwnClaims::begin_anew(Time at) {
  trusts_until_.reset();
  begins_at_ = at;
}

bool OwnClaims::is_of_copy(const Object& own) const {
  const auto removed = removals_.find(own.claim);
  if (removed != removals_.end() && removed->second >= kMaxRemovals) return true;
  if (is_question(own)) return false;
  if (made(own.claim)) return false;
  const auto asked = asked_.find(own.cidr);
  if (asked != asked_.end() && own.version > asked->second.version) return true;  // the answer
  return !is_trusting_ && !trusted_.contains(own.claim);
}

OwnClaims::Time OwnClaims::answer_until(const Object& question, Time now) {
  const Asked asked{question.version, now + kAnswer};
  return asked_.try_emplace(question.cidr, asked).first->second.until;
}

OwnClaims::Time OwnClaims::asked(const Object& question, Time now) {
  asked_[question.cidr] = {question.version, now + kAnswer};
  return now + kAnswer;
}

void OwnClaims::removed(const Object& one) {
  ++removals_[one.claim];
  asked_.erase(one.cidr);
}

std::vector<Object> claims_beside(const Self& self, const blocks::Held& held, const View& view) {
  std::vector<Object> out;
  for (const auto& [first, one] : view.blocks(held.network)) {
    const auto is_it = [&ip = first](const blocks::Block& block) { return block.cidr.ip == ip; };
    if (self.made(one) && std::ranges::none_of(held.blocks, is_it)) out.push_back(one);
  }
  return out;
}

}  // namespace block_agent
