#include "decode_kernel.inl"
