// For any processor: vectors of 4 floats.
#define WIDTH 4
#define ROWS 6
#include "run.inl"
#include "pack.inl"

void convolution::run_generic(const convolution_problem& problem) {
    if (problem.is_bf16)
        Run<float, uint16_t>{problem}();
    else
        Run<float, float>{problem}();
}

void convolution::pack_generic(const packing& problem) { pack_all(problem); }
