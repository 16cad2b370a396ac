#pragma once

#include "plugins/cluster-pool/agent/conf.h"
#include "plugins/cluster-pool/agent/engine.h"

namespace block_agent {

/// etcd v3. A claim is a transaction that puts a key if it does not exist; objects are the keys
/// PREFIX/key_of(). It knows of no nodes.
Engine etcd_engine(const EtcdConf& conf);

/// The object of a key and its value; nullopt: the key is none of this prefix. A value that is not
/// readable gives an object without a node.
std::optional<Object> object_of_key(std::string_view prefix, std::string_view key,
                                    std::string_view value);

}  // namespace block_agent
