// A file of the results cache. The first line is its name; the attachment that is looked for is
// always the same one.
#include "libcni/runtime/cache_entry.h"

#include <nlohmann/json.hpp>

#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using cni::CachedAttachment;
  using fuzz::require;
  std::string_view text = fuzz::text_of(data, size);
  const std::string name(fuzz::take_until(text, "\n"));
  const cni::File file{.content = std::string(text), .modified = 7, .stamp = "stamp"};
  const cni::AttachmentKey key{"net1", "c1", "eth0"};
  for (const cni::AttachmentKey* const whose :
       {&key, static_cast<const cni::AttachmentKey*>(nullptr)}) {
    CachedAttachment one;
    if (!fuzz::accepts([&] { one = cni::attachment_in(name, file, whose); })) continue;
    require(one.result->is_null() || one.result->is_object(), "a result is an object");
    CachedAttachment again =
        cni::attachment_in(one.key.file_name(), {.content = cni::text_of(one)}, nullptr);
    again.modified = one.modified;
    again.stamp = one.stamp;
    require(again.key == one.key && again.netns == one.netns && again.args == one.args &&
                again.config == one.config && *again.result == *one.result,
            "a written entry is the same entry");
  }
  return 0;
}
