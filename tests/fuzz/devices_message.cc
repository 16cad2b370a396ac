// What comes by the socket of patchbay-agent, from plugins and to them.
#include "plugins/devices/protocol/message.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace devices;
  const std::string_view line = fuzz::text_of(data, size);
  fuzz::accepts([&] {
    const Question question = question_in(line);
    fuzz::require(question_in(line_of(question)) == question, "a question is read as written");
    fuzz::require(question.verb != Verb::kClaim || !question.pod.uid.empty(), "a pod has a UID");
  });
  fuzz::accepts([&] {
    const Answer answer = answer_in(line);
    fuzz::require(answer.devices.size() <= kMaxDevices, "the number of devices is limited");
    for (const std::string& id : answer.devices) fuzz::require(is_device_id(id), "an ID is a name");
    if (answer.error) return;
    const Answer again = answer_in(line_of(Verb::kClaim, answer));
    fuzz::require(again.devices == answer.devices, "an answer is read as written");
  });
  return 0;
}
