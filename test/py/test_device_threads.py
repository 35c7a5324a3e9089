"""Several threads use a device array while one of them donates it.

Each thread must read the array before it is overwritten, or get an error.
"""

import sys
from collections.abc import Callable, Iterator
from threading import Barrier, Thread
from typing import Any

import numpy as np
import pytest

import tiduc.runtime
from tiduc.backends.iree.compile import compile_module
from tiduc.runtime import InputError
from tiduc.runtime.run import Module
from tiduc.runtime.uses import Uses

SQUARE = "tensor<256x256xf32>"
MODULE = f"""
func.func @add(%x: {SQUARE} {{iree.abi.output = 0 : index}}, %y: {SQUARE}) -> {SQUARE} {{
  %0 = stablehlo.add %x, %y : {SQUARE}
  return %0 : {SQUARE}
}}
func.func @square(%x: {SQUARE}) -> {SQUARE} {{
  %0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : ({SQUARE}, {SQUARE}) -> {SQUARE}
  return %0 : {SQUARE}
}}
"""
ZEROS, ONES = np.zeros((256, 256), np.float32), np.ones((256, 256), np.float32)


@pytest.fixture(scope="module")
def module() -> Module:
    return tiduc.runtime.load(compile_module(MODULE))


@pytest.fixture(autouse=True)
def frequent_switches() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def at_once(*functions: Callable[..., Any], of: tuple[Any, ...]) -> list[Any]:
    """Calls each function on the arrays `of` in its own thread, and returns the results.

    The result is None if a call raises InputError because an array was overwritten.
    """
    barrier = Barrier(len(functions))
    results: list[Any] = [None] * len(functions)

    def work(i: int) -> None:
        barrier.wait()
        try:
            results[i] = functions[i](*of)
        except InputError as error:
            assert "was overwritten by a call" in str(error)

    threads = [Thread(target=work, args=(i,)) for i in range(len(functions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def test_one_of_several_calls_gets_a_donated_array(module: Module) -> None:
    def added(x: Any) -> Any:
        return module["add"].keep(x, ONES)[0].numpy()[0, 0]

    for _ in range(150):
        x = module.put(ONES)
        results = at_once(added, added, added, added, of=(x,))
        assert sorted(r for r in results if r is not None) == [2]
        assert x.is_donated


def test_an_array_is_overwritten_after_all_calls_that_read_it(module: Module) -> None:
    def squared(x: Any) -> Any:
        return module["square"](x)[0]

    def copied(x: Any) -> Any:
        return x.numpy()

    def added(x: Any) -> Any:
        return module["add"].keep(x, ONES)[0].numpy()

    for _ in range(60):
        square, copy, total = at_once(squared, copied, added, of=(module.put(ONES),))
        assert square is None or (square == 256).all()
        assert copy is None or (copy == 1).all()
        assert (total == 2).all()


def test_a_call_waits_while_others_read_what_it_overwrites(module: Module) -> None:
    x, y = module.put(ONES), module.put(ZEROS)
    done: list[float] = []
    with Uses([x]) as uses:
        assert len(uses.views) == 1
        thread = Thread(target=lambda: done.append(module["add"].keep(x, y)[0].numpy()[0, 0]))
        thread.start()
        thread.join(0.2)
        assert not done
        assert not x.is_donated
    thread.join()
    assert done == [1]
    assert x.is_donated
    assert not y.is_donated


def test_calls_that_overwrite_what_others_read_never_wait_for_each_other(module: Module) -> None:
    def first(x: Any, y: Any) -> Any:
        return module["add"].keep(x, y)[0].numpy()[0, 0]

    def second(x: Any, y: Any) -> Any:
        return module["add"].keep(y, x)[0].numpy()[0, 0]

    for _ in range(60):
        results = at_once(first, second, of=(module.put(ONES), module.put(ONES)))
        assert sorted(r for r in results if r is not None) == [2]


def test_an_array_stays_where_a_call_is_refused(module: Module) -> None:
    x = module.put(ONES)
    with pytest.raises(InputError, match="argument 0"):
        module["add"].keep(x, x)
    with pytest.raises(InputError, match="argument 1"):
        module["add"].keep(x, ZEROS[0])
    with pytest.raises(InputError, match="overwritten"):
        module["add"].keep(x, _given_away(module))
    assert module["add"](x, ONES)[0][0, 0] == 2


def _given_away(module: Module) -> Any:
    y = module.put(ONES)
    module["add"](y, ONES)
    return y
