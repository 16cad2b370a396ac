// Entries of the ledger of devices, and holders.
#include "plugins/state/ledger_entry.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace devices;
  fuzz::accepts([&] {  // one of a later format is an error
    const auto entry = Entry::from(std::string(fuzz::text_of(data, size)));
    if (!entry) return;
    fuzz::require(is_device_id(entry->id), "the ID is the name of a file");
    fuzz::require(Entry::from(entry->text()) == entry, "an entry is read as it was written");
  });
  fuzz::accepts([&] {
    const auto holder = Holder::from(std::string(fuzz::text_of(data, size)));
    if (!holder) return;
    fuzz::require(Holder::from(holder->text()) == holder, "a holder is read as it was written");
  });
  return 0;
}
