"""Builds `_atomics._native` with cffi in API mode. Run by setuptools (`cffi_modules`)."""

from pathlib import Path

from cffi import FFI

HERE = Path(__file__).resolve().parent

ffibuilder = FFI()

# What Python sees through cffi. The cells are the small face to learn and experiment with; the
# runtime itself uses the native types that otv_native_face hands over.
ffibuilder.cdef(
    """
    typedef struct { ...; } otv_cell;

    int64_t cell_load(otv_cell *cell);
    void cell_lazy_set(otv_cell *cell, int64_t value);
    void cell_set(otv_cell *cell, int64_t value);
    bool cell_compare_and_set(otv_cell *cell, int64_t expected, int64_t desired);
    int64_t cell_get_and_set(otv_cell *cell, int64_t value);
    int64_t cell_get_and_add(otv_cell *cell, int64_t n);

    uintptr_t otv_native_face(void);
    """
)

ffibuilder.set_source(
    "_atomics._native",
    '#include "types.c"',
    include_dirs=[str(HERE)],
    depends=[str(path) for path in sorted(HERE.glob("*.[ch]")) if path.name != "_native.c"],
    # The limited API does not exist on free-threaded 3.13: both switches are needed, the first for
    # setuptools, the second for cffi's own header.
    py_limited_api=False,
    define_macros=[("_CFFI_NO_LIMITED_API", None)],
    extra_compile_args=["-std=c11", "-O2", "-D_GNU_SOURCE"],
)

if __name__ == "__main__":
    ffibuilder.compile(tmpdir=str(HERE.parent), verbose=True)
