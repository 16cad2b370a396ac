"""Daemons that plugins need, for one stage after another: the next stage's replace those of the last."""

import atexit

_playing = []


def playing():
    """The PIDs of those that run."""
    return {pid for one in _playing for pid in one.pids}


def stop():
    """Whoever forks ends without atexit, and calls it before."""
    while _playing:
        _playing.pop().stop()


def play(*starts):
    """Calls each function, which returns what has started: something with pids and stop()."""
    stop()
    for start in starts:
        _playing.append(start())


atexit.register(stop)
