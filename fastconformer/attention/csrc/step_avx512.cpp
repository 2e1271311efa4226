#include "step_kernel.inl"
