// The functions of libeu that libelf calls: search trees of chunks of a file. elfutils 0.192 refers
// to them from libelf.a, and Debian 13 ships no libeu.a. An archive of libelf that has them comes
// first in the link and is used instead. The tree's lock is left out because a plugin has one
// thread.
#include <search.h>

extern "C" {

/// The beginning of elfutils' search_tree, whose other member is the lock.
struct EuSearchTree {
  void* root;
};

using EuCompare = int (*)(const void*, const void*);

void eu_search_tree_init(EuSearchTree* tree);
void eu_search_tree_fini(EuSearchTree* tree, void (*free_node)(void*));
void* eu_tsearch(const void* key, EuSearchTree* tree, EuCompare compare);
void* eu_tdelete(const void* key, EuSearchTree* tree, EuCompare compare);

void eu_search_tree_init(EuSearchTree* tree) { tree->root = nullptr; }

void eu_search_tree_fini(EuSearchTree* tree, void (*free_node)(void*)) {
  ::tdestroy(tree->root, free_node);
}

void* eu_tsearch(const void* key, EuSearchTree* tree, EuCompare compare) {
  return ::tsearch(key, &tree->root, compare);
}

void* eu_tdelete(const void* key, EuSearchTree* tree, EuCompare compare) {
  return ::tdelete(key, &tree->root, compare);
}

}  // extern "C"
