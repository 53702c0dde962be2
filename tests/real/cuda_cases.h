/* Every kernel in every format, at sizes that are and are not multiples of the kernels' block sizes. */
#pragma once
#include "cuda_case.h"

void compare_all_kernels(Comparison *comparison);
/* Of these, the attention and norm kernels in one format. */
void compare_attention(Comparison *comparison, Number number);
void compare_norms(Comparison *comparison, Number number);
/* Copies in fp8, which must be equal to the bit, and their products. */
void compare_fp8(Comparison *comparison);
