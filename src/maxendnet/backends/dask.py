"""Sums over examples on the workers of a Dask cluster, with the bits of threads."""

from __future__ import annotations

import asyncio
import io
import pickle
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from maxendnet import _kernels
from maxendnet.backends.linear_algebra import one_blas_thread
from maxendnet.backends.partial import Partial, add_up
from maxendnet.backends.threads import Range, Threads

SMALL = 1 << 20
"""Bytes of arguments up to which every task has its own copy. More are sent once to a worker, and from there on."""
ATTEMPTS = 5
"""Times that a sum is asked for, at most, where workers die."""


class BackendError(RuntimeError):
    """The workers that compute sums cannot be reached, or do not answer."""

    __module__ = "maxendnet.backends"  # where users find it


class Dask:
    """Computes sums over examples on the workers of a Dask cluster.

    Examples are cut as `Threads` cuts them, sent to workers once, and stay there; a sum sends the weights and brings
    back a gradient for every shard, which are added in the same order. So a fit has the bits of one on threads. Of
    examples in a folder (`Examples.open`) only the names of the files are sent: workers need the same folder at the
    same path.

    Solvers that need only sums run on it as they are: `LBFGS`, `OWLQN`, `Smoothing`, `Subgradient`, `CuttingPlane`,
    `Extragradient`, and those that solve such problems within. `BlockFrankWolfe`, `SDCA` and others with kernels of
    their own go through examples in this process, and are refused.

    A worker that dies takes its shards with it: they are sent to another one, and the fit goes on with the same bits.
    Where nothing at all comes back for ``timeout`` seconds, or the scheduler is lost, there is a `BackendError`; the
    last checkpoint (``fit(..., checkpoint=path)``) is there to go on from.

    Parameters
    ----------
    client : distributed.Client or str
        A client, or the address of a scheduler, such as ``"tcp://10.0.0.1:8786"``.
    timeout : float, default=300.0
        Seconds to wait for the next answer of any worker.

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

    def __init__(self, client: Any, timeout: float = 300.0) -> None:
        try:
            import distributed
        except ImportError as error:
            raise ImportError("Dask needs the package distributed; pip install 'maxendnet[dask]'.") from error
        if not isinstance(client, (str, distributed.Client)):
            raise ValueError(f"client must be a distributed.Client or the address of a scheduler, got {client!r}.")
        if not (isinstance(timeout, (int, float)) and timeout > 0):
            raise ValueError(f"timeout must be a positive number of seconds, got {timeout!r}.")
        self.timeout = float(timeout)
        self.address = client if isinstance(client, str) else str(client.scheduler.address)
        self._client = None if isinstance(client, str) else client

    @property
    def client(self) -> Any:
        """The connection, which is made when it is first needed."""
        if self._client is None:
            from distributed import Client

            try:
                self._client = Client(self.address, timeout=min(self.timeout, 30.0), set_as_default=False)
            except OSError as error:
                raise BackendError(f"There is no Dask scheduler at {self.address} ({error}); start one.") from error
        return self._client

    def __sklearn_clone__(self) -> Dask:
        return self

    def __repr__(self) -> str:
        return f"Dask({self.address!r})"

    def __reduce__(self) -> Any:
        return Dask, (self.address, self.timeout)

    # ---- what every backend offers -------------------------------------------------------------------------------

    def place(self, structure: Any) -> list[Any]:
        """Cut a bound structure as `Threads` does and send the shards to workers; a future for each."""
        level, run = _kernels.level(), uuid4().hex[:8]
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # that a task is large: the scheduler keeps it, for the case that workers die
            return [
                self.client.submit(unpack, pack(shard), level, key=f"maxendnet-shard-{run}-{k}", pure=False)
                for k, shard in enumerate(Threads().place(structure))
            ]

    def sum(self, oracle: Callable[..., Partial], shards: Sequence[Any], *arguments: Any) -> Partial:
        """``oracle(shard, *arguments)`` of all shards, added up along a fixed tree."""
        return add_up([_own(part) for part in self.each(oracle, shards, *arguments)])

    def decode(self, structure: Any, w: NDArray[np.float64]) -> NDArray[np.int32]:
        """A best labelling of every example, by the workers."""
        shards = self.place(structure)
        return np.concatenate([np.zeros(0, np.int32), *self.each(decode_shard, shards, np.asarray(w))])

    def run(self, function: Callable[[int, int, int], None], shards: Sequence[Sequence[Range]]) -> None:
        """What changes arrays of this process is done here."""
        Threads().run(function, shards)

    # ---- tasks ---------------------------------------------------------------------------------------------------

    def each(self, function: Callable[..., Any], shards: Sequence[Any], *arguments: Any) -> list[Any]:
        """``function(shard, *arguments)`` of every shard, in order."""
        packed, level = pickle.dumps(arguments, protocol=5), _kernels.level()
        lost: BaseException | None = None
        for _ in range(ATTEMPTS):
            try:
                sent = packed if len(packed) <= SMALL else self._scatter(packed)
                run = uuid4().hex[:8]
                # all tasks in one message: half of the time of one for each
                futures = self.client.map(
                    ask, list(shards), function=function, packed=sent, level=level, pure=False,
                    key=[f"maxendnet-{function.__name__}-{run}-{k}" for k in range(len(shards))],
                )  # fmt: skip
                return self._gather(futures)
            except Exception as error:
                self._check_scheduler(error)
                if not isinstance(error, _losses()):
                    raise  # of the function
                lost = error
        raise BackendError(
            f"Workers of {self.address} have died {ATTEMPTS} times during one sum ({lost!r}); look at their logs (was "
            "memory short?). A fit with a checkpoint goes on from there."
        ) from lost

    def _scatter(self, packed: bytes) -> Any:
        return self.client.scatter([packed], hash=False, timeout=self.timeout)[0]

    def _gather(self, futures: list[Any]) -> list[Any]:
        """The results, unless none comes for too long."""
        changed = threading.Event()
        for future in futures:
            future.add_done_callback(lambda _: changed.set())
        waiting, deadline = set(futures), time.monotonic() + self.timeout
        while waiting:
            changed.wait(0.5)
            changed.clear()
            self._check_scheduler(None)
            left = {future for future in waiting if future.status in ("pending", "lost")}
            if len(left) < len(waiting):
                waiting, deadline = left, time.monotonic() + self.timeout
            elif left and time.monotonic() > deadline:
                n_workers = len(self.client.scheduler_info(n_workers=-1)["workers"]) if self._alive() else 0
                for future in futures:
                    future.cancel()
                raise BackendError(
                    f"No worker of {self.address} has answered for {self.timeout:g} seconds ({n_workers} workers are "
                    "connected). Start workers, or raise the timeout of Dask(client, timeout=...); a fit with a "
                    "checkpoint goes on from there."
                )
        # a result may be lost at this very moment, with its worker: no waiting without end here either
        coroutine = self.client.gather(futures, asynchronous=True)
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


# ---- what runs on workers -------------------------------------------------------------------------------------------


def ask(shard: Any, function: Callable[..., Any], packed: bytes, level: str) -> Any:
    """A function of a shard, with kernels of the level of the client."""
    use_level(level)
    with one_blas_thread:
        return function(shard, *pickle.loads(packed))


def decode_shard(shard: Any, w: NDArray[np.float64]) -> NDArray[np.int32]:
    """A best labelling of every example of a shard."""
    from maxendnet.structures.base import decode

    return decode(shard, w)


def use_level(level: str) -> None:
    """Take the kernels of this level from here on: other ones add up in another order."""
    if _kernels.level() != level:
        _kernels.use(level)


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
    """A shard as bytes."""
    file = io.BytesIO()
    _Packer(file, protocol=5).dump(value)
    return file.getvalue()


def unpack(packed: bytes, level: str) -> Any:
    """The shard."""
    use_level(level)
    return pickle.loads(packed)
