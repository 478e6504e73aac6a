"""NVRTC from pip's ``nvidia-cuda-nvrtc``, with the functions of ``cupy.cuda.nvrtc``: no driver."""

import ctypes
import importlib.util
from pathlib import Path


class NVRTCError(RuntimeError):
    """What ``cupy.cuda.nvrtc`` calls its errors."""


class Nvrtc:
    """The library in a folder of a wheel."""

    NVRTCError = NVRTCError

    def __init__(self, path):
        self._library = ctypes.CDLL(str(path))
        self._library.nvrtcGetErrorString.restype = ctypes.c_char_p

    def _call(self, name, *args):
        status = self._library[name](*args)
        if status != 0:
            raise NVRTCError(f"{name}: {self._library.nvrtcGetErrorString(status).decode()}")

    def getVersion(self):
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._call("nvrtcVersion", ctypes.byref(major), ctypes.byref(minor))
        return major.value, minor.value

    def createProgram(self, source, name, headers, include_names):
        assert not headers
        assert not include_names
        program = ctypes.c_void_p()
        texts = source.encode(), name.encode()
        self._call("nvrtcCreateProgram", ctypes.byref(program), *texts, 0, None, None)
        return program

    def compileProgram(self, program, options):
        values = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
        self._call("nvrtcCompileProgram", program, len(options), values)

    def getCUBIN(self, program):
        return self._bytes("CUBIN", program)[:-1]  # CuPy takes the last byte for a string's NUL

    def getProgramLog(self, program):
        return self._bytes("ProgramLog", program).rstrip(b"\0").decode()

    def _bytes(self, what, program):
        size = ctypes.c_size_t()
        self._call(f"nvrtcGet{what}Size", program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        self._call(f"nvrtcGet{what}", program, buffer)
        return buffer.raw

    def destroyProgram(self, program):
        self._call("nvrtcDestroyProgram", ctypes.byref(program))


def find_nvrtc(below=None):
    """Return the installed NVRTC, or the one whose major version is below a number, or None."""
    spec = importlib.util.find_spec("nvidia")
    for place in [] if spec is None else spec.submodule_search_locations:
        for path in sorted(Path(place).glob("*/lib/libnvrtc.so.*")):
            # NVRTC opens it by its bare name later, which only finds what is already loaded.
            for builtins in path.parent.glob("libnvrtc-builtins.so.*"):
                ctypes.CDLL(str(builtins))
            found = Nvrtc(path)
            if below is None or found.getVersion()[0] < below:
                return found
    return None
