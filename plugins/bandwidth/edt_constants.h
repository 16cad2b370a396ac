#pragma once

// Shared by edt.cc and edt.bpf.c, which is C.

/// The program's constants. Times are in nanoseconds.
struct EdtConstants {
  unsigned long long rate;     ///< bytes/s; not 0
  unsigned long long credit;   ///< what an idle pod saves up: the time that its burst takes; < 2^62
  unsigned long long horizon;  ///< a packet that would begin to leave later is dropped,
  unsigned long long latest;   ///< and so is one that would have left later
  /// Not for the program but for who takes it away: the link's gso_max_size before.
  unsigned long long packet_size_before;
};

/// The one element of the map "departures". The kernel owns the first member: the map's lock.
struct EdtDepartures {
  unsigned int lock;
  unsigned int unused;
  unsigned long long next;       ///< CLOCK_MONOTONIC + 2^62: what was accepted has left by then
  unsigned long long remainder;  ///< of the division that next came from: bytes * ns % rate
};
