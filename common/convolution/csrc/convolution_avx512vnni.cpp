// For AVX-512 with products of bytes: four of them to a sum at once.
#define WIDTH 16
#define ROWS 12
#define VNNI
#include "run.inl"
#include "bytes.inl"

void convolution::run_avx512_vnni(const convolution_problem& problem) { RunBytes{problem}(); }
