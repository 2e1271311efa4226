#include "loss_kernel.inl"
