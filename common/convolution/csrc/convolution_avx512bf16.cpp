// For AVX-512 with products of bfloat16: two of them to a sum at once.
#include <immintrin.h>

#define WIDTH 16
#define ROWS 12
#define BFLOAT16
#include "run.inl"

void convolution::run_avx512_bf16(const convolution_problem& problem) { Run<uint16_t, uint16_t>{problem}(); }
