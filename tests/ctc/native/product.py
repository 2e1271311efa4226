"""A native library of a few lines, with a file for each instruction set and one for CUDA."""

from pathlib import Path

from ctc.native import NativeLibrary

WHICH = """#include "product.h"
#include <cstring>
extern "C" __attribute__((visibility("default"))) const char* which() {
    static char known[64] = "generic";
#ifdef NATIVE_HAS_AVX2
    std::strcat(known, avx2());
#endif
#ifdef NATIVE_HAS_AVX512BF16
    std::strcat(known, avx512bf16());
#endif
    return known;
}
"""
HEADER = """#pragma once
#ifdef NATIVE_HAS_AVX2
const char* avx2();
#endif
#ifdef NATIVE_HAS_AVX512BF16
const char* avx512bf16();
#endif
"""
VECTOR = """#include "product.h"
#ifndef __%s__
#error not compiled for its instruction set
#endif
const char* %s() { return " %s"; }
"""
TEST = """#include "product.h"
#include <cstdio>
extern "C" const char* which();
int main(int count, char**) { int room[2] = {7, 8}; std::puts(which()); return room[count] == 8 ? 0 : 1; }
"""


def write_product(around: Path) -> NativeLibrary:
    """Writes the sources into the folder `product` in `around`; nothing is built."""
    package = around / "product"
    files = {
        "include/product.h": HEADER,
        "csrc/which.cpp": WHICH,
        "csrc/which_avx2.cpp": VECTOR % ("AVX2", "avx2", "avx2"),
        "csrc/which_avx512bf16.cpp": VECTOR % ("AVX512BF16", "avx512bf16", "avx512bf16"),
        "csrc/test/which_test.cpp": TEST,
    }
    for name, text in files.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text)
    return NativeLibrary(package=package, command="python -m product.build")
