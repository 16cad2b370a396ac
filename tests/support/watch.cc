// Sees whether a processor is there.
//
//   watch PROCESSOR
//
// Wakes up often, before all that runs on that processor, until SIGTERM; then says, as one JSON
// object, for how many of these seconds it should have been awake and was not. Says "ready" first.
#include <sched.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>

namespace {

constexpr timespec kNap{.tv_sec = 0, .tv_nsec = 2'000'000};
constexpr double kAwakeAgain = 0.003;  // a nap, and what a kernel takes for the waking

double now() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

bool stands_first_on(std::size_t processor) {
  cpu_set_t processors;
  CPU_ZERO(&processors);
  CPU_SET(processor, &processors);
  const sched_param ahead{.sched_priority = 90};
  return ::sched_setaffinity(0, sizeof(processors), &processors) == 0 &&
         ::sched_setscheduler(0, SCHED_FIFO, &ahead) == 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 || !stands_first_on(std::strtoul(argv[1], nullptr, 10))) {
    std::perror("watch PROCESSOR");
    return 1;
  }
  sigset_t end;
  ::sigemptyset(&end);
  ::sigaddset(&end, SIGTERM);
  ::sigprocmask(SIG_BLOCK, &end, nullptr);
  std::puts("ready");
  std::fflush(stdout);
  const double begin = now();
  double last = begin, away = 0;
  for (bool ended = false; !ended;) {
    ended = ::sigtimedwait(&end, nullptr, &kNap) == SIGTERM;
    const double slept = now() - last;
    if (slept > kAwakeAgain) away += slept - kAwakeAgain;
    last += slept;
  }
  std::printf("{\"seconds\": %.6f, \"away\": %.6f}\n", last - begin, away);
}
