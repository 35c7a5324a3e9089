"""find_repeat: finds a stretch that occurs several times in a sequence, such as the layers of a network.

    a b c d b c d b c d e   ->   (b c d) at 1, 4, 7

A stretch is a contiguous subsequence. If it occurs n times, its worth is (n - 1) * length: the number of letters saved
by writing it once. A layer that occurs three times is therefore worth more than one and a half layers that occur twice.
A suffix automaton finds all stretches that occur several times in linear time.

Source: Blumer, Blumer, Haussler, Ehrenfeucht, Chen, Seiferas, "The smallest automaton recognizing the subwords of a
text" (1985).
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field

CANDIDATES = 64  # the search compares this number of stretches, those with the highest possible worth


@dataclass
class _State:
    """A state of the suffix automaton: the set of stretches whose occurrences end at certain positions.

    All stretches of a state are suffixes of the longest, which has `length` letters.
    """

    length: int
    link: int
    end: int  # one of the positions where occurrences end
    next: dict[int, int] = field(default_factory=dict)
    times: int = 0  # the number of occurrences


@dataclass(frozen=True)
class RepeatedStretch:
    """A sequence of boxes that occurs several times.

    `length` is its number of boxes. `starts` contains the positions where the occurrences begin. They do not overlap.
    """

    length: int
    starts: tuple[int, ...]

    @property
    def worth(self) -> int:
        return (len(self.starts) - 1) * self.length


def find_repeat(
    letters: Sequence[Hashable], shortest: int, cut: Callable[[int, int], int] = lambda start, end: 0
) -> RepeatedStretch | None:
    """Returns the stretch of at least `shortest` letters with the highest worth.

    Returns None if no stretch occurs twice.

    In a row of equal layers, a stretch may begin at any position of a layer. Of these stretches, the function returns
    the one for which the sum of `cut(start, end)` over its occurrences is least.
    """
    numbers = _numbered(letters)
    states = _automaton(numbers)
    promising = sorted(
        (s for s in states[1:] if s.times > 1 and s.length >= shortest),
        key=lambda s: (min(s.times, len(numbers) // s.length) - 1) * s.length,
        reverse=True,
    )
    best: RepeatedStretch | None = None
    for state in promising[:CANDIDATES]:
        for length in _lengths(state, states[state.link].length, shortest):
            starts = _occurrences(numbers, state.end - length + 1, length)
            if len(starts.starts) > 1 and (best is None or starts.worth > best.worth):
                best = starts
    return _shifted(numbers, best, cut) if best is not None else None


def _numbered(letters: Sequence[Hashable]) -> list[int]:
    known: dict[Hashable, int] = {}
    return [known.setdefault(letter, len(known)) for letter in letters]


def _automaton(text: Sequence[int]) -> list[_State]:
    """Returns the suffix automaton of a text.

    Each state has the number of occurrences, which may overlap, of its stretches.
    """
    states = [_State(0, -1, -1)]
    last = 0
    for end, letter in enumerate(text):
        new = len(states)
        states.append(_State(states[last].length + 1, 0, end, times=1))
        at = last
        while at != -1 and letter not in states[at].next:
            states[at].next[letter] = new
            at = states[at].link
        if at != -1:
            before = states[at].next[letter]
            if states[at].length + 1 == states[before].length:
                states[new].link = before
            else:
                copy = len(states)
                old = states[before]
                states.append(_State(states[at].length + 1, old.link, old.end, dict(old.next)))
                while at != -1 and states[at].next.get(letter) == before:
                    states[at].next[letter] = copy
                    at = states[at].link
                old.link = states[new].link = copy
        last = new
    for state in sorted(states[1:], key=lambda s: s.length, reverse=True):
        states[state.link].times += state.times
    return states


def _lengths(state: _State, shorter: int, shortest: int) -> list[int]:
    """Returns the greatest and the least length of a state's stretches with at least `shortest` letters.

    `shorter` is the length of the state's suffix link. All stretches of the state are longer.
    """
    return [n for n in {state.length, max(shorter + 1, shortest)} if shortest <= n <= state.length]


def _occurrences(text: Sequence[int], start: int, length: int) -> RepeatedStretch:
    """Returns the occurrences of the stretch at `start`, chosen greedily from the left so that they do not overlap."""
    stretch = list(text[start : start + length])
    starts, at = [], 0
    first = stretch[0]
    while at + length <= len(text):
        if text[at] == first and list(text[at : at + length]) == stretch:
            starts.append(at)
            at += length
        else:
            at += 1
    return RepeatedStretch(length, tuple(starts))


def _shifted(text: Sequence[int], repeat: RepeatedStretch, cut: Callable[[int, int], int]) -> RepeatedStretch:
    """Shifts all occurrences by one distance, so that the sum of `cut(start, end)` over them is least.

    A distance is allowed if the shifted occurrences are equal.
    """
    best, least = repeat, sum(cut(s, s + repeat.length) for s in repeat.starts)
    for direction in (-1, 1):
        for distance in range(1, repeat.length):
            starts = tuple(s + direction * distance for s in repeat.starts)
            edge = [s if direction < 0 else s + repeat.length - 1 for s in starts]
            if edge[0] < 0 or edge[-1] >= len(text) or len({text[i] for i in edge}) > 1:
                break
            here = sum(cut(s, s + repeat.length) for s in starts)
            if here < least:
                best, least = RepeatedStretch(repeat.length, starts), here
    return best
