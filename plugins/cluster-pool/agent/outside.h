#pragma once

#include <mutex>

#include "plugins/cluster-pool/agent/engine.h"

namespace block_agent {

/// Leaves a mutex that this thread has, as long as it lives: others go on during a call that may
/// take long. What was read under the mutex before may be another after it.
class Outside {
 public:
  explicit Outside(std::mutex& mutex) : mutex_(mutex) { mutex_.unlock(); }
  ~Outside() { mutex_.lock(); }
  Outside(const Outside&) = delete;
  Outside& operator=(const Outside&) = delete;

 private:
  std::mutex& mutex_;
};

/// The engine, each call of which is outside of the mutex.
inline Engine outside_of(std::mutex& mutex, const Engine& engine) {
  Engine out = engine;
  out.create = [&mutex, call = engine.create](Object& object) {
    const Outside outside(mutex);
    return call(object);
  };
  out.replace = [&mutex, call = engine.replace](const Object& from, Object& to) {
    const Outside outside(mutex);
    return call(from, to);
  };
  out.remove = [&mutex, call = engine.remove](const Object& object) {
    const Outside outside(mutex);
    return call(object);
  };
  out.list = [&mutex, call = engine.list](Kind kind) {
    const Outside outside(mutex);
    return call(kind);
  };
  if (!engine.has_node) return out;
  out.has_node = [&mutex, call = engine.has_node](const std::string& node) {
    const Outside outside(mutex);
    return call(node);
  };
  return out;
}

}  // namespace block_agent
