/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of weights. Goal: values that are no numbers are refused with the tensor's name and the
 * element, in every type of element, and the run is unchanged. Method: save weights, overwrite one
 * value in a copy of the tensors, load.
 */
#include "run/run.h"
#include "tensor/safetensors.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static fast_run *open_run(void)
{
    const char *const options[] = { "engine=ref", "model=mlp:hidden=8", "batch=8",
                                    "data=digits:train=16,test=8", NULL };
    fast_run *run = NULL;

    assert_int_equal(fast_run_open(options, &run), FAST_OK);
    return run;
}

/* Save the run's weights with dense1.bias replaced by 8 values of another type. */
static void save_with(const fast_run *run, const char *path, fast_dtype dtype, const void *values)
{
    fast_weights weights;
    bool found = false;

    assert_int_equal(fast__weights_list(run, 0, &weights), FAST_OK);
    for (int64_t i = 0; i < weights.count; i++) {
        fast_tensor *tensor = &weights.tensors[i];

        if (strcmp(tensor->name, "dense1.bias") != 0)
            continue;
        assert_int_equal(tensor->count, 8);
        tensor->dtype = dtype;
        tensor->data = values;
        found = true;
    }
    assert_true(found);
    assert_int_equal(fast__tensors_save(path, weights.tensors, weights.count, NULL), FAST_OK);
    fast__weights_fini(&weights);
}

static void values_that_are_no_numbers_are_refused(void **state)
{
    (void)state;
    const float fine[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
    const float nan32[8] = { 1, 2, 3, 4, 5, NAN, 7, 8 };
    const float inf32[8] = { -INFINITY, 2, 3, 4, 5, 6, 7, 8 };
    const double large[8] = { 1, 2, 3, 4, 5, 6, 7, 1e300 };
    const uint16_t half[8] = { 0, 0, 0x7e00 };
    const struct {
        fast_dtype dtype;
        const void *values;
        const char *detail;
    } cases[] = {
        { FAST_F32, nan32, "\"dense1.bias\" has nan at element 5" },
        { FAST_F32, inf32, "\"dense1.bias\" has -inf at element 0" },
        { FAST_F64, large, "\"dense1.bias\" has inf at element 7" },
        { FAST_F16, half, "\"dense1.bias\" has nan at element 2" },
    };
    fast_run *run = open_run();
    char path[] = "/tmp/fast-weights-XXXXXX";
    const int fd = mkstemp(path);

    assert_true(fd >= 0);
    close(fd);
    fast__run_measure_all(run);
    const uint64_t before = run->result.params_hash;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        save_with(run, path, cases[i].dtype, cases[i].values);
        assert_int_equal(fast__weights_load(run, path), FAST_EINVAL);
        if (!strstr(fast_error_detail(), cases[i].detail))
            fail_msg("%s", fast_error_detail());
        fast__run_measure_all(run);
        assert_int_equal(run->result.params_hash, before);
    }
    save_with(run, path, FAST_F32, fine);
    assert_int_equal(fast__weights_load(run, path), FAST_OK);
    unlink(path);
    fast_run_close(run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_that_are_no_numbers_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
