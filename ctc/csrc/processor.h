// What this processor can run, for entry points that choose one of several builds of a kernel at run time.
#pragma once

// In the order of every C interface.
enum class InstructionSet { AUTOMATIC = 0, GENERIC = 1, AVX2 = 2, AVX512 = 3 };

inline bool is_supported(InstructionSet set) {
#if defined(__x86_64__)
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#else
    const bool avx2 = false, avx512 = false;
#endif
    return set == InstructionSet::GENERIC || (set == InstructionSet::AVX2 && avx2) ||
           (set == InstructionSet::AVX512 && avx512);
}

// AUTOMATIC becomes the best that this processor supports.
inline InstructionSet chosen(InstructionSet set) {
    if (set != InstructionSet::AUTOMATIC) return set;
    if (is_supported(InstructionSet::AVX512)) return InstructionSet::AVX512;
    return is_supported(InstructionSet::AVX2) ? InstructionSet::AVX2 : InstructionSet::GENERIC;
}
