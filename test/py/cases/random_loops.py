"""Random programs with loops and branches, which share, update and swap arrays of one type."""

import random

ROWS, COLUMNS = 6, 3
ARRAY, ROW, FLAT = (f"tensor<{sizes}xi32>" for sizes in ("6x3", "1x3", "18"))
INDEX = "tensor<i32>"


class RandomLoops:
    """Writes a random function of two arrays and a number. The function returns every array that it computes."""

    def __init__(self, seed: int) -> None:
        self._random, self._lines, self._count = random.Random(seed), list[str](), 0
        self._emit(f"%zero = stablehlo.constant dense<0> : {INDEX}")
        self._emit(f"%one = stablehlo.constant dense<1> : {INDEX}")
        self._emit(f"%zeros = stablehlo.constant dense<0> : {ARRAY}")
        arrays = self._block(["%p", "%q", "%zeros"], "%n", 0, self._random.randint(3, 6))[3:]
        types = ", ".join([ARRAY] * len(arrays))
        body = "\n".join(self._lines)
        self.text = (
            f"func.func @main(%p: {ARRAY}, %q: {ARRAY}, %n: {INDEX}) -> ({types}) {{\n{body}\n"
            f"return {', '.join(arrays)} : {types}\n}}"
        )

    def _emit(self, line: str) -> None:
        self._lines.append(line)

    def _name(self) -> str:
        self._count += 1
        return f"%v{self._count}"

    def _block(self, arrays: list[str], at: str, depth: int, count: int) -> list[str]:
        """Adds `count` random ops on the arrays, and returns the arrays followed by their results.

        `at` is the index that updates and views use.
        """
        for _ in range(count):
            ways = [self._update, self._update, self._add, self._reverse, self._view, self._select]
            ways += [self._loop, self._loop, self._loop] if depth < 2 else []
            ways += [self._branch] if depth == 1 else []
            arrays = arrays + self._random.choice(ways)(arrays, at, depth)
        return arrays

    def _update(self, arrays: list[str], at: str, depth: int) -> list[str]:
        x, y = self._random.choices(arrays[-4:], k=2)
        return [self._updated(x, y, at)]

    def _updated(self, x: str, y: str, at: str) -> str:
        """Adds ops that replace row `at` + 1 of x by (row 2 of y) + `at`."""
        row, ones, more, new, i = (self._name() for _ in range(5))
        self._emit(f"{row} = stablehlo.slice {y} [2:3, 0:3] : ({ARRAY}) -> {ROW}")
        self._emit(f"{ones} = stablehlo.broadcast_in_dim {at}, dims = [] : ({INDEX}) -> {ROW}")
        self._emit(f"{more} = stablehlo.add {row}, {ones} : {ROW}")
        self._emit(f"{i} = stablehlo.add {at}, %one : {INDEX}")
        self._emit(
            f"{new} = stablehlo.dynamic_update_slice {x}, {more}, {i}, %zero : "
            f"({ARRAY}, {ROW}, {INDEX}, {INDEX}) -> {ARRAY}"
        )
        return new

    def _add(self, arrays: list[str], at: str, depth: int) -> list[str]:
        x, y = self._random.choices(arrays, k=2)
        return self._one(f"add {x}, {y} : {ARRAY}")

    def _reverse(self, arrays: list[str], at: str, depth: int) -> list[str]:
        return self._one(f"reverse {self._random.choice(arrays)}, dims = [0] : {ARRAY}")

    def _select(self, arrays: list[str], at: str, depth: int) -> list[str]:
        x, y = self._random.choices(arrays, k=2)
        return self._one(f"select {self._predicate(at)}, {x}, {y} : tensor<i1>, {ARRAY}")

    def _view(self, arrays: list[str], at: str, depth: int) -> list[str]:
        flat = self._one(f"reshape {self._random.choice(arrays)} : ({ARRAY}) -> {FLAT}")
        return self._one(f"reshape {flat[0]} : ({FLAT}) -> {ARRAY}")

    def _one(self, op: str) -> list[str]:
        name = self._name()
        self._emit(f"{name} = stablehlo.{op}")
        return [name]

    def _predicate(self, at: str) -> str:
        limit = self._one(f"constant dense<{self._random.randint(0, 3)}> : {INDEX}")[0]
        return self._one(f"compare LT, {at}, {limit} : ({INDEX}, {INDEX}) -> tensor<i1>")[0]

    def _loop(self, arrays: list[str], at: str, depth: int) -> list[str]:
        """Adds a loop and returns its results.

        The first carried values are only updated. The others may also be read and swapped.
        """
        alone, others = self._random.randint(0, 2), self._random.randint(0, 2)
        initial = self._random.choices(arrays, k=alone + others)
        result, i, *carries = (self._name() for _ in range(2 + len(initial)))
        limit = self._random.choice(
            ["%n", self._one(f"constant dense<{self._random.randint(0, 4)}> : {INDEX}")[0]]
        )
        pairs = ", ".join(f"{x} = {y}" for x, y in zip([i, *carries], ["%zero", *initial], strict=True))
        types = ", ".join([INDEX, *[ARRAY] * len(initial)])
        self._emit(f"{result}:{1 + len(initial)} = stablehlo.while({pairs}) : {types} cond {{")
        go = self._one(f"compare LT, {i}, {limit} : ({INDEX}, {INDEX}) -> tensor<i1>")[0]
        self._emit(f"stablehlo.return {go} : tensor<i1>\n}} do {{")
        captured = self._random.sample(arrays, min(len(arrays), self._random.randint(0, 2))) or ["%q"]
        inner = self._block([*captured, *carries[alone:]], i, depth + 1, self._random.randint(0, 3))
        new = carries[:alone]
        for _ in range(self._random.randint(1, 2)):
            new = [self._updated(x, self._random.choice(inner), i) for x in new]
        new += self._random.choices(inner, k=others)
        step = self._one(f"add {i}, %one : {INDEX}")[0]
        self._emit(f"stablehlo.return {', '.join([step, *new])} : {types}\n}}")
        return [f"{result}#{k + 1}" for k in range(len(initial))]

    def _branch(self, arrays: list[str], at: str, depth: int) -> list[str]:
        name, predicate = self._name(), self._predicate(at)
        self._emit(f'{name} = "stablehlo.if"({predicate}) ({{')
        for end in ("}, {", f"}}) : (tensor<i1>) -> {ARRAY}"):
            inner = self._block(arrays, at, depth + 1, self._random.randint(0, 2))
            self._emit(f'"stablehlo.return"({self._random.choice(inner)}) : ({ARRAY}) -> ()\n{end}')
        return [name]
