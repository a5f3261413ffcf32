"""Copies of structures that lie in this process's memory, where a client's library has left them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Pointers = npt.NDArray[np.uint64]


class _AllMemory:
    """This process's memory as an array of `size`-byte items, one at every address from 1 on."""

    def __init__(self, size: int) -> None:
        shape = ((1 << 47) - size - 1,)
        self.__array_interface__ = {
            "version": 3,
            "typestr": f"|V{size}",
            "shape": shape,
            "strides": (1,),
            "data": (1, True),
        }


def reader(dtype: np.dtype[Any]) -> Callable[[Pointers], npt.NDArray[Any]]:
    """Return a function that copies the structure of this type at each of its addresses, which must be readable."""
    memory = np.asarray(_AllMemory(dtype.itemsize))
    return lambda pointers: memory[pointers.view(np.int64) - 1].view(dtype)
