"""Sums over examples on the workers of a Dask cluster, with the bits of threads."""

from __future__ import annotations

import asyncio
import io
import pickle
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any
from uuid import uuid4

import numpy as np

from maxendnet import _kernels
from maxendnet.backends.linear_algebra import one_blas_thread
from maxendnet.backends.partial import Alone, Partial, Span, join
from maxendnet.backends.threads import MOST_SHARDS, Cut, Range, Threads, taken
from maxendnet.utils.checks import require_count

SMALL = 1 << 16
"""Bytes that all cells have in common up to which every one has its own copy. More are sent once to a worker."""
IN_ALL = 1 << 24
"""Bytes of weights, or of gradients, up to which the scheduler passes on those of all tasks of a sum. More weights are
sent to one worker, and from there on; more gradients are added on the workers first. On the way from worker to worker
bytes wait for a worker that is busy with its own share of the sum, seconds at times, which they never do here."""
AT_ONCE = 4
"""Sums that are joined by one task."""
SLOTS_EVERY = 5.0
"""Seconds after which workers are counted again: one that has joined late gets its share."""
CONNECT = 10.0
"""Seconds to wait for a scheduler at an address: one that is being started takes a few."""
ATTEMPTS = 5
"""Times that a sum is asked for, at most, where workers die."""


class BackendError(RuntimeError):
    """The workers that compute sums cannot be reached, or do not answer."""

    __module__ = "maxendnet.backends"  # where users find it


class Dask:
    """Computes sums over examples on the workers of a Dask cluster.

    Examples are cut as `Threads` cuts them, sent to workers once, and stay there. A sum sends the weights once to
    every thread of a worker and adds gradients along the tree of `Threads`, so that a fit has the bits of one on
    threads. Of examples in a folder (`Examples.open`) only the names of the files are sent: workers need the same
    folder at the same path.

    Solvers that need only sums run on it as they are: `LBFGS`, `OWLQN`, `Smoothing`, `Subgradient`, `CuttingPlane`,
    `Extragradient`, and those that solve such problems within. `BlockFrankWolfe` works in parts, one for each
    thread of the workers. Others with kernels of their own go through examples in this process, and are refused.

    A worker that dies takes its shards with it: they are sent to another one, and the fit goes on with the same bits.
    Where nothing at all comes back for ``timeout`` seconds, or the scheduler is lost, there is a `BackendError`; the
    last checkpoint (``fit(..., checkpoint=path)``) is there to go on from.

    Parameters
    ----------
    client : distributed.Client or str
        A client, or the address of a scheduler, such as ``"tcp://10.0.0.1:8786"``.
    timeout : float, default=300.0
        Seconds to wait for the next answer of any worker. A worker answers when it has summed over all its shards: a
        pass over its data must be shorter than this.
    shards : int, default=16
        Shards at most, as of `Threads`: so many threads of workers, in all, can share a sum. Take a multiple of their
        number where there are more. The last digits of results depend on the number of shards.

    Examples
    --------
    >>> from distributed import Client, LocalCluster            # doctest: +SKIP
    >>> from maxendnet import L2CRF
    >>> from maxendnet.backends import Dask
    >>> client = Client(LocalCluster(n_workers=2, threads_per_worker=1))    # doctest: +SKIP
    >>> model = L2CRF(backend=Dask(client)).fit(X, y)           # doctest: +SKIP
    """

    local = False
    """Shards are elsewhere."""

    def __init__(self, client: Any, timeout: float = 300.0, shards: int = MOST_SHARDS) -> None:
        try:
            import distributed
        except ImportError as error:
            raise ImportError("Dask needs the package distributed; pip install 'maxendnet[dask]'.") from error
        if not isinstance(client, (str, distributed.Client)):
            raise ValueError(f"client must be a distributed.Client or the address of a scheduler, got {client!r}.")
        if not (isinstance(timeout, (int, float)) and timeout > 0):
            raise ValueError(f"timeout must be a positive number of seconds, got {timeout!r}.")
        require_count("shards", shards)
        self.timeout, self.shards = float(timeout), int(shards)
        self._seen: tuple[float, list[str]] = (-np.inf, [])
        self.address = client if isinstance(client, str) else str(client.scheduler.address)
        self._client = None if isinstance(client, str) else client

    @property
    def client(self) -> Any:
        """The connection, which is made when it is first needed."""
        if self._client is None:
            from distributed import Client

            try:
                self._client = Client(self.address, timeout=min(self.timeout, CONNECT), set_as_default=False)
            except OSError as error:
                raise BackendError(f"There is no Dask scheduler at {self.address} ({error}); start one.") from error
        return self._client

    def __sklearn_clone__(self) -> Dask:
        return self

    def __repr__(self) -> str:
        return f"Dask({self.address!r})"

    def __reduce__(self) -> Any:
        return Dask, (self.address, self.timeout, self.shards)

    # ---- what every backend offers -------------------------------------------------------------------------------

    def place(self, structure: Any) -> list[Any]:
        """Cut a bound structure as `Threads` does and send the shards to workers, neighbours to the same; a future for
        each."""
        shards = Threads(shards=self.shards).place(structure)
        slots = self._slots(at_once=True)
        if len(slots) > len(shards) == self.shards:
            warnings.warn(
                f"The cluster has {len(slots)} threads, of which {len(shards)} have work: examples are cut into at "
                f"most {self.shards} shards. Dask(client, shards={2 * len(slots)}) lets all work.",
                stacklevel=2,
            )
        return self._send(unpack, [(pack(taken(shard)), _kernels.level()) for shard in shards], "shard", slots)

    def sum(self, oracle: Callable[..., Partial], shards: Sequence[Any], *arguments: Any) -> Partial:
        """``oracle(shard, *arguments)`` of all shards, added up along a fixed tree."""
        spans = self._run(sum_of, oracle, shards, arguments)
        (whole,) = join((Span(first, last, _own(part)) for first, last, part in spans), len(shards))
        return whole.sum

    def hold(self, make: Callable[..., Any], shards: Sequence[Any], given: Sequence[tuple[Any, ...]]) -> list[Any]:
        """What ``make(shard, *given)`` makes of each shard, on workers, where `each` and `sum` change it.

        Of what a worker that dies has held, Dask makes what it was in the beginning: who asks must say what is
        expected.
        """
        level, slots = _kernels.level(), self._slots(at_once=True)
        if isinstance(shards, Alone):
            slots = []  # where they are
        elif shards and isinstance(shards[0], Cut):
            shards = self._send(unpack, [(pack(taken(shard)), level) for shard in shards], "part", slots)
        asked = [(shard, make, pack(arguments), level) for shard, arguments in zip(shards, given)]
        held = self._send(make_on_worker, asked, "held", slots)
        return Alone(held) if isinstance(shards, Alone) else held

    def new_key(self, name: str, number: int) -> str:
        """A name for a task, as the dashboard shows it."""
        return f"maxendnet-{name}-{uuid4().hex[:8]}-{number}"

    def send_once(self, value: Any) -> Any:
        """What many tasks need, as a future of bytes that Dask can make again."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it is large
            return self.client.submit(bytes, pack(value), pure=False, key=self.new_key("agreed", 0))

    def n_slots(self) -> int:
        """Threads of all workers."""
        return max(1, len(self._slots(at_once=True)))

    def run(self, function: Callable[[int, int, int], None], shards: Sequence[Sequence[Range]]) -> None:
        """What changes arrays of this process is done here."""
        Threads().run(function, shards)

    def run_all(
        self, function: Callable[..., Any], given: Sequence[tuple[Any, ...]], common: tuple[Any, ...] = ()
    ) -> Iterator[tuple[int, Any]]:
        """``function(*common, *arguments)`` for each tuple of arguments, on workers: number and result of one
        after the other as they finish. An exception of the function is its result."""
        waiting, attempts, level = set(range(len(given))), 0, _kernels.level()
        name = getattr(function, "__name__", "cell").strip("_")
        while waiting:
            attempts += 1
            packed = pack((function, common))
            sent = packed if len(packed) <= SMALL else self._scatter(packed)
            running = {
                self.client.submit(
                    call_on_worker, sent, pack(given[k]), level, pure=False, key=self.new_key(name, k)
                ): k
                for k in sorted(waiting)
            }
            for future in self._finished(running, patient=True):
                try:
                    result = self._ask_scheduler(self.client.gather(future, asynchronous=True))
                except Exception as error:
                    self._check_scheduler(error)
                    if isinstance(error, _losses()):
                        if attempts < ATTEMPTS:
                            continue  # once more, after the others
                        result = BackendError(f"Workers of {self.address} have died {ATTEMPTS} times ({error!r}).")
                    else:
                        result = error
                waiting.discard(running[future])
                yield running[future], result

    # ---- tasks ---------------------------------------------------------------------------------------------------

    def each(self, function: Callable[..., Any], shards: Sequence[Any], *arguments: Any) -> list[Any]:
        """``function(shard, *arguments)`` of every shard, in order."""
        return self._run(each_of, function, shards, arguments)

    def _run(self, task: Callable[..., Any], function: Callable[..., Any], shards: Any, arguments: Any) -> list[Any]:
        """What ``task`` makes of a function and of all shards: one task for every thread of the workers, which takes
        neighbouring shards, and others that join sums."""
        packed, lost = Packed.of(arguments), None
        for _ in range(ATTEMPTS):
            try:
                alone = isinstance(shards, Alone)
                pieces = cut_evenly(len(shards), len(shards) if alone else len(self._slots()))
                sent = packed if packed.size * len(pieces) <= IN_ALL else self._scatter(packed)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # that tasks are large
                    futures = self.client.map(  # all tasks in one message
                        task, [list(shards[a:b]) for a, b in pieces], pieces,
                        *([one] * len(pieces) for one in (len(shards), function, sent, _kernels.level())),
                        pure=False, key=[self.new_key(function.__name__, k) for k in range(len(pieces))],
                    )  # fmt: skip
                if task is sum_of:
                    futures = self._join(futures, len(shards), most=max(1, IN_ALL // packed.size))
                return [one for some in self._gather(futures) for one in some]
            except Exception as error:
                self._check_scheduler(error)
                if not isinstance(error, _losses()):
                    raise  # of the function
                lost = error
                self._seen = (-np.inf, [])
        raise BackendError(
            f"Workers of {self.address} have died {ATTEMPTS} times during one sum ({lost!r}); look at their logs (was "
            "memory short?). A fit with a checkpoint goes on from there."
        ) from lost

    def _join(self, futures: list[Any], n: int, most: int) -> list[Any]:
        """So many futures at most in the place of many, by tasks that join a few each."""
        while len(futures) > most:
            futures = [
                self.client.submit(join_on_worker, futures[k : k + AT_ONCE], n, pure=False, key=self.new_key("join", k))
                for k in range(0, len(futures), AT_ONCE)
            ]
        return futures

    def _send(self, function: Callable[..., Any], arguments: list[Any], name: str, slots: list[str]) -> list[Any]:
        """A future of ``function`` for each tuple of arguments, neighbours on the same worker. The scheduler keeps the
        arguments, for the case that workers die."""
        pieces = cut_evenly(len(arguments), len(slots))
        homes = [slot for slot, (a, b) in zip(slots, pieces) for _ in range(a, b)]
        if homes:
            futures = self._submit(function, arguments, name, homes)
            if self._settle(futures, set(homes)):
                return futures
        return self._submit(function, arguments, name, [None] * len(arguments))

    def _submit(self, function: Callable[..., Any], arguments: list[Any], name: str, homes: list[Any]) -> list[Any]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that a task is large
            return [
                self.client.submit(
                    function,
                    *given,
                    pure=False,
                    key=self.new_key(name, k),
                    workers=home,
                    allow_other_workers=home is not None,
                )
                for k, (given, home) in enumerate(zip(arguments, homes))
            ]

    def _settle(self, futures: list[Any], homes: set[str]) -> bool:
        """Wait for tasks that have asked for workers, then let them be made again anywhere.

        Returns False if those workers are all gone. Dask starts such a task at no other worker that comes later,
        although others are allowed: it must be submitted again.
        """

        def gone() -> bool:
            workers = self._slots()
            return bool(workers) and homes.isdisjoint(workers)

        if not self._wait(futures, give_up=gone):
            return False
        anywhere: dict[str, list[str]] = {future.key: [] for future in futures}
        self._ask_scheduler(self.client.scheduler.set_restrictions(worker=anywhere))
        return not homes.isdisjoint(self._slots(at_once=True))

    def _slots(self, at_once: bool = False) -> list[str]:
        """The worker of every thread, those of a worker side by side; asked for again every few seconds."""
        if at_once or time.monotonic() > self._seen[0] + SLOTS_EVERY:
            try:
                threads = self._ask_scheduler(self.client.scheduler.ncores())
            except (OSError, TimeoutError) as error:
                self._check_scheduler(error)
                raise BackendError(f"The Dask scheduler at {self.address} does not answer ({error!r}).") from error
            self._seen = (time.monotonic(), [worker for worker in sorted(threads) for _ in range(threads[worker])])
        return self._seen[1]

    def _scatter(self, packed: bytes | Packed) -> Any:
        return self.client.scatter([packed], hash=False, timeout=self.timeout)[0]

    def _gather(self, futures: list[Any]) -> list[Any]:
        """The results, unless none comes for too long."""
        self._wait(futures)
        # a result may be lost at this very moment, with its worker: no waiting without end here either
        return self._ask_scheduler(self.client.gather(futures, asynchronous=True))

    def _wait(self, futures: list[Any], give_up: Callable[[], bool] = lambda: False) -> bool:
        """Wait until all have ended. Returns False where ``give_up`` said so."""
        return sum(1 for _ in self._finished(futures, give_up)) == len(futures)

    def _finished(
        self, futures: Any, give_up: Callable[[], bool] = lambda: False, patient: bool = False
    ) -> Iterator[Any]:
        """Futures as they finish, unless none does for too long; ``patient`` waits as long as there are workers."""
        changed = threading.Event()
        for future in futures:
            future.add_done_callback(lambda _: changed.set())
        waiting, deadline = set(futures), time.monotonic() + self.timeout
        while waiting:
            changed.wait(0.5)
            changed.clear()
            self._check_scheduler(None)
            done = {future for future in waiting if future.status not in ("pending", "lost")}
            waiting -= done
            yield from done
            if done or (patient and self._slots()):
                deadline = time.monotonic() + self.timeout
            elif give_up():
                return
            elif time.monotonic() > deadline:
                n_workers = len(self._ask_scheduler(self.client.scheduler.ncores()))
                for future in futures:
                    future.cancel()
                raise BackendError(
                    f"No worker of {self.address} has answered for {self.timeout:g} seconds ({n_workers} workers are "
                    "connected). Start workers, or raise the timeout of Dask(client, timeout=...); a fit with a "
                    "checkpoint goes on from there."
                )

    def _ask_scheduler(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self.client.loop.asyncio_loop).result(self.timeout)

    def _alive(self) -> bool:
        return getattr(self.client, "status", "closed") == "running"

    def _check_scheduler(self, error: BaseException | None) -> None:
        if not self._alive():
            raise BackendError(
                f"The Dask scheduler at {self.address} was lost. Start it again with its workers; a fit with a "
                "checkpoint goes on from there."
            ) from error


def _losses() -> tuple[type[BaseException], ...]:
    """What is raised where workers, and what they hold, are gone."""
    from concurrent.futures import CancelledError

    from distributed import KilledWorker
    from distributed.client import FutureCancelledError
    from distributed.comm import CommClosedError

    return (KilledWorker, FutureCancelledError, CancelledError, CommClosedError, TimeoutError)


def _own(part: Partial) -> Partial:
    """With a gradient that can be overwritten."""
    return (
        part
        if part.gradient.flags.writeable or not part.gradient.size
        else part._replace(gradient=part.gradient.copy())
    )


class Packed:
    """Arguments of tasks, pickled but for their arrays: Dask sends those as they are in memory.

    Examples
    --------
    >>> packed = Packed.of((np.zeros(1000), "loss"))
    >>> packed.size - len(packed.head)
    8000
    >>> packed.value()[1]
    'loss'
    """

    def __init__(self, head: bytes, arrays: list[Any]) -> None:
        self.head, self.arrays = head, arrays

    @classmethod
    def of(cls, value: Any) -> Packed:
        arrays: list[pickle.PickleBuffer] = []
        return cls(pickle.dumps(value, protocol=5, buffer_callback=arrays.append), arrays)

    @property
    def size(self) -> int:
        """Bytes."""
        return len(self.head) + sum(memoryview(one).nbytes for one in self.arrays)

    def value(self) -> Any:
        """The arguments, with arrays that nobody else has: what has come over a network need not be aligned."""
        return pickle.loads(self.head, buffers=[bytearray(one) for one in self.arrays])

    def __reduce_ex__(self, protocol: Any) -> Any:
        # what has come over a network are memoryviews, which pickle takes only inside of this
        wrapped = pickle.PickleBuffer if int(protocol) >= 5 else bytes
        return Packed, (self.head, [wrapped(one) for one in self.arrays])

    def __sizeof__(self) -> int:
        """For Dask, which weighs what it moves."""
        return self.size


def cut_evenly(n: int, parts: int) -> list[Range]:
    """Cut ``n`` things into so many ranges of about the same length, none of them empty.

    Examples
    --------
    >>> cut_evenly(16, 3)
    [(0, 5), (5, 10), (10, 16)]
    >>> cut_evenly(2, 3)
    [(0, 1), (1, 2)]
    """
    parts = max(1, min(n, parts))
    borders = [n * k // parts for k in range(parts + 1)]
    return list(pairwise(borders))


# ---- what runs on workers -------------------------------------------------------------------------------------------


def each_of(
    shards: list[Any], piece: Range, n: int, function: Callable[..., Any], packed: Packed, level: str
) -> list[Any]:
    """A function of some shards."""
    return list(values_of(shards, function, packed, level))


def sum_of(
    shards: list[Any], piece: Range, n: int, function: Callable[..., Any], packed: Packed, level: str
) -> list[Span]:
    """The same, added up as far as the tree over all ``n`` shards goes."""
    values = values_of(shards, function, packed, level)
    return join((Span(k, k + 1, value) for k, value in enumerate(values, piece[0])), n)


def values_of(shards: list[Any], function: Callable[..., Any], packed: Packed, level: str) -> Iterator[Any]:
    """A function of one shard after the other, with kernels of the level of the client."""
    use_level(level)
    arguments = packed.value()
    with one_blas_thread:
        for shard in shards:
            yield function(shard, *arguments)


def join_on_worker(some: list[list[Span]], n: int) -> list[Span]:
    """Sums of neighbours as one; what was given stays as it is, for it may be asked for again."""
    return join((span for spans in some for span in spans), n, overwrite=False)


def use_level(level: str) -> None:
    """Take the kernels of this level from here on: other ones add up in another order."""
    if _kernels.level() != level:
        _kernels.use(level)


def call_on_worker(packed: bytes, own: bytes, level: str) -> Any:
    """A function of arguments that many have, and of its own."""
    use_level(level)
    function, common = pickle.loads(packed)
    with one_blas_thread:
        return function(*common, *pickle.loads(own))


def make_on_worker(shard: Any, make: Callable[..., Any], packed: bytes, level: str) -> Any:
    """What is made of a shard and held here."""
    use_level(level)
    with one_blas_thread:
        return make(shard, *pickle.loads(packed))


class _Packer(pickle.Pickler):
    """Sends arrays that are in files by the names of the files."""

    def reducer_override(self, value: Any) -> Any:
        mapped = _mapped(value) if isinstance(value, np.ndarray) else None
        if mapped is None or not value.flags.c_contiguous or not value.size:
            return NotImplemented
        start = mapped.offset + value.__array_interface__["data"][0] - mapped.__array_interface__["data"][0]
        return map_again, (str(mapped.filename), value.dtype.str, start, value.shape)


def _mapped(value: Any) -> Any:
    """The mapping of a file with a name that an array is a view of."""
    while isinstance(value, np.ndarray):
        whole = isinstance(value, np.memmap) and not isinstance(value.base, np.ndarray)
        if whole and value.filename is not None and value.mode == "r":  # type: ignore[attr-defined]
            return value
        value = value.base
    return None


def map_again(filename: str, dtype: str, start: int, shape: tuple[int, ...]) -> Any:
    """A part of a file as an array."""
    return np.asarray(np.memmap(filename, dtype=np.dtype(dtype), mode="r", offset=start, shape=shape))


def pack(value: Any) -> bytes:
    """A shard, or whatever goes to a worker, as bytes."""
    file = io.BytesIO()
    try:
        _Packer(file, protocol=5).dump(value)
        return file.getvalue()
    except (pickle.PicklingError, AttributeError):  # a function that has no name to be found by
        import cloudpickle

        return cloudpickle.dumps(value)


def unpack(packed: bytes, level: str) -> Any:
    """The shard."""
    use_level(level)
    return pickle.loads(packed)
