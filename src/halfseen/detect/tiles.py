"""A product of small matrices whose sums stay in registers, for kernels to use between their loops.

BLAS is called for whole matrices, which then pass through the caches once more, and where it does
not know a processor, it takes half of the vectors' width. numba turns its own loops into vectors,
but keeps no sums of several rows in registers. So this one loop is written as LLVM's instructions.

numba keeps compiled kernels by their own file: after a change here, touch those that use it.
"""

from typing import Any

from llvmlite import binding, ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic

from halfseen.detect.view import LANES

# Rows of weights that are worked on together.
ROWS = 4
# Vectors side by side: eight sums hide the time that one takes, where there are registers for them.
ABREAST = 2 if binding.get_host_cpu_features().get("avx512f") else 1


def _tile(vectors: int) -> Any:
    def multiply(
        typing: Any, weights: Any, features: Any, less: Any, out: Any, channels: Any, places: Any
    ) -> Any:
        """Write ROWS rows of `vectors` LANES responses, and those of the mirror image.

        All arrays are flat.

        channels  (even, odd, step): how many there are, and from one to the next in `features`
        places    where to begin in weights, features and less; in out, and from row to row there;
                  and the same in out of the mirror image, whose step of 0 means that there is none
        For r = 0, 1, ... with w and f the weights and features of the channels,
            out[...]    = w_even . f_even - less + w_odd . f_odd
            mirror[...] = w_even . f_even - less - w_odd . f_odd
        """

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            data = [
                context.make_array(kind)(context, builder, value).data
                for kind, value in zip(signature.args[:4], arguments[:4], strict=True)
            ]
            numbers = [builder.extract_value(arguments[4], k) for k in range(3)]
            at = [builder.extract_value(arguments[5], k) for k in range(7)]
            _Tile(builder, vectors, data).write(numbers, at)
            return context.get_dummy_value()

        return types.void(weights, features, less, out, channels, places), generate

    return intrinsic(multiply)


class _Tile:
    """Writes the instructions of one tile: see `multiply_tile`."""

    def __init__(self, builder: Any, vectors: int, data: list[Any]) -> None:
        self.builder, self.vectors = builder, vectors
        self.weights, self.features, self.less, self.out = data
        self.single = ir.FloatType()
        self.vector = ir.VectorType(self.single, LANES)

    def write(self, numbers: list[Any], at: list[Any]) -> None:
        b = self.builder
        even, odd, step = numbers
        weight, feature, less, out, across, mirror, back = at
        first = self.dots(weight, feature, even, step)
        weight = b.add(weight, b.mul(even, even.type(ROWS)))
        second = self.dots(weight, b.add(feature, b.mul(even, step)), odd, step)
        offsets = [self.load(self.less, less, v) for v in range(self.vectors)]
        first = [[b.fsub(row[v], offsets[v]) for v in range(self.vectors)] for row in first]
        for one, two in zip(first, second, strict=True):
            for v in range(self.vectors):
                self.store(b.fadd(one[v], two[v]), out, v)
            out = b.add(out, across)
        with b.if_then(b.icmp_signed("!=", back, back.type(0))):
            for one, two in zip(first, second, strict=True):
                for v in range(self.vectors):
                    self.store(b.fsub(one[v], two[v]), mirror, v)
                mirror = b.add(mirror, back)

    def dots(self, weight: Any, feature: Any, count: Any, step: Any) -> list[list[Any]]:
        """ROWS x vectors sums over `count` channels: the loop whose sums stay in registers."""
        b, kind = self.builder, count.type
        before, body, after = b.block, b.append_basic_block(), b.append_basic_block()
        b.cbranch(b.icmp_signed(">", count, kind(0)), body, after)
        b.position_at_end(body)
        starts = [(kind(0), kind(1)), (weight, kind(ROWS)), (feature, step)]
        counters = [b.phi(kind) for _ in starts]
        sums = [[b.phi(self.vector) for _ in range(self.vectors)] for _ in range(ROWS)]
        values = [self.load(self.features, counters[2], v) for v in range(self.vectors)]
        more = [self.add(sums[r], self.spread(counters[1], r), values) for r in range(ROWS)]
        nexts = [b.add(c, s[1]) for c, s in zip(counters, starts, strict=True)]
        b.cbranch(b.icmp_signed("<", nexts[0], count), body, after)
        for counter, (start, _), following in zip(counters, starts, nexts, strict=True):
            counter.add_incoming(start, before)
            counter.add_incoming(following, body)
        b.position_at_end(after)
        zero = self.vector([0.0] * LANES)
        ends = [[b.phi(self.vector) for _ in range(self.vectors)] for _ in range(ROWS)]
        for r in range(ROWS):
            for v in range(self.vectors):
                for phi in (sums[r][v], ends[r][v]):
                    phi.add_incoming(zero, before)
                    phi.add_incoming(more[r][v], body)
        return ends

    def add(self, sums: list[Any], weight: Any, values: list[Any]) -> list[Any]:
        """The sums with a product more each."""
        b, flags = self.builder, ("contract",)
        return [
            b.fadd(b.fmul(weight, value, flags=flags), total, flags=flags)
            for value, total in zip(values, sums, strict=True)
        ]

    def spread(self, place: Any, row: int) -> Any:
        """A vector of one weight."""
        b, none = self.builder, self.vector(ir.Undefined)
        weight = b.load(b.gep(self.weights, [b.add(place, place.type(row))]))
        one = b.insert_element(none, weight, ir.IntType(32)(0))
        return b.shuffle_vector(one, none, ir.VectorType(ir.IntType(32), LANES)([0] * LANES))

    def place(self, array: Any, start: Any, number: int) -> Any:
        b = self.builder
        element = b.gep(array, [b.add(start, start.type(LANES * number))])
        return b.bitcast(element, self.vector.as_pointer())

    def load(self, array: Any, start: Any, number: int) -> Any:
        value = self.builder.load(self.place(array, start, number))
        value.align = 4
        return value

    def store(self, value: Any, start: Any, number: int) -> None:
        self.builder.store(value, self.place(self.out, start, number)).align = 4


multiply_tile: Any = _tile(ABREAST)
multiply_narrow: Any = _tile(1)
