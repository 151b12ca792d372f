"""`Dask`: backend that computes sums on the workers of a Dask cluster."""

from __future__ import annotations

import asyncio
import io
import pickle
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, pairwise
from typing import Any
from uuid import uuid4

import numpy as np

from maxendnet import _kernels
from maxendnet.backends.base import BackendError
from maxendnet.backends.linear_algebra import one_blas_thread
from maxendnet.backends.partial import Alone, Partial, Span, join
from maxendnet.backends.threads import MAX_SHARDS, Cut, Range, Threads, taken
from maxendnet.utils.checks import require_count

MAX_COPIED_BYTES = 1 << 16
"""Size in bytes up to which common arguments are copied into each task. Larger ones are sent once to a worker."""
MAX_SCHEDULER_BYTES = 1 << 24
"""Total size in bytes up to which the weights or gradients of all tasks of a sum are sent through the scheduler. Larger
weights are sent to one worker, which passes them on, and larger gradients are first added on the workers. Transfers
between workers are avoided for small arrays, because they may wait for seconds until a busy worker's kernel ends."""
SUMS_PER_TASK = 4
"""Number of partial sums that one task adds."""
SLOTS_EVERY = 5.0
"""Seconds after which workers are counted again, so that new workers are used."""
CONNECT = 10.0
"""Timeout in seconds of the connection to a scheduler that may still be starting."""
ATTEMPTS = 5
"""Maximum number of attempts at a sum if workers die."""


class Dask:
    """Backend that computes sums over examples on the workers of a Dask cluster.

    Examples are split into shards as by `Threads` and sent to the workers once. Gradients are added along the same tree
    as by `Threads`, so fits are bit-for-bit identical to those on threads. For examples in a folder (`Examples.open`)
    only file names are sent, so workers need access to the folder at the same path.

    Solvers that only need sums are supported: `LBFGS`, `OWLQN`, `Smoothing`, `Subgradient`, `CuttingPlane`,
    `Extragradient`, and those that use them for subproblems. `BlockFrankWolfe` works in parts, one for each thread of
    the workers. Solvers that need all examples in one process raise ``ValueError``.

    If a worker dies, its shards are sent to another one, and the result of the fit does not change. If no worker
    responds for ``timeout`` seconds, or the scheduler is lost, a `BackendError` is raised; a fit with
    ``checkpoint=path`` can be resumed from its last checkpoint.

    Parameters
    ----------
    client : distributed.Client or str
        A client, or the address of a scheduler, such as ``"tcp://10.0.0.1:8786"``.
    timeout : float, default=300.0
        Seconds to wait for the next result of any worker. A worker returns a result after a pass over its shards, so
        a pass must take less time than this.
    shards : int, default=16
        Maximum number of shards, as for `Threads`. At most this many worker threads are used. If the workers have
        more threads, use a multiple of their number. The number of shards changes the last digits of results.

    Examples
    --------
    >>> from distributed import Client, LocalCluster            # doctest: +SKIP
    >>> from maxendnet import L2CRF
    >>> from maxendnet.backends import Dask
    >>> client = Client(LocalCluster(n_workers=2, threads_per_worker=1))    # doctest: +SKIP
    >>> model = L2CRF(backend=Dask(client)).fit(X, y)           # doctest: +SKIP
    """

    shards: int
    timeout: float

    local = False
    """Shards are in other processes."""

    def __init__(self, client: Any, timeout: float = 300.0, shards: int = MAX_SHARDS) -> None:
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
        self._known_slots: tuple[float, list[str]] = (-np.inf, [])  # time of the last count, and slots
        self.address: str = client if isinstance(client, str) else str(client.scheduler.address)
        self._client = None if isinstance(client, str) else client

    @property
    def client(self) -> Any:
        """The client. The connection is opened on first use."""
        if self._client is None:
            from distributed import Client

            try:
                self._client = Client(self.address, timeout=min(self.timeout, CONNECT), set_as_default=False)
            except OSError as error:
                raise BackendError(
                    f"There is no Dask scheduler at {self.address} ({error}); start one, or correct the address."
                ) from error
        return self._client

    def __sklearn_clone__(self) -> Dask:
        return self

    def __repr__(self) -> str:
        return f"Dask({self.address!r})"

    def __reduce__(self) -> Any:
        return Dask, (self.address, self.timeout, self.shards)

    # ---- the backend protocol ------------------------------------------------------------------------------------

    def place(self, structure: Any) -> list[Any]:
        """Split a bound structure into shards, and send them to workers.

        Returns a future for each shard.

        Neighbouring shards are sent to the same worker.
        """
        shards = Threads(shards=self.shards).place(structure)
        slots = self._slots(at_once=True)
        if len(slots) > len(shards) == self.shards:
            warnings.warn(
                f"The cluster has {len(slots)} threads, but only {len(shards)} are used, because examples are split "
                f"into at most {self.shards} shards. Use Dask(client, shards={2 * len(slots)}).",
                stacklevel=2,
            )
        return self._send(unpack, [(pack(taken(shard)), _kernels.level()) for shard in shards], "shard", slots)

    def sum(self, oracle: Callable[..., Partial], shards: Sequence[Any], *arguments: Any) -> Partial:
        """Return the sum of ``oracle(shard, *arguments)`` over all shards."""
        spans = self._run(sum_of, oracle, shards, arguments)
        (total,) = join((Span(first, last, _writeable(value)) for first, last, value in spans), len(shards))
        return total.sum

    def hold(self, make: Callable[..., Any], shards: Sequence[Any], given: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Create ``make(shard, *given)`` on workers, and return futures.

        `each` and `sum` may change these objects.

        If a worker dies, Dask creates its objects again in their initial state. Callers must detect this.
        """
        level, slots = _kernels.level(), self._slots(at_once=True)
        if isinstance(shards, Alone):
            slots = []  # create them on the workers that hold the shards
        elif shards and isinstance(shards[0], Cut):
            shards = self._send(unpack, [(pack(taken(shard)), level) for shard in shards], "part", slots)
        tasks = [(shard, make, pack(arguments), level) for shard, arguments in zip(shards, given)]
        handles = self._send(make_on_worker, tasks, "held", slots)
        return Alone(handles) if isinstance(shards, Alone) else handles

    def new_key(self, name: str, number: int) -> str:
        """Return a unique key for a task. It contains the name, which the dashboard shows."""
        return f"maxendnet-{name}-{uuid4().hex[:8]}-{number}"

    def send_once(self, value: Any) -> Any:
        """Send a value that many tasks need, and return a future of its bytes."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about large tasks
            return self.client.submit(bytes, pack(value), pure=False, key=self.new_key("agreed", 0))

    def n_slots(self) -> int:
        """Return the number of threads of all workers."""
        return max(1, len(self._slots(at_once=True)))

    def run(self, function: Callable[[int, int, int], None], shards: Sequence[Sequence[Range]]) -> None:
        """Run a function over all ranges in this thread, because it changes arrays of this process."""
        Threads().run(function, shards)

    def run_all(
        self, function: Callable[..., Any], given: Sequence[tuple[Any, ...]], common: tuple[Any, ...] = ()
    ) -> Iterator[tuple[int, Any]]:
        """Run ``function(*common, *arguments)`` on workers for each tuple of arguments.

        Yields the index of the arguments and the result, in the order in which they finish. If the function
        raises an exception, the exception is the result.
        """
        waiting, attempts, level = set(range(len(given))), 0, _kernels.level()
        name = getattr(function, "__name__", "cell").strip("_")
        while waiting:
            attempts += 1
            packed = pack((function, common))
            sent = packed if len(packed) <= MAX_COPIED_BYTES else self._scatter(packed)
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
                            continue  # try again after the other tasks
                        result = BackendError(f"Workers of {self.address} have died {ATTEMPTS} times ({error!r}).")
                    else:
                        result = error
                waiting.discard(running[future])
                yield running[future], result

    # ---- tasks ---------------------------------------------------------------------------------------------------

    def each(self, function: Callable[..., Any], shards: Sequence[Any], *arguments: Any) -> list[Any]:
        """Return ``function(shard, *arguments)`` of each shard, in order."""
        return self._run(each_of, function, shards, arguments)

    def _run(self, task: Callable[..., Any], function: Callable[..., Any], shards: Any, arguments: Any) -> list[Any]:
        """Run a function over all shards, with one task for each worker thread.

        Each task gets neighbouring shards. Further tasks add the sums.
        """
        packed, lost = Packed.of(arguments), None
        for _ in range(ATTEMPTS):
            try:
                alone = isinstance(shards, Alone)
                pieces = cut_evenly(len(shards), len(shards) if alone else len(self._slots()))
                sent = packed if packed.size * len(pieces) <= MAX_SCHEDULER_BYTES else self._scatter(packed)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # about large tasks
                    futures = self.client.map(  # all tasks in one message
                        task, [list(shards[a:b]) for a, b in pieces], pieces,
                        *([value] * len(pieces) for value in (len(shards), function, sent, _kernels.level())),
                        pure=False, key=[self.new_key(function.__name__, k) for k in range(len(pieces))],
                    )  # fmt: skip
                if task is sum_of:
                    futures = self._join(futures, len(shards), most=max(1, MAX_SCHEDULER_BYTES // packed.size))
                return list(chain.from_iterable(self._gather(futures)))
            except Exception as error:
                self._check_scheduler(error)
                if not isinstance(error, _losses()):
                    raise  # the function itself failed
                lost = error
                self._known_slots = (-np.inf, [])
        raise BackendError(
            f"Workers of {self.address} have died {ATTEMPTS} times during one sum ({lost!r}); check their logs and "
            "memory. A fit with a checkpoint can be resumed."
        ) from lost

    def _join(self, futures: list[Any], n: int, most: int) -> list[Any]:
        """Tree-reduce the futures of sums to at most ``most``."""
        while len(futures) > most:
            futures = [
                self.client.submit(
                    join_on_worker, futures[k : k + SUMS_PER_TASK], n, pure=False, key=self.new_key("join", k)
                )
                for k in range(0, len(futures), SUMS_PER_TASK)
            ]
        return futures

    def _send(self, function: Callable[..., Any], arguments: list[Any], name: str, slots: list[str]) -> list[Any]:
        """Submit a task for each tuple of arguments, and return the futures.

        Neighbours are submitted to the same worker.

        The scheduler stores the arguments in case workers die.
        """
        pieces = cut_evenly(len(arguments), len(slots))
        homes = [slot for slot, (a, b) in zip(slots, pieces) for _ in range(a, b)]
        if homes:
            futures = self._submit(function, arguments, name, homes)
            if self._settle(futures, set(homes)):
                return futures
        return self._submit(function, arguments, name, [None] * len(arguments))

    def _submit(self, function: Callable[..., Any], arguments: list[Any], name: str, homes: list[Any]) -> list[Any]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about large tasks
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
        """Wait for tasks with preferred workers, then remove the preference.

        Returns False if all preferred workers are gone. Dask does not start such tasks on workers that join later, so
        they must be submitted again.
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
        """Return the sorted list with the worker of each thread.

        The list is updated every few seconds, or immediately with ``at_once``.
        """
        if at_once or time.monotonic() > self._known_slots[0] + SLOTS_EVERY:
            try:
                threads = self._ask_scheduler(self.client.scheduler.ncores())
            except (OSError, TimeoutError) as error:
                self._check_scheduler(error)
                raise BackendError(f"The Dask scheduler at {self.address} does not respond ({error!r}).") from error
            slots = [worker for worker in sorted(threads) for _ in range(threads[worker])]
            self._known_slots = (time.monotonic(), slots)
        return self._known_slots[1]

    def _scatter(self, packed: bytes | Packed) -> Any:
        return self.client.scatter([packed], hash=False, timeout=self.timeout)[0]

    def _gather(self, futures: list[Any]) -> list[Any]:
        """Wait for futures, and return their results."""
        self._wait(futures)
        # the timeout is needed because a worker may die now, and its result is lost
        values: list[Any] = self._ask_scheduler(self.client.gather(futures, asynchronous=True))
        return values

    def _wait(self, futures: list[Any], give_up: Callable[[], bool] = lambda: False) -> bool:
        """Wait until all futures have ended. Return False if ``give_up`` returned True before."""
        return sum(1 for _ in self._finished(futures, give_up)) == len(futures)

    def _finished(
        self, futures: Any, give_up: Callable[[], bool] = lambda: False, patient: bool = False
    ) -> Iterator[Any]:
        """Yield futures as they finish, or raise `BackendError` after a timeout.

        With ``patient``, wait as long as there are workers.
        """
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
                    f"No worker of {self.address} has responded for {self.timeout:g} seconds ({n_workers} workers are "
                    "connected). Start workers, or use a longer Dask(client, timeout=...); a fit with a checkpoint can "
                    "be resumed."
                )

    def _ask_scheduler(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self.client.loop.asyncio_loop).result(self.timeout)

    def _alive(self) -> bool:
        return getattr(self.client, "status", "closed") == "running"

    def _check_scheduler(self, error: BaseException | None) -> None:
        if not self._alive():
            raise BackendError(
                f"The connection to the Dask scheduler at {self.address} was lost. Start it again with its workers; a "
                "fit with a checkpoint can be resumed."
            ) from error


def _losses() -> tuple[type[BaseException], ...]:
    """Return the exception types that Dask raises if results were lost because workers died."""
    from concurrent.futures import CancelledError

    from distributed import KilledWorker
    from distributed.client import FutureCancelledError
    from distributed.comm import CommClosedError

    return (KilledWorker, FutureCancelledError, CancelledError, CommClosedError, TimeoutError)


def _writeable(value: Partial) -> Partial:
    """Return the partial sum with a gradient that can be overwritten."""
    if value.gradient.flags.writeable or not value.gradient.size:
        return value
    return value._replace(gradient=value.gradient.copy())


class Packed:
    """Pickled arguments of tasks, with arrays that Dask sends without a copy.

    Examples
    --------
    >>> packed = Packed.of((np.zeros(1000), "loss"))
    >>> packed.size - len(packed.head)
    8000
    >>> packed.value()[1]
    'loss'
    """

    arrays: list[Any]
    head: bytes

    def __init__(self, head: bytes, arrays: list[Any]) -> None:
        self.head, self.arrays = head, arrays

    @classmethod
    def of(cls, value: Any) -> Packed:
        arrays: list[pickle.PickleBuffer] = []
        return cls(pickle.dumps(value, protocol=5, buffer_callback=arrays.append), arrays)

    @property
    def size(self) -> int:
        """Number of bytes."""
        return len(self.head) + sum(memoryview(array).nbytes for array in self.arrays)

    def value(self) -> Any:
        """Return the arguments, with aligned copies of the arrays."""
        return pickle.loads(self.head, buffers=[bytearray(array) for array in self.arrays])

    def __reduce_ex__(self, protocol: Any) -> Any:
        # buffers from a network are memoryviews, which pickle accepts only as a PickleBuffer
        wrapped = pickle.PickleBuffer if int(protocol) >= 5 else bytes
        return Packed, (self.head, [wrapped(array) for array in self.arrays])

    def __sizeof__(self) -> int:
        """Return the size in bytes, which Dask uses to plan transfers."""
        return self.size


def cut_evenly(n: int, parts: int) -> list[Range]:
    """Split ``range(n)`` into at most ``parts`` ranges of about equal length.

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


# ---- functions that run on workers ----------------------------------------------------------------------------------


def each_of(
    shards: list[Any], piece: Range, n: int, function: Callable[..., Any], packed: Packed, level: str
) -> list[Any]:
    """Return the list of values of a function for the shards of one task."""
    return list(values_of(shards, function, packed, level))


def sum_of(
    shards: list[Any], piece: Range, n: int, function: Callable[..., Any], packed: Packed, level: str
) -> list[Span]:
    """Return the values of a function for the shards of one task, added along the tree."""
    values = values_of(shards, function, packed, level)
    return join((Span(k, k + 1, value) for k, value in enumerate(values, piece[0])), n)


def values_of(shards: list[Any], function: Callable[..., Any], packed: Packed, level: str) -> Iterator[Any]:
    """Yield the values of a function for shards, at the client's kernel level."""
    use_level(level)
    arguments = packed.value()
    with one_blas_thread:
        for shard in shards:
            yield function(shard, *arguments)


def join_on_worker(spans: list[list[Span]], n: int) -> list[Span]:
    """Add neighbouring sums, without overwriting inputs that Dask may need."""
    return join(chain.from_iterable(spans), n, overwrite=False)


def use_level(level: str) -> None:
    """Use the kernels of this level, because other levels add numbers in a different order."""
    if _kernels.level() != level:
        _kernels.use(level)


def call_on_worker(packed: bytes, arguments: bytes, level: str) -> Any:
    """Call a function with common arguments and those of one task."""
    use_level(level)
    function, common = pickle.loads(packed)
    with one_blas_thread:
        return function(*common, *pickle.loads(arguments))


def make_on_worker(shard: Any, make: Callable[..., Any], packed: bytes, level: str) -> Any:
    """Create an object from a shard on the worker that holds the shard."""
    use_level(level)
    with one_blas_thread:
        return make(shard, *pickle.loads(packed))


class _Packer(pickle.Pickler):
    """Pickler that sends memory-mapped arrays as file names."""

    def reducer_override(self, value: Any) -> Any:
        memmap = _memmap_of(value) if isinstance(value, np.ndarray) else None
        if memmap is None or not value.flags.c_contiguous or not value.size:
            return NotImplemented
        start = memmap.offset + value.__array_interface__["data"][0] - memmap.__array_interface__["data"][0]
        return open_memmap, (str(memmap.filename), value.dtype.str, start, value.shape)


def _memmap_of(value: Any) -> Any:
    """Return the read-only memory map that an array is a view of, or None."""
    while isinstance(value, np.ndarray):
        whole = isinstance(value, np.memmap) and not isinstance(value.base, np.ndarray)
        if whole and value.filename is not None and value.mode == "r":  # type: ignore[attr-defined]
            return value
        value = value.base
    return None


def open_memmap(filename: str, dtype: str, start: int, shape: tuple[int, ...]) -> Any:
    """Memory-map a part of a file as an array."""
    return np.asarray(np.memmap(filename, dtype=np.dtype(dtype), mode="r", offset=start, shape=shape))


def pack(value: Any) -> bytes:
    """Pickle a shard or other value for a worker."""
    file = io.BytesIO()
    try:
        _Packer(file, protocol=5).dump(value)
        return file.getvalue()
    except (pickle.PicklingError, AttributeError):  # pickle does not support local functions and lambdas
        import cloudpickle

        result: bytes = cloudpickle.dumps(value)
        return result


def unpack(packed: bytes, level: str) -> Any:
    """Inverse of `pack`."""
    use_level(level)
    return pickle.loads(packed)
