"""Convolutions with layouts, strides, dilations, paddings, reversals and groups, in f64 and complex128."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from harness.check_rule import check_rule

from tiduc.loading import load


@dataclass(frozen=True)
class Case:
    """A convolution: its batch size, input features, output features per group, spatial sizes and attributes."""

    batch: int = 1
    inputs: int = 1
    outputs: int = 1
    size: tuple[int, ...] = (5,)
    kernel: tuple[int, ...] = (3,)
    stride: tuple[int, ...] = (1,)
    pad: tuple[tuple[int, int], ...] = ((0, 0),)
    lhs_dilate: tuple[int, ...] = (1,)
    rhs_dilate: tuple[int, ...] = (1,)
    reverse: tuple[bool, ...] = (False,)
    features: int = 1
    batches: int = 1
    layout: tuple[str, str, str] = ("b0f", "0io", "b0f")

    @property
    def places(self) -> list[int]:
        every = zip(
            self.size, self.kernel, self.stride, self.pad, self.lhs_dilate, self.rhs_dilate, strict=True
        )
        places_ = []
        for n, k, s, (low, high), a, r in every:
            room = ((n - 1) * a + 1 if n else 0) + low + high - ((k - 1) * r + 1)
            places_.append(max(room // s + 1, 0))
        return places_

    def shapes(self) -> list[list[int]]:
        digits = [str(d) for d in range(len(self.size))]
        x, w, y = (dict(zip(digits, sizes, strict=True)) for sizes in (self.size, self.kernel, self.places))
        outputs = self.outputs * self.features * self.batches
        x |= {"b": self.batch * self.batches, "f": self.inputs * self.features}
        w |= {"i": self.inputs, "o": outputs}
        y |= {"b": self.batch, "f": outputs}
        return [[of[d] for d in order] for of, order in zip((x, w, y), self.layout, strict=True)]

    def text(self, element: str = "f64", result: str | None = None) -> str:
        elements = [element, element, result or element]
        x, w, y = (
            f"tensor<{''.join(f'{n}x' for n in s)}{e}>" for s, e in zip(self.shapes(), elements, strict=True)
        )
        lhs, rhs, out = ("[" + ", ".join(order) + "]" for order in self.layout)
        window = (
            f"stride = {list(self.stride)}, pad = {[list(p) for p in self.pad]}, "
            f"lhs_dilate = {list(self.lhs_dilate)}, rhs_dilate = {list(self.rhs_dilate)}, "
            f"reverse = {str(list(self.reverse)).lower()}"
        )
        return f"""
        func.func @main(%x: {x}, %w: {w}) -> {y} {{
          %0 = stablehlo.convolution(%x, %w) dim_numbers = {lhs}x{rhs}->{out}, window = {{{window}}}
            {{batch_group_count = {self.batches} : i64, feature_group_count = {self.features} : i64,
              precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision HIGHEST>]}}
            : ({x}, {w}) -> {y}
          return %0 : {y}
        }}"""

    def check(self, complex_: bool = False, **options: object) -> None:
        rng = np.random.default_rng(0)
        x, w, _ = (rng.standard_normal(s) for s in self.shapes())
        if complex_:
            x, w = x + 1j * rng.standard_normal(x.shape), w + 1j * rng.standard_normal(w.shape)
        check_rule(self.text("complex<f64>" if complex_ else "f64"), x, w, **options)  # type: ignore[arg-type]


CASES = {
    "plain": Case(batch=2, inputs=2, outputs=3),
    "stride": Case(size=(7,), stride=(2,)),
    "stride_leaves_remainder": Case(size=(8,), kernel=(2,), stride=(3,)),
    "stride_over_kernel": Case(size=(9,), kernel=(2,), stride=(4,)),
    "pad": Case(pad=((1, 3),)),
    "pad_negative": Case(size=(7,), pad=((-1, -2),)),
    "pad_negative_and_positive": Case(size=(6,), pad=((-2, 3),), stride=(2,)),
    "pad_only": Case(size=(2,), kernel=(2,), pad=((3, 3),)),
    "lhs_dilation": Case(size=(3,), lhs_dilate=(3,), pad=((1, 0),)),
    "rhs_dilation": Case(size=(8,), rhs_dilate=(3,)),
    "all": Case(
        2, 2, 2, (5,), (3,), (2,), ((2, -1),), (3,), (2,), (True,), features=2, layout=("b0f", "0io", "b0f")
    ),
    "reverse": Case(reverse=(True,)),
    "feature_groups": Case(batch=2, inputs=2, outputs=3, features=2),
    "depthwise": Case(inputs=1, outputs=1, features=3),
    "batch_groups": Case(batch=2, inputs=2, outputs=3, batches=2),
    "layout": Case(batch=2, inputs=2, outputs=3, layout=("0fb", "o0i", "f0b")),
    "feature_groups_layout": Case(2, 2, 3, features=2, layout=("fb0", "io0", "0bf")),
    "batch_groups_layout": Case(2, 2, 3, batches=2, layout=("0fb", "oi0", "fb0")),
    "no_spatial": Case(2, 2, 3, (), (), (), (), (), (), (), layout=("bf", "io", "fb")),
    "empty_result": Case(size=(2,), kernel=(3,)),
    "empty_batch": Case(batch=0),
    "empty_kernel": Case(outputs=0),
    "empty_input_padded": Case(size=(0,), pad=((2, 2),)),
    "unit": Case(size=(1,), kernel=(1,)),
    "two": Case(
        2, 1, 2, (4, 5), (2, 3), (2, 1), ((1, 0), (0, 2)), (1, 2), (2, 1), (False, True),
        layout=("bf01", "oi01", "bf01"),
    ),
    "three": Case(
        1, 1, 2, (2, 3, 2), (1, 2, 2), (1,) * 3, ((0, 0),) * 3, (1,) * 3, (1,) * 3, (False,) * 3,
        layout=("b012f", "012io", "b012f"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_real(case: Case) -> None:
    case.check()


@pytest.mark.parametrize("name", ["plain", "feature_groups", "batch_groups"])
def test_complex(name: str) -> None:
    replace(CASES[name], batch=1, size=(3,), kernel=(2,)).check(complex_=True)


@pytest.mark.sampled(16)
@pytest.mark.parametrize("seed", range(100))
def test_random(seed: int) -> None:
    rng = np.random.default_rng(seed)

    def below(high: int, low: int = 1) -> int:
        return int(rng.integers(low, high))

    dims = below(3)
    digits = "".join(map(str, range(dims)))
    layout = tuple("".join(rng.permutation(list(s + digits))) for s in ("bf", "io", "bf"))
    groups = [(1, 1), (2, 1), (1, 2), (1, 1)][below(4, 0)]
    case = Case(
        below(3), below(3), below(3),
        tuple(below(6) for _ in range(dims)),
        tuple(below(4) for _ in range(dims)),
        tuple(below(4) for _ in range(dims)),
        tuple((below(4, -1), below(4, -1)) for _ in range(dims)),
        tuple(below(3) for _ in range(dims)),
        tuple(below(4) for _ in range(dims)),
        tuple(bool(below(2, 0)) for _ in range(dims)),
        *groups,
        layout,  # type: ignore[arg-type]
    )  # fmt: skip
    if all(n + low + high > 0 for n, (low, high) in zip(case.size, case.pad, strict=True)):
        case.check()


def test_no_features() -> None:
    """The VJP of a convolution without input features contains only the primal convolution."""
    case = Case(inputs=0)
    assert str(load(case.text()).vjp()).count("stablehlo.convolution") == 1


def test_wider_result() -> None:
    """If the result's type is wider than the operands', cotangents are computed in the result's type and then
    converted.
    """
    case = Case(batch=2, inputs=2, outputs=2)
    text = str(load(case.text("bf16", "f32")).vjp())
    assert "(tensor<2x3x2xf32>, tensor<3x2x2xf32>) -> tensor<2x5x2xf32>" in text
    assert "(tensor<2x5x2xf32>, tensor<2x3x2xf32>) -> tensor<3x2x2xf32>" in text


def test_precision_is_carried() -> None:
    assert (
        str(load(CASES["plain"].text()).vjp()).count(
            "[#stablehlo<precision DEFAULT>, #stablehlo<precision HIGHEST>]"
        )
        == 3
    )
