"""An array module as unforgiving as CuPy, over NumPy's memory.

Its arrays do not turn into NumPy's and do not mix with them, nor with those of another device than
the one in use; reductions return arrays without axes instead of numbers, and there are only
functions that CuPy has, with the arguments that it takes. What runs on them does not fail on a card
for one of these reasons.
"""

import contextlib
import operator
import threading
from types import SimpleNamespace

import numpy as np
import scipy.special

from .device import EmulatedDevice
from .memory import count

_current = threading.local()


def device_in_use():
    """Return the device that the thread is inside the ``use()`` of, if any."""
    return getattr(_current, "device", None)


class DeviceArray:
    """Stands for ``cupy.ndarray``."""

    __array_ufunc__ = None  # NumPy's operators then leave theirs to this class, which refuses
    __hash__ = None

    def __init__(self, data, device=None):
        self.memory = np.asarray(data)
        count(self.memory)
        self.device = device_in_use() if device is None else device
        if self.device is not None:
            self.device.n_queued += 1
            self.place = self.device.n_queued

    @property
    def _data(self):
        """The memory, for work on the device in use."""
        if self.device is not None:
            self.device.copy_targets.use(self.memory)
        return self._here

    @property
    def _here(self):
        """The memory, for what is known without looking into it."""
        here = device_in_use()
        if here is not None and self.device is not None and here is not self.device:
            raise ValueError("Array device must be same as the current device")
        return self.memory

    def __array__(self, *_, **__):
        raise TypeError("implicit conversion to a NumPy array is not allowed; use to_host")

    def __array_function__(self, function, *_):
        raise TypeError(f"numpy.{function.__name__} of an array of the device")

    shape = property(lambda self: self._here.shape)
    dtype = property(lambda self: self._here.dtype)
    ndim = property(lambda self: self._here.ndim)
    size = property(lambda self: self._here.size)
    nbytes = property(lambda self: self._here.nbytes)
    flags = property(lambda self: self._here.flags)
    strides = property(lambda self: self._here.strides)
    T = property(lambda self: DeviceArray(self._here.T))

    def __dlpack_device__(self):
        return (2, 0)

    def __dlpack__(self, *, stream=None, max_version=None, copy=None):
        return self._data.__dlpack__(max_version=max_version)

    def __len__(self):
        return len(self._here)

    def __iter__(self):
        return (DeviceArray(row) for row in self._data)

    def __bool__(self):
        return bool(self._data)

    def __int__(self):
        return int(self._data)

    def __float__(self):
        return float(self._data)

    def __index__(self):
        return operator.index(self._data.item())

    def __getitem__(self, key):
        keys = key if isinstance(key, tuple) else (key,)
        is_view = not any(isinstance(item, DeviceArray) for item in keys)
        return DeviceArray((self._here if is_view else self._data)[_unwrapped_key(key)])

    def __setitem__(self, key, value):
        self._data[_unwrapped_key(key)] = _unwrapped(value)

    def item(self):
        return self._data.item()

    def astype(self, dtype, copy=True):
        return DeviceArray(self._data.astype(dtype, copy=copy))

    def reshape(self, *shape):
        return DeviceArray(self._here.reshape(*shape))

    def ravel(self):
        return DeviceArray(self._data.ravel())

    def copy(self):
        return DeviceArray(self._data.copy())

    def diagonal(self):
        return DeviceArray(self._data.diagonal())  # read-only in NumPy: writing fails here too

    def trace(self):
        return DeviceArray(self._data.trace())


def _unwrapped(value):
    """Return what NumPy works with; refuse NumPy's own arrays."""
    if isinstance(value, DeviceArray):
        return value._data
    if isinstance(value, (list, tuple)):
        return type(value)(_unwrapped(item) for item in value)
    if isinstance(value, np.ndarray):
        raise TypeError(f"Unsupported type {type(value)}: an array of the host")
    return value


def _unwrapped_key(key):
    keys = key if isinstance(key, tuple) else (key,)
    unwrapped = tuple(_unwrapped(item) for item in keys)
    return unwrapped if isinstance(key, tuple) else unwrapped[0]


def _binary(name):
    function = getattr(operator, name)

    def forward(self, other):
        if isinstance(other, np.ndarray):
            return NotImplemented  # both sides refuse: TypeError, as with CuPy
        return DeviceArray(function(self._data, _unwrapped(other)))

    def backward(self, other):
        if isinstance(other, np.ndarray):
            return NotImplemented
        return DeviceArray(function(_unwrapped(other), self._data))

    def in_place(self, other):
        if isinstance(other, np.ndarray):
            return NotImplemented
        self.memory = getattr(operator, f"i{name.strip('_')}")(self._data, _unwrapped(other))
        return self

    return forward, backward, in_place


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and_", "or_"):
    _plain = _name.strip("_")
    _forward, _backward, _in_place = _binary(_name)
    setattr(DeviceArray, f"__{_plain}__", _forward)
    setattr(DeviceArray, f"__r{_plain}__", _backward)
    setattr(DeviceArray, f"__i{_plain}__", _in_place)
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(DeviceArray, f"__{_name}__", _binary(_name)[0])


def _unary(name):
    function = getattr(operator, name)
    return lambda self: DeviceArray(function(self._data))


for _name in ("neg", "invert", "abs"):
    setattr(DeviceArray, f"__{_name}__", _unary(_name))


def _reduction(name, parameters):
    def method(self, *args, **kwargs):
        assert set(kwargs) <= parameters, f"{name} of CuPy takes {parameters}, got {kwargs}"
        return DeviceArray(getattr(self._data, name)(*args, **kwargs))

    return method


for _name in ("sum", "mean", "min", "max", "any", "all", "argmax"):
    _own = {"dtype"} if _name in ("sum", "mean") else set()
    setattr(DeviceArray, _name, _reduction(_name, {"axis", "out", "keepdims"} | _own))


def _function(function, parameters=()):
    """Return a function of NumPy on device arrays, with these keywords only."""

    def on_device(*args, out=None, **kwargs):
        assert set(kwargs) <= set(parameters), f"{function.__name__} got {kwargs}"
        unwrapped = [_unwrapped(arg) for arg in args]
        options = {name: _unwrapped(value) for name, value in kwargs.items()}
        if out is None:
            return DeviceArray(function(*unwrapped, **options))
        function(*unwrapped, out=out._data, **options)
        return out

    return on_device


def _eigh(a):
    values, vectors = np.linalg.eigh(_unwrapped(a))
    return DeviceArray(values), DeviceArray(vectors)


def _argsort(a, axis=-1, kind=None):
    assert kind in (None, "stable"), f"CuPy has no argsort of kind {kind!r}"
    return DeviceArray(np.argsort(_unwrapped(a), axis=axis, kind="stable"))


def _refuses_arrays(a, dtype=None):
    raise TypeError("copies to the device go through Device.to_device")


def _add_at(a, indices, b):
    np.add.at(a._data, _unwrapped(indices), _unwrapped(b))


STRICT_NUMPY = SimpleNamespace(
    ndarray=DeviceArray,
    float32=np.float32,
    float64=np.float64,
    int32=np.int32,
    int64=np.int64,
    asarray=_refuses_arrays,
    array=_refuses_arrays,
    argsort=_argsort,
    add=SimpleNamespace(at=_add_at),
    linalg=SimpleNamespace(eigh=_eigh),
    **{
        name: _function(getattr(np, name), ("dtype",))
        for name in ("arange", "empty", "eye", "full", "zeros")
    },
    **{
        name: _function(getattr(np, name))
        for name in (
            "abs", "argpartition", "ascontiguousarray", "diff", "divide", "dot", "empty_like",
            "exp", "expm1", "flatnonzero", "isfinite", "isnan", "maximum", "minimum", "multiply",
            "sort", "sqrt", "stack", "subtract", "take", "vdot", "where", "zeros_like",
        )
    },
    concatenate=_function(np.concatenate, ("axis",)),
    cumsum=_function(np.cumsum, ("axis", "dtype")),
    searchsorted=_function(np.searchsorted, ("side",)),
)  # fmt: skip


STRICT_SPECIAL = SimpleNamespace(
    expit=_function(scipy.special.expit),
    log_expit=_function(scipy.special.log_expit),
    ndtr=_function(scipy.special.ndtr),
    softmax=_function(scipy.special.softmax, ("axis",)),
    log_softmax=_function(scipy.special.log_softmax, ("axis",)),
)  # of cupyx.scipy.special


class StrictDevice(EmulatedDevice):
    """An emulated device whose arrays are as unforgiving as CuPy's.

    Attributes
    ----------
    n_queued, n_done : int
        Arrays that its work was to make, and those that were complete when it was last waited for.
    """

    xp = STRICT_NUMPY
    n_queued = n_done = 0

    def synchronize(self):
        self.n_done = self.n_queued

    special = STRICT_SPECIAL

    def launch(self, kernel, grid, block, args, shared_bytes=0):
        for arg in args:
            assert not isinstance(arg, np.ndarray), f"{kernel.name}: an array of the host"
        arrays = tuple(arg._data if isinstance(arg, DeviceArray) else arg for arg in args)
        super().launch(kernel, grid, block, arrays, shared_bytes)

    @contextlib.contextmanager
    def use(self):
        before, _current.device = device_in_use(), self
        try:
            yield
        finally:
            _current.device = before

    def to_device(self, array):
        assert isinstance(array, np.ndarray), f"expected an array of the host, got {type(array)}"
        return DeviceArray(super().to_device(array), self)

    def to_host(self, array, out=None):
        assert isinstance(array, DeviceArray), f"expected an array of a device, got {type(array)}"
        return super().to_host(array._data, out)

    def address(self, array):
        assert array.memory.flags.c_contiguous, "NCCL would read past its strides"
        return super().address(array._data)

    def copy_of(self, array):
        assert array.memory.flags.c_contiguous, "CuPy would lay it out without waiting for it"
        assert array.place <= array.device.n_done, "a copy of what may not be complete yet"
        return DeviceArray(super().copy_of(array.memory), self)

    def cholesky(self, matrix):
        return DeviceArray(super().cholesky(matrix._data))

    def solve_lower(self, lower, right):
        return DeviceArray(super().solve_lower(lower._data, right._data))

    def adopt(self, array):
        return array if isinstance(array, DeviceArray) else DeviceArray(super().adopt(array))
