// LEAT_CLONES before a plain function: it is compiled once for each level of x86-64 and the loader
// picks. Results do not depend on the pick: the order of operations is written out, and products
// are never fused with sums (-ffp-contract=off).
#pragma once

// The loader's resolvers run before a sanitizer's runtime is ready.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define LEAT_CLONES __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define LEAT_CLONES
#endif

// What a cloned function calls must be compiled into it.
#define LEAT_INLINE inline __attribute__((always_inline))
